"""Groups that are moved at a word, in memory: what the admin interface is given in place of a running shim's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from shim.admin.live.asked.migration import (
    PASSED_THROUGH,
    STEPS,
    Candidates,
    Difference,
    GroupStatus,
    Looked,
    NotKnown,
    Planned,
    Refused,
    Source,
    Verified,
    may_move,
)
from shim.migration.words import UNKNOWN

CHANGED_MS = 1_700_000_000_000

SHOWN: Final = (
    ("zookeeper", False),
    ("zookeeper", True),
    ("kafka", True),
    ("kafka", False),
    ("upstream", True),
    ("upstream", False),
)
"""Of each step, in their order, `offsets.storage` and `dual.commit.enabled`."""


@dataclass
class Moved:
    """A :class:`shim.admin.live.asked.migration.Migration`. ``refused``: groups that stay where they are, and why.

    ``held``: moves of these groups wait for the event; ``broken``: whatever is asked about these throws; ``uncertain``:
    likewise, and what.
    """

    groups: dict[str, GroupStatus] = field(default_factory=dict)
    unheard: set[str] = field(default_factory=set)
    """Of ``groups``, those that the cluster or ZooKeeper has and the shim has not heard of."""
    unanswered: list[str] = field(default_factory=list)
    left_alone: dict[str, str] = field(default_factory=dict)
    lacks: list[str] = field(default_factory=list)
    """Lines about partitions that are not served."""
    from_zookeeper: set[str] = field(default_factory=set)
    differing: dict[str, list[Difference]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    held: dict[str, asyncio.Event] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    uncertain: dict[str, Exception] = field(default_factory=dict)
    begun: list[str] = field(default_factory=list)
    sources: list[Source | None] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    looks: list[int | None] = field(default_factory=list)
    """How many groups each look was at; None: all."""
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    at_once: int = 0
    most_at_once: int = 0

    def add(self, *names: str, step: str = "upstream") -> None:
        for name in names:
            self.groups[name] = GroupStatus(name, step, "Stable", 2, None, "it was there")

    def tell(self, name: str, lag_seconds: float, alarm: str) -> None:
        self.groups[name] = self.of(name)._replace(lag_seconds=lag_seconds, alarm=alarm)

    def silent(self, name: str, why: str) -> None:
        """The broker that has it does not answer."""
        self.groups[name] = self.of(name)._replace(state=UNKNOWN, members=None, alarm=why)

    def step(self, name: str) -> str:
        return self.of(name).step

    def of(self, name: str) -> GroupStatus:
        if name in self.broken:
            raise RuntimeError("a bug")
        if name in self.uncertain:
            raise self.uncertain[name]
        if name not in self.groups:
            raise NotKnown(f"there is no group {name}")
        return self.groups[name]

    async def candidates(self) -> Candidates:
        groups = [each.group for each in self.groups.values() if may_move("start", each)]
        return Candidates(groups, self.unanswered, self.left_alone)

    async def plan(self, groups: Sequence[str]) -> Sequence[Planned]:
        self.looks.append(len(groups))
        return [
            Planned(each.group, each.state, each.members, 1, 3, self.refused.get(each.group, ""), each.storage)
            for each in map(self.of, groups)
        ]

    async def status(self, groups: Sequence[str] | None) -> Sequence[GroupStatus]:
        self.looks.append(None if groups is None else len(groups))
        return [self.of(name) for name in (self.groups.keys() - self.unheard if groups is None else groups)]

    async def status_of_served(self) -> Sequence[GroupStatus]:
        return [self.of(name) for name in await self.served()]

    async def left_out(self) -> Sequence[str]:
        return self.lacks

    async def served(self) -> Sequence[str]:
        return sorted(name for name in self.groups.keys() - self.unheard if self.step(name) != PASSED_THROUGH)

    async def offsets(self, group: str) -> Mapping[tuple[str, int], int]:
        self.of(group)
        return {("orders", 10): 7, ("orders", 2): 2**63 - 1, ("bills", 0): 0}

    async def verify(self, group: str) -> Verified:
        if self.step(group) == PASSED_THROUGH:
            raise Refused("its offsets are in the cluster alone")
        if group in self.refused:
            raise Refused(self.refused[group])
        return Verified(group, 3, self.differing.get(group, []))

    async def look(self, group: str, move: str) -> Looked:
        at = self.step(group)
        to = (self._advanced if move == "advance" else self._rolled_back)(group)
        hindrance = self.refused.get(group, "")
        verified = None if at == PASSED_THROUGH else Verified(group, 3, self.differing.get(group, []))
        return Looked(group, at, to, hindrance, verified)

    async def start(self, group: str, cause: str, source: Source | None = None) -> GroupStatus:
        self.sources.append(source)
        return await self._move(group, cause, self._started)

    async def advance(self, group: str, cause: str) -> GroupStatus:
        return await self._move(group, cause, self._advanced)

    async def rollback(self, group: str, cause: str) -> GroupStatus:
        return await self._move(group, cause, self._rolled_back)

    def _started(self, group: str) -> str:
        step = self.step(group)
        if step == "upstream":
            return "kafka"
        if step == "zookeeper":
            self.from_zookeeper.add(group)
            return "zookeeper+dual"
        raise Refused("it has been started")

    def _advanced(self, group: str) -> str:
        step = self.step(group)
        if step == STEPS[-1]:
            raise Refused("it is at the last step")
        return STEPS[STEPS.index(step) + 1]

    def _rolled_back(self, group: str) -> str:
        step = self.step(group)
        if step in ("upstream", "zookeeper"):
            raise Refused("it is at the first step")
        if step == "kafka" and group not in self.from_zookeeper:
            return "upstream"
        return STEPS[STEPS.index(step) - 1]

    async def _move(self, group: str, cause: str, to: Callable[[str], str]) -> GroupStatus:
        self.begun.append(group)
        await self._count(1)
        try:
            await self.held[group].wait() if group in self.held else await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.cancelled.append(group)
            raise
        finally:
            await self._count(-1)
        step, status = to(group), self.of(group)
        if group in self.refused:
            raise Refused(self.refused[group])
        self.unheard.discard(group)
        self.groups[group] = status._replace(step=step, changed_ms=CHANGED_MS, cause=cause)
        return self.groups[group]

    async def _count(self, more: int) -> None:
        self.at_once += more
        self.most_at_once = max(self.most_at_once, self.at_once)
        async with self.changed:
            self.changed.notify_all()

    async def until(self, so: Callable[[], bool]) -> None:
        async with self.changed:
            await self.changed.wait_for(so)
