"""What the admin interface asks for of groups beside their moves: details, lag, history, resets and deletions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from shim.groups.words import (
    NO_OFFSET,
    Change,
    Deleted,
    Details,
    Generation,
    GroupLag,
    Kind,
    Member,
    Moved,
    NotCertain,
    OffsetAt,
    Partition,
    Plan,
    Presence,
    Scope,
    Target,
    Undone,
    Window,
    awaited,
)


class Groups(Protocol):
    """Calls may be under way at the same time. Everything raises Refused, and NotKnown for a group that there is
    not."""

    async def details(self, group: str, *, with_last_commit: bool = True) -> Details:
        """``with_last_commit``: that alone needs the history on the disk."""

    async def lags(self, groups: Sequence[str]) -> Mapping[str, GroupLag]:
        """Of each group, in records, all partitions' together."""

    async def history(self, group: str, window: Window) -> Sequence[Moved] | None:
        """The oldest first; None where there is none of the group, whatever the window, be there such a group or
        not."""

    async def plan_reset(self, group: str, target: Target, scope: Scope, *, soon: bool = False) -> Plan:
        """What a reset would do now. ``soon``: brokers are waited for as by who only looks."""

    async def reset(self, group: str, changes: Sequence[Change], cause: str, host: str) -> None:
        """Set all of them, each only if its offset is still the one that the change says, or none. ``host``: the
        address of whoever asks. Raises :class:`NotCertain` besides."""

    async def look_at_deletion(self, group: str) -> Deleted:
        """What would be deleted."""

    async def delete(self, group: str, cause: str, host: str) -> Deleted:
        """With all its offsets. Raises :class:`NotCertain` besides."""


__all__ = [
    "NO_OFFSET",
    "Change",
    "Deleted",
    "Details",
    "Generation",
    "GroupLag",
    "Groups",
    "Kind",
    "Member",
    "Moved",
    "NotCertain",
    "OffsetAt",
    "Partition",
    "Plan",
    "Presence",
    "Scope",
    "Target",
    "Undone",
    "Window",
    "awaited",
]
