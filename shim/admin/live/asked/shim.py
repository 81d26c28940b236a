"""The shim that the admin interface is of, while it starts, runs and stops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from shim.admin.live.asked.groups import Groups
from shim.admin.live.asked.migration import Migration
from shim.admin.live.asked.overview import ClientsOf, Overview
from shim.metrics import Series
from shim.relocation.words import Relocates


class NotReady(Exception):
    """The shim has not come so far, or one of its workers is not there for now; the message is one line."""


class Shim(Protocol):
    """All that the interface has to do with: who moves groups, who looks after them, who moves the log, and what the
    shim tells of itself. One process, or all workers as one. For the event loop; it is there before it is ready."""

    @property
    def migration(self) -> Migration:
        """Who moves groups. Raises :class:`NotReady`."""

    @property
    def groups(self) -> Groups:
        """Who looks after them. Raises :class:`NotReady`."""

    @property
    def relocation(self) -> Relocates | None:
        """Who moves partitions of the log; None where that is in one place. Raises :class:`NotReady`."""

    def overview(self) -> Overview:
        """Raises :class:`NotReady`."""

    def clients(self) -> Sequence[ClientsOf]:
        """The oldest first. Raises :class:`NotReady`."""

    def missing(self) -> Sequence[str]:
        """What it lacks to serve all groups now, a line each; nothing where it does."""

    async def metrics(self) -> Sequence[Series]:
        """Raises :class:`NotReady`."""
