"""The first look at groups that were loaded, many at a time, and what comes between the question and the answer: a disk
that refuses what was decided, a turn of the mirror."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

from protocol.errors import ErrorCode
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.offsets_log import CommittedOffset
from protocol.own.state_log import Hands
from protocol.topic_partition import TopicPartition
from shim.config import Settings
from shim.coordinator import Asker, Caller, GroupCoordinator
from shim.migration.mirror.mirror import Mirror
from shim.offsets.cluster.groups import ClusterGroups, Committed
from shim.runtime import Runtime
from tests.migration.no_groups import none_blocked
from tests.waiting import until

AT = TopicPartition("t", 0)
LOADED, COMMITTED, OF_A_STRANGER = 5, 6, 77


class NobodyAsks:
    def answer(self, response: Any) -> None: ...


def loaded() -> GroupCoordinator:
    coordinator = GroupCoordinator()
    coordinator.take_in_hand(1, "g", Hands.SERVED, "", cast(Asker, NobodyAsks()))
    commit(coordinator, LOADED)
    return coordinator


def commit(coordinator: GroupCoordinator, offset: int) -> None:
    topic = OffsetCommitRequestTopic("t", partitions=(OffsetCommitRequestPartition(0, offset),))
    request = OffsetCommitRequest("g", topics=(topic,))
    coordinator.offset_commit(2, Caller("", "", ""), 8, request, cast(Asker, NobodyAsks()))


class OnePartition:
    """Of the runtime what the mirror asks of it. ``refuses``: of what has been decided the disk takes nothing."""

    num_partitions = 1

    def __init__(self) -> None:
        self.current: GroupCoordinator | None = None
        self.refuses = False
        self.unavailable: Counter[ErrorCode] = Counter()
        self._watchers: list[Callable[[int, GroupCoordinator | None], None]] = []

    def watch(self, told: Callable[[int, GroupCoordinator | None], None]) -> None:
        self._watchers.append(told)

    def serve(self, coordinator: GroupCoordinator | None) -> None:
        self.current = coordinator
        for told in self._watchers:
            told(0, coordinator)

    async def settled(self, number: int) -> None:
        if self.refuses:
            self.refuses = False
            self.serve(None)
            self.serve(loaded())

    def coordinator(self, number: int) -> GroupCoordinator | None:
        return self.current

    def coordinator_of(self, group: str) -> GroupCoordinator | None:
        return self.current

    def partition_of(self, group: str) -> int:
        return 0

    def is_owned_elsewhere(self, number: int) -> bool:
        return False


class OneGroup:
    """Of the cluster what the mirror asks of it."""

    def __init__(self) -> None:
        self.there: Committed = {AT: CommittedOffset(OF_A_STRANGER, -1, "", 0)}
        self.looks = 0
        self.meanwhile: Callable[[], Awaitable[None]] | None = None
        """Awaited once, before what it has just answered is known here."""

    async def groups(self, within_seconds: float) -> dict[str, Any]:
        return {"g": None}

    async def keeps_leader_epochs(self, group: str) -> bool:
        return True

    async def offsets_of(self, groups: Sequence[str], *, stable: bool) -> dict[str, Committed]:
        self.looks += 1
        found = {"g": dict(self.there)}
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            await meanwhile()
        return found

    async def try_commit(self, group: str, offsets: Committed, may_send: Callable[[], None]) -> list[Any]:
        may_send()
        self.there |= offsets
        return []


async def looked_at(runtime: OnePartition, cluster: OneGroup, *, refuses: bool) -> Mirror:
    """Once a commit has been decided that came before anybody looked."""
    mirror = Mirror(cast(Runtime, runtime), cast(ClusterGroups, cluster), Settings(), none_blocked, every_seconds=0.01)
    runtime.serve(coordinator := loaded())
    commit(coordinator, COMMITTED)
    runtime.refuses = refuses
    running = asyncio.create_task(mirror.run())
    try:
        await until(lambda: mirror.is_compared("g"))
        await mirror.fed("g")
    finally:
        running.cancel()
        await asyncio.wait([running])
        mirror.close()
    return mirror


async def test_what_the_disk_has_refused_was_no_commit() -> None:
    runtime, cluster = OnePartition(), OneGroup()
    mirror = await looked_at(runtime, cluster, refuses=True)
    assert cluster.there[AT].offset == OF_A_STRANGER, "what was loaded is not written over it"
    assert "t-0 (5 here, 77 there)" in mirror.alarm("g")
    assert not runtime.refuses, "it was asked whether all is durable"


async def test_what_the_disk_has_taken_was_one() -> None:
    cluster = OneGroup()
    mirror = await looked_at(OnePartition(), cluster, refuses=False)
    assert (cluster.there[AT].offset, mirror.alarm("g")) == (COMMITTED, "")


async def test_what_a_turn_has_found_out_meanwhile_is_newer() -> None:
    """Somebody has committed past the shim behind it, as the guard has seen."""
    runtime, cluster = OnePartition(), OneGroup()
    cluster.there = {AT: CommittedOffset(LOADED, -1, "", 0)}
    mirror = Mirror(cast(Runtime, runtime), cast(ClusterGroups, cluster), Settings(), none_blocked, every_seconds=0.01)

    async def seen_by_the_guard() -> None:
        await mirror.fed("g")
        cluster.there = {AT: CommittedOffset(OF_A_STRANGER, -1, "", 0)}
        mirror.doubt("g")

    cluster.meanwhile = seen_by_the_guard
    runtime.serve(loaded())
    running = asyncio.create_task(mirror.run())
    try:
        await until(lambda: cluster.meanwhile is None and mirror.is_compared("g") and mirror.lag_seconds("g") is None)
        assert cluster.there[AT].offset == LOADED
    finally:
        running.cancel()
        await asyncio.wait([running])
        mirror.close()
