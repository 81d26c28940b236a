"""What there is of groups beside their moves, in memory: for tests of the admin interface's own doings."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from shim.admin.live.asked.groups import (
    Change,
    Deleted,
    Details,
    GroupLag,
    Member,
    Moved,
    NotCertain,
    OffsetAt,
    Plan,
    Scope,
    Target,
    Window,
)
from shim.admin.live.asked.migration import Refused
from tests.admin.live.moved import Moved as MovedGroups

NOW_MS = 1_700_000_100_000
NO_BROKERS = "10.0.0.4:9092: Connection refused"
MOVED = Moved(1_700_000_000_000, "orders", 2, None, 7, "etl", "/10.0.0.4", "User:a", "m", 3, "")


@dataclass
class Grouped:
    """A :class:`shim.admin.live.asked.groups.Groups` of the groups in ``moved``. ``uncertain``: of these nobody knows
    what becomes of what is asked. ``planned``, ``resets`` and ``deleted``: what was asked for. ``hangs`` and
    ``breaks``: a reset does. ``planned_changes`` and ``state``: what a reset is planned as. ``without_brokers``: none
    says where logs end. ``without_offsets``: no group has any."""

    moved: MovedGroups
    hindrance: str = ""
    uncertain: set[str] = field(default_factory=set)
    planned: list[tuple[str, Target, Scope]] = field(default_factory=list)
    resets: list[tuple[str, Sequence[Change], str, str]] = field(default_factory=list)
    windows: list[Window] = field(default_factory=list)
    deleted: list[tuple[str, str]] = field(default_factory=list)
    members: list[Member] = field(default_factory=list)
    zookeeper_consumers: Sequence[str] | None = ()
    last_commit: Moved | None = None
    without_history: bool = False
    without_brokers: bool = False
    without_offsets: bool = False
    planned_changes: Sequence[Change] = (
        Change("orders", 0, 5, 0),
        Change("orders", 1, -1, 3, "9 is beyond the log's end"),
        Change("orders", 2, 4, 4),
    )
    state: str = "Empty"
    hangs: bool = False
    breaks: bool = False

    async def details(self, group: str, *, with_last_commit: bool = True) -> Details:
        offsets = {} if self.without_offsets else await self.moved.offsets(group)
        why = NO_BROKERS if self.without_brokers else ""
        ends = [OffsetAt(*at, offset, None, None, why) for at, offset in sorted(offsets.items())]
        return Details("consumer", self.members, ends, self.last_commit, None, NOW_MS, self.zookeeper_consumers)

    async def lags(self, groups: Sequence[str]) -> Mapping[str, GroupLag]:
        if self.without_brokers:
            return dict.fromkeys(groups, GroupLag(None, NO_BROKERS))
        return {group: GroupLag(None if group in self.uncertain else 12) for group in groups}

    async def history(self, group: str, window: Window) -> Sequence[Moved] | None:
        self.windows.append(window)
        if self.without_history:
            return None
        return [MOVED._replace(before=before) for before in (None, -1, 5)]

    async def plan_reset(self, group: str, target: Target, scope: Scope, *, soon: bool = False) -> Plan:
        self.planned.append((group, target, scope))
        return Plan(group, self.state, self.planned_changes, self.hindrance)

    async def reset(self, group: str, changes: Sequence[Change], cause: str, host: str) -> None:
        self.resets.append((group, changes, cause, host))
        if self.hangs:
            await asyncio.Event().wait()
        if self.breaks:
            raise LookupError("nobody has thought of that")
        if group in self.uncertain:
            raise NotCertain("it is in the log, and not in ZooKeeper")

    async def look_at_deletion(self, group: str) -> Deleted:
        self.moved.of(group)
        if group in self.moved.refused:
            raise Refused(self.moved.refused[group])
        return Deleted(group, 3)

    async def delete(self, group: str, cause: str, host: str) -> Deleted:
        found = await self.look_at_deletion(group)
        self.deleted.append((group, cause))
        if group in self.uncertain:
            raise NotCertain("it is in the log, and not in ZooKeeper")
        return found


class WithoutMoves(Grouped):
    async def history(self, group: str, window: Window) -> list[Moved]:
        return []
