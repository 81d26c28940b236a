"""What an audit is asked for."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

from shim.config import HostPort

if TYPE_CHECKING:
    # Tasks are told the addresses, and do without.
    from shim.admin.admin_client import RunningShim


class Addresses(NamedTuple):
    """Where the places are, as the executors reach them. ``zookeeper``: a connect string."""

    shim: Sequence[HostPort]
    upstream: Sequence[HostPort]
    zookeeper: str | None


class Asked(NamedTuple):
    """``admins``: the shim, asked at its admin port, or all that share a log; none where the steps are not asked for.
    ``groups``: a pattern, as in a shell. ``mirror``: see :class:`pipeline.audit.verdicts.Rules`. ``to``, ``formats``:
    what is written, and where."""

    addresses: Addresses
    admins: Sequence[RunningShim]
    groups: str
    mirror: bool
    second_look_seconds: float
    to: str | None
    formats: Collection[str]
