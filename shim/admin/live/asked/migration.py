"""What the admin interface asks for: in whose hands each group is, at which step, and to have it moved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from shim.migration.words import (
    PASSED_THROUGH,
    STEPS,
    Candidates,
    Difference,
    GroupStatus,
    Looked,
    Move,
    NotKnown,
    Planned,
    Refused,
    Source,
    StepMove,
    Verified,
    may_move,
    step_name,
)


class Migration(Protocol):
    """Calls may be under way at the same time, for the same group too. One that is cancelled leaves the group at one
    step or at the other.
    """

    async def candidates(self) -> Candidates:
        """The groups that a start could be about: those passed through, those that the cluster or ZooKeeper
        has and the shim has not heard of, and those that are in ZooKeeper without dual commit."""

    async def plan(self, groups: Sequence[str]) -> Sequence[Planned]:
        """What a start would find. Raises :class:`NotKnown`."""

    async def status(self, groups: Sequence[str] | None) -> Sequence[GroupStatus]:
        """None: all that the shim has heard of. Raises :class:`NotKnown`."""

    async def status_of_served(self) -> Sequence[GroupStatus]:
        """Of all that the shim serves itself; nobody else is asked, so that no broker is waited for."""

    async def left_out(self) -> Sequence[str]:
        """Lines about partitions of the log that are this shim's, and not served now: nothing is told of their groups
        where groups are not named."""

    async def served(self) -> Sequence[str]:
        """Of the groups that the shim has heard of, those that it serves itself; nobody else is asked."""

    async def verify(self, group: str) -> Verified:
        """The log beside each other place that the group's offsets are in. Raises :class:`Refused` where they cannot be
        compared, and :class:`NotKnown`."""

    async def look(self, group: str, move: StepMove) -> Looked:
        """What ``move`` would do now. Raises :class:`Refused` where it is known to lead nowhere, or
        where the group cannot be compared, and :class:`NotKnown`."""

    async def start(self, group: str, cause: str, source: Source | None = None) -> GroupStatus:
        """Take it over; may take as long as a rebalance. ``source``: where the right offsets are, of one that is passed
        through and that ZooKeeper has, too. Raises :class:`Refused` and :class:`NotKnown`."""

    async def advance(self, group: str, cause: str) -> GroupStatus:
        """One step on; may take as long as a rebalance. Raises :class:`Refused` and :class:`NotKnown`."""

    async def rollback(self, group: str, cause: str) -> GroupStatus:
        """One step back; may take as long as a rebalance. Raises :class:`Refused` and :class:`NotKnown`."""


__all__ = [
    "PASSED_THROUGH",
    "STEPS",
    "Candidates",
    "Difference",
    "GroupStatus",
    "Looked",
    "Migration",
    "Move",
    "NotKnown",
    "Planned",
    "Refused",
    "Source",
    "StepMove",
    "Verified",
    "may_move",
    "step_name",
]
