"""What the admin interface asks for: in whose hands each group is, and to have it change hands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from shim.migration.words import GroupStatus, NotKnown, Planned, Refused


class Migration(Protocol):
    """Calls may be under way at the same time, for the same group too. One that is cancelled leaves the group in one
    place's hands or in the other's.
    """

    async def plan(self, groups: Sequence[str] | None) -> Sequence[Planned]:
        """None: all that are passed through. Raises :class:`NotKnown`."""

    async def status(self, groups: Sequence[str] | None) -> Sequence[GroupStatus]:
        """None: all. Raises :class:`NotKnown`."""

    async def offsets(self, group: str) -> Mapping[tuple[str, int], int]:
        """By topic and partition. Raises :class:`NotKnown`."""

    async def start(self, group: str, cause: str) -> GroupStatus:
        """Take it over; may take as long as a rebalance. Raises :class:`Refused` and :class:`NotKnown`."""

    async def rollback(self, group: str, cause: str) -> GroupStatus:
        """Hand it back; may take as long as a rebalance. Raises :class:`Refused` and :class:`NotKnown`."""


__all__ = ["GroupStatus", "Migration", "NotKnown", "Planned", "Refused"]
