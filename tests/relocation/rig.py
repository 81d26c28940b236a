"""A shim's log in a data directory and on topics of a real broker, without ports: partitions are moved, and it is
killed between any two steps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.offsets_log import OffsetCommitKey, OffsetCommitValue
from protocol.own.position import Position
from protocol.own.state_log import Hands
from shim.config import Settings, parse_servers
from shim.coordinator import Caller, FollowedBatch, GroupCoordinator, TransactionEnd
from shim.kafka_log.backend import KafkaBackend
from shim.log import LogError
from shim.log.directory.places import Places
from shim.relocation.backend import TwoLogs
from shim.relocation.mover import Mover, Stage
from shim.relocation.words import PartitionPlace, Side
from shim.runtime import Clock, Runtime
from shim.serve.log_on_disk import Opened, _opened
from shim.serve.logs import logs_of
from shim.upstream import Cluster
from tests.kafka_log.deciding import known

PARTITIONS = 2
FOLLOWED = 3
CALLER = Caller("client", "/127.0.0.1", "User:alice")
WAIT_S = 60.0


class Killed(BaseException):
    """In place of SIGKILL: nothing of the process goes on behind it."""


class Told:
    def __init__(self) -> None:
        self.told: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def answer(self, response: Any) -> None:
        self.told.set_result(response)

    def fail(self, error: Any) -> None:
        self.told.set_result(error)


def settings_of(prefix: str, log: str = "moving") -> Settings:
    return Settings(
        offsets_log=log,
        offsets_log_topics_prefix=prefix,
        offsets_topic_num_partitions=PARTITIONS,
        offsets_topic_replication_factor=1,
        offsets_topic_segment_bytes=1 << 20,
        offsets_read_lease_ms=50,
    )


class Rig:
    """One process of the shim."""

    def __init__(self, opened: Opened, cluster: Cluster, settings: Settings) -> None:
        self.opened = opened
        self.cluster = cluster
        self.was_killed = False
        claimed = asyncio.Event()
        claimed.set()
        logs = logs_of(opened, cluster, settings, Clock(), claimed)
        self.runtime = Runtime(logs.backend, settings, Clock())
        self.runtime.watch(_caught_up)
        self.runtime.admit()
        self.relocation = logs.relocation(self.runtime)
        self.backend = logs.backend
        if self.runtime.is_divided:
            self.runtime.own(range(PARTITIONS))

    @property
    def places(self) -> Places:
        assert self.opened.places is not None
        return self.opened.places

    @property
    def mover(self) -> Mover:
        assert isinstance(self.backend, TwoLogs)
        return self.backend._mover

    def state(self, number: int) -> dict[str, Any]:
        """All that the partition has, whether it is durable or not."""
        coordinator = self.runtime.coordinator(number)
        assert coordinator is not None, f"partition {number} is not served"
        return known(coordinator)

    def group_in(self, number: int, at: int = 0) -> str:
        names = (name for i in range(1_000) if self.runtime.partition_of(name := f"group-{i}") == number)
        return [next(names) for _ in range(at + 1)][-1]

    # -- requests

    async def asked(self, number: int, decide: Any) -> Any:
        ticket = Told()
        self.runtime.submit(number, lambda coordinator, now, asker: decide(coordinator, now, asker), ticket)
        async with asyncio.timeout(WAIT_S):
            return await ticket.told

    async def commit(self, group: str, offset: int, partition: int = 0) -> None:
        request = OffsetCommitRequest(
            group,
            topics=(OffsetCommitRequestTopic("t", partitions=(OffsetCommitRequestPartition(partition, offset),)),),
        )
        answer = await self.asked(
            self.runtime.partition_of(group), lambda c, now, asker: c.offset_commit(now, CALLER, 8, request, asker)
        )
        assert answer.topics[0].partitions[0].error_code == 0, answer

    async def follow(self, number: int, read: Any) -> None:
        self.runtime.decide(number, lambda coordinator, now: coordinator.follow(now, read))
        await self.runtime.settled(number)

    async def begin(self, producer: int, group: str, offset: int, *partitions: int) -> None:
        """A transaction, with offsets of that group."""
        number = self.runtime.partition_of(group)
        records = [(OffsetCommitKey(group, "t", each), OffsetCommitValue(offset)) for each in partitions]
        await self.follow(number, FollowedBatch(producer, 0, self._next(number), records))

    async def end(self, producer: int, number: int, *, committed: bool) -> None:
        await self.follow(number, TransactionEnd(producer, 0, self._next(number), committed, 7))

    def _next(self, number: int) -> Position:
        coordinator = self.runtime.coordinator(number)
        assert coordinator is not None
        at = coordinator.followed.get(FOLLOWED, Position(FOLLOWED, 0, 0, 0, bytes([3] * 16)))
        return at._replace(next_offset=at.next_offset + 1)

    async def take_in_hand(self, group: str) -> None:
        await self.asked(
            self.runtime.partition_of(group),
            lambda c, now, asker: c.take_in_hand(now, group, Hands.PASSED_THROUGH, "a test", asker),
        )

    def offset(self, group: str, partition: int = 0) -> int:
        coordinator = self.runtime.coordinator_of(group)
        assert isinstance(coordinator, GroupCoordinator)
        (found,) = [
            each.committed_offset
            for topic in coordinator.own_offsets(group).topics
            for each in topic.partitions
            if each.partition_index == partition
        ]
        return found

    async def fill(self, number: int) -> None:
        """Some of all that a partition may have: what is pending in two transactions, in force and overtaken."""
        group, other, passed = (self.group_in(number, at) for at in range(3))
        for partition in range(3):
            await self.commit(group, 10 + partition, partition)
        await self.begin(71, group, 100, 0, 1)
        await self.begin(72, group, 200, 1, 2)
        await self.begin(71, other, 300, 0)
        await self.commit(group, 50, 0)  # it wins over the first
        await self.take_in_hand(passed)
        state = self.state(number)
        assert all((any(state["overtaken"].values()), any(state["in order"].values()), state["hands"]))

    # -- moving

    async def move(self, to: Side) -> None:
        """All partitions, until that is over."""
        moved = await self.tried(to)
        assert [each.trouble for each in moved] == [""] * PARTITIONS
        assert {each.log for each in moved} == {str(to)}

    async def tried(self, to: Side) -> Sequence[PartitionPlace]:
        assert self.relocation is not None
        moved = await self.relocation.begin(to)
        async with asyncio.timeout(WAIT_S):
            while moved.to is not None:
                moved = await self.relocation.changed(moved.changes, WAIT_S)
        return moved.partitions

    async def move_until(self, number: int, to: Side, last: Stage) -> None:
        """One partition, to the end of that stage, where the process is killed."""
        killed = asyncio.get_running_loop().create_future()

        def reached(its: int, step: Stage) -> None:
            if (its, step) == (number, last):
                killed.set_result(None)
                raise Killed

        self.mover.reached = reached
        assert self.relocation is not None
        moving = asyncio.ensure_future(self.relocation.begin(to))
        async with asyncio.timeout(WAIT_S):
            await killed
        moving.cancel()
        self.was_killed = True


@asynccontextmanager
async def running(
    bootstrap: str, data_dir: Path, settings: Settings, *, cluster_id: str = "a cluster"
) -> AsyncIterator[Rig]:
    """Stopped in good order at the end, unless it was :meth:`Rig.move_until` that ended it."""
    cluster = Cluster(parse_servers(bootstrap), settings)
    opened = _opened(data_dir, settings, None)
    opened.data_dir.claim(cluster_id)
    rig = Rig(opened, cluster, settings)
    following = asyncio.create_task(cluster.run())
    writing = asyncio.create_task(rig.runtime.run())
    try:
        async with asyncio.timeout(WAIT_S):
            await _until_loaded(rig.runtime)
        yield rig
    finally:
        if rig.was_killed:
            await _kill(rig, writing)
        else:
            rig.runtime.stop()
            async with asyncio.timeout(WAIT_S):
                await writing
                await rig.runtime.close(WAIT_S)
        if rig.relocation is not None:
            await rig.relocation.close()
        following.cancel()
        await asyncio.gather(following, writing, return_exceptions=True)
        opened.data_dir.close()


async def not_served(bootstrap: str, data_dir: Path, settings: Settings, number: int) -> str:
    """Why a partition is not, by a shim that has its log on topics, and what to do about it."""
    cluster = Cluster(parse_servers(bootstrap), settings)
    opened = _opened(data_dir, settings, None)
    rig = Rig(opened, cluster, settings)
    following = asyncio.create_task(cluster.run())
    try:
        await rig.backend.open()
        with pytest.raises(LogError) as refused:
            await rig.backend.load(number)
        return f"{refused.value}; {rig.backend.remedy(number)}"
    finally:
        rig.runtime.stop()
        await rig.runtime.close(WAIT_S)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        opened.data_dir.close()


def _caught_up(_: int, coordinator: GroupCoordinator | None) -> None:
    """The test has the cluster's log, and nothing is in there that it did not give."""
    if coordinator is not None:
        coordinator.caught_up(FOLLOWED)


async def _kill(rig: Rig, writing: asyncio.Task[None]) -> None:
    """As far as that is possible for a part of a process: nothing is written any more, and nobody says goodbye."""
    rig.runtime._keeper.stop()
    for task in rig.runtime._keeper._seen_to.values():
        task.cancel()
    writing.cancel()
    kafka = rig.backend._kafka if isinstance(rig.backend, TwoLogs) else rig.backend
    if isinstance(rig.backend, TwoLogs):
        rig.backend._local._cleaning.stop()  # or its thread keeps the tests' own process from ending
    if isinstance(kafka, KafkaBackend):
        if kafka._taking_snapshots is not None:
            kafka._taking_snapshots.stop()
            await kafka._taking_snapshots.ended()  # or its thread removes files that the next one reads
        for topic in (kafka._offsets, kafka._history):
            if topic is not None:
                topic.close()


async def _until_loaded(runtime: Runtime) -> None:
    await runtime.load()
    loaded = asyncio.Event()

    def look(*_: object) -> None:
        if all(runtime.coordinator(number) is not None for number in range(PARTITIONS)):
            loaded.set()

    runtime.watch(look)
    look()
    await loaded.wait()
