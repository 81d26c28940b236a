"""Groups that change hands at a word, in memory: what the admin interface is given in place of a running shim's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from shim.admin.live.migrating import GroupStatus, NotKnown, Planned, Refused

CHANGED_MS = 1_700_000_000_000


@dataclass
class Moved:
    """A :class:`shim.admin.live.migrating.Migration`. ``refused``: groups that stay where they are, and why.

    ``held``: moves of these groups wait for the event; ``broken``: whatever is asked about these throws.
    """

    groups: dict[str, GroupStatus] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    held: dict[str, asyncio.Event] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    begun: list[str] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    looks: list[int | None] = field(default_factory=list)
    """How many groups each look was at; None: all."""
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    at_once: int = 0
    most_at_once: int = 0

    def add(self, *names: str, storage: str = "upstream") -> None:
        for name in names:
            self.groups[name] = GroupStatus(name, storage, False, "Stable", 2, None, "it was there")

    def of(self, name: str) -> GroupStatus:
        if name in self.broken:
            raise RuntimeError("a bug")
        if name not in self.groups:
            raise NotKnown(f"there is no group {name}")
        return self.groups[name]

    async def plan(self, groups: Sequence[str] | None) -> Sequence[Planned]:
        self.looks.append(None if groups is None else len(groups))
        names = groups or [each.group for each in self.groups.values() if each.storage == "upstream"]
        return [
            Planned(each.group, each.state, each.members, 1, 3, self.refused.get(each.group, ""))
            for each in map(self.of, names)
        ]

    async def status(self, groups: Sequence[str] | None) -> Sequence[GroupStatus]:
        self.looks.append(None if groups is None else len(groups))
        return [self.of(name) for name in (self.groups if groups is None else groups)]

    async def offsets(self, group: str) -> Mapping[tuple[str, int], int]:
        self.of(group)
        return {("orders", 10): 7, ("orders", 2): 2**63 - 1, ("bills", 0): 0}

    async def start(self, group: str, cause: str) -> GroupStatus:
        return await self._move(group, "kafka", cause)

    async def rollback(self, group: str, cause: str) -> GroupStatus:
        return await self._move(group, "upstream", cause)

    async def _move(self, group: str, storage: str, cause: str) -> GroupStatus:
        self.begun.append(group)
        await self._count(1)
        try:
            await self.held[group].wait() if group in self.held else await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.cancelled.append(group)
            raise
        finally:
            await self._count(-1)
        status = self.of(group)
        if group in self.refused:
            raise Refused(self.refused[group])
        self.groups[group] = status._replace(storage=storage, changed_ms=CHANGED_MS, cause=cause)
        return self.groups[group]

    async def _count(self, more: int) -> None:
        self.at_once += more
        self.most_at_once = max(self.most_at_once, self.at_once)
        async with self.changed:
            self.changed.notify_all()

    async def until(self, so: Callable[[], bool]) -> None:
        async with self.changed:
            await self.changed.wait_for(so)
