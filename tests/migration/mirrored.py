"""A runtime and its mirror in front of a real broker, without the ports that clients come in at."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer

from protocol.errors import ErrorCode
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from protocol.own.state_log import Hands
from protocol.partition import OFFSETS_TOPIC
from protocol.topic_partition import TopicPartition
from shim.config import Settings, parse_servers
from shim.coordinator import GroupCoordinator
from shim.demo.parts import Broker
from shim.demo.parts import Cluster as Brokers
from shim.disk_log import DiskBackend, open_log
from shim.following import Topics, TransactionFollower
from shim.migration.mirror.mirror import Mirror
from shim.offsets.cluster.groups import ClusterGroups, Committed, RefusedPartition
from shim.offsets.cluster.kept_brokers import KeptBrokers
from shim.runtime import Clock, Runtime
from shim.upstream import Cluster, ClusterTopics, TopicReader
from shim.upstream.errors import Unanswered, UpstreamError
from tests.migration.test_transactions import begun
from tests.runtime.running import CALLER
from tests.runtime.test_hands import WAIT_SECONDS, decided, take
from tests.waiting import until, until_told

SETTINGS: Final = Settings(offsets_topic_num_partitions=3, topology_refresh_interval_ms=100)
OFTEN_SECONDS: Final = 0.02


class WatchedGroups(ClusterGroups):
    """It remembers what it has written. ``meanwhile``: awaited once, after the cluster has told what it has, and before
    that is known here."""

    def __init__(self, brokers: KeptBrokers, patience_seconds: float = 15.0) -> None:
        super().__init__(brokers, patience_seconds)
        self.committed: list[tuple[str, Committed]] = []
        self.deleted: list[tuple[str, Sequence[TopicPartition]]] = []
        self.meanwhile: Callable[[], Awaitable[None]] | None = None
        self.hangs = False
        """Commits are not answered in time, and may be done late."""
        self.is_done_unanswered = False
        """Those that are done are not answered."""
        self.unanswered = 0
        self.is_cut_off = False
        """The cluster cannot be reached, by the mirror alone."""

    async def offsets_of(self, groups: Sequence[str], *, stable: bool = True) -> dict[str, Committed]:
        self._reach()
        found = await super().offsets_of(groups, stable=stable)
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            await meanwhile()
        return found

    async def try_commit(self, group: str, offsets: Committed, *others: Any) -> list[RefusedPartition]:
        self.committed.append((group, offsets))
        self._reach()
        if self.hangs:
            raise Unanswered("timed out")
        refused = await super().try_commit(group, offsets, *others)
        if self.is_done_unanswered and not refused:
            self.unanswered += 1
            raise Unanswered("timed out")
        return refused

    async def try_delete(
        self, group: str, partitions: Sequence[TopicPartition], *others: Any
    ) -> list[RefusedPartition]:
        self.deleted.append((group, partitions))
        self._reach()
        return await super().try_delete(group, partitions, *others)

    def _reach(self) -> None:
        if self.is_cut_off:
            raise UpstreamError("the network is gone")


class Mirrored:
    """``groups``: through which the mirror writes. ``cluster_groups``: to look at what the cluster has."""

    def __init__(self, runtime: Runtime, cluster: Cluster, settings: Settings) -> None:
        self.runtime = runtime
        self.cluster = cluster
        self.brokers = KeptBrokers(cluster, settings)
        self.groups = WatchedGroups(self.brokers, 0)
        self._cluster_topics = ClusterTopics(cluster, settings)
        self.topics = Topics(self._cluster_topics, settings)
        """Nobody looks, but who asks."""
        self.mirror = Mirror(
            runtime,
            self.groups,
            settings,
            self.topics.blocked,
            every_seconds=OFTEN_SECONDS,
            nowhere_seconds=OFTEN_SECONDS * 10,
        )
        self._other_brokers = KeptBrokers(cluster, settings)
        self.cluster_groups = ClusterGroups(self._other_brokers)

    def close(self) -> None:
        self.mirror.close()
        self.brokers.close()
        self._other_brokers.close()
        self._cluster_topics.close()

    def coordinator(self, group: str) -> GroupCoordinator:
        found = self.runtime.coordinator_of(group)
        assert found is not None
        return found

    async def serve(self, group: str, hands: Hands = Hands.SERVED) -> None:
        assert (await decided(self.runtime, group, partial(take, group, hands))).done

    async def commit(
        self, group: str, topic: str, *partitions: OffsetCommitRequestPartition, tells: bool = True
    ) -> None:
        """``tells``: the mirror hears of it at once."""
        request = OffsetCommitRequest(group, topics=(OffsetCommitRequestTopic(topic, partitions=partitions),))
        answer = await decided(
            self.runtime, group, lambda its, now, asker: its.offset_commit(now, CALLER, 8, request, asker)
        )
        assert {each.error_code for each in answer.topics[0].partitions} == {0}
        if tells:
            self.tell()

    async def commit_offset(self, group: str, topic: str, offset: int) -> None:
        """Of partition 0."""
        await self.commit(group, topic, OffsetCommitRequestPartition(0, offset))

    async def delete_offset(self, group: str, topic: str, number: int) -> None:
        topics = (OffsetDeleteRequestTopic(topic, (OffsetDeleteRequestPartition(number),)),)
        request = OffsetDeleteRequest(group, topics)
        await decided(self.runtime, group, lambda its, now, asker: its.offset_delete(now, CALLER, 0, request, asker))
        self.tell()

    async def delete(self, group: str) -> None:
        await decided(self.runtime, group, lambda its, now, asker: its.delete_group(now, CALLER, group, asker))
        self.tell()

    def tell(self) -> None:
        """The mirror of what has changed."""
        for number in range(self.runtime.num_partitions):
            coordinator = self.runtime.coordinator(number)
            if coordinator is not None:
                self.mirror.touched(coordinator.take_touched())

    async def in_cluster(self, group: str) -> dict[TopicPartition, tuple[int, int, str]]:
        """Offset, leader epoch and metadata."""
        found = (await self.cluster_groups.offsets_of([group], stable=False))[group]
        return {at: its[:3] for at, its in found.items()}

    async def offset_in_cluster(self, group: str, topic: str, number: int = 0) -> int | None:
        found = (await self.in_cluster(group)).get(TopicPartition(topic, number))
        return None if found is None else found[0]

    async def comes_to(self, group: str, topic: str, offset: int, number: int = 0) -> None:
        """In the cluster; a transaction is committed a little before its offsets are in force."""

        async def is_there() -> bool:
            return await self.offset_in_cluster(group, topic, number) == offset

        await until_told(is_there)

    async def brought(self, group: str) -> None:
        """Also where nothing is mirrored; a broker that is new has its coordinators by then."""
        self.mirror._outbox.touch(group)
        await self.reached(group)

    async def reached(self, *groups: str) -> None:
        await until(lambda: all(self.mirror.lag_seconds(group) is None for group in groups))


@asynccontextmanager
async def mirrored(broker: Broker | Brokers, data_dir: Path, settings: Settings = SETTINGS) -> AsyncIterator[Mirrored]:
    cluster = Cluster(parse_servers(broker.bootstrap_servers), settings)
    watching = asyncio.create_task(cluster.run())
    await until(lambda: cluster.looked_up)
    runtime = Runtime(DiskBackend(open_log(data_dir, settings), settings, Clock()), settings, Clock())
    at = Mirrored(runtime, cluster, settings)
    runtime.admit()
    await runtime.load()
    tasks = [asyncio.create_task(runtime.run()), asyncio.create_task(at.mirror.run())]
    try:
        yield at
    finally:
        at.close()
        runtime.stop()
        for task in (watching, tasks[1]):
            task.cancel()
        await asyncio.wait([watching, *tasks], timeout=WAIT_SECONDS)
        await runtime.close(WAIT_SECONDS)


@asynccontextmanager
async def transaction(
    at: Mirrored, broker: Broker, group: str, topic: str, partition: int, offset: int
) -> AsyncIterator[tuple[TransactionFollower, Producer]]:
    """One that is open, with an offset of the group, as is known here; at the end nobody follows the cluster's log any
    more."""
    following = TransactionFollower(at.runtime, TopicReader(at.cluster, SETTINGS, OFFSETS_TOPIC))
    try:
        await until(lambda: following.ready(group) is ErrorCode.NONE)
        producer = await asyncio.to_thread(begun, broker.bootstrap_servers, group, topic, partition, offset)
        await until(lambda: at.coordinator(group).has_pending(group))
        yield following, producer
    finally:
        await following.stop()
