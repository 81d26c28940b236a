"""A broker that is cut off from the controllers alone leads on, knows nothing of whoever leads in its place, and tells
all who reach it what it had. An offset that is deleted then, and whose tombstone compaction has removed at the new
leader, does not rise again: neither where it was followed at the deposed one, nor where that one is asked first."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import ExitStack, aclosing, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from protocol.messages import offset_delete
from protocol.offsets_log import OffsetCommitKey, encode_key
from protocol.own.position import Position
from protocol.own.topic_log import Owner
from shim.config import Settings, parse_servers
from shim.coordinator import CoordinatorSettings, GroupCoordinator
from shim.demo.parts import Broker, free_port
from shim.demo.parts import Cluster as Parts
from shim.demo.parts.metadata import TopicPartition, cluster_view
from shim.kafka_log.owning.owned_topic import OwnedTopic
from shim.kafka_log.reading.read_part import NotWhole
from shim.kafka_log.taking_over.taking_over import TakingOver
from shim.kafka_log.topics.wanted import LEAST_MESSAGE_BYTES, TopicsWanted
from shim.runtime.progress import Progress
from shim.upstream import Cluster
from shim.upstream.topic_reader import TopicReader
from tests.faults.relay import Ending, Fault, Relay, Way
from tests.kafka_log.topics.test_watch import alter
from tests.relocation.rig import CALLER, PARTITIONS, WAIT_S, Rig, running, settings_of
from tests.waiting import until, wait_until

DELETED: Final = 40
KEPT: Final = 41
"""Partitions that the group has offsets of."""
SOON: Final = {
    "segment_ms": "500",
    "min_compaction_lag_ms": "0",
    "min_cleanable_dirty_ratio": "0.0",
    "delete_retention_ms": "1000",
}
AS_EVER: Final = {"min_compaction_lag_ms": "60000", "delete_retention_ms": "3600000"}


class Divided:
    """Three brokers, each of which can be kept from the controller, which is at the first one."""

    def __init__(self, folder: Path) -> None:
        properties = {"log.cleaner.backoff.ms": 200, "log.segment.delete.delay.ms": 100}
        self.parts = Parts(folder, properties=properties)
        self.controller, *others = self.parts.brokers
        port, behind = free_port(), self.controller.port + 1
        self.relay = Relay({port: behind})
        address = f"127.0.0.1:{port}"
        named = f"PLAINTEXT://{self.controller.address},CONTROLLER://{address}"
        self.controller._properties["advertised.listeners"] = named
        for broker in others:
            broker.quorum = broker.quorum._replace(controller=address)

    def leader(self, of: TopicPartition, at: Broker | None = None) -> Broker:
        """As that one says; by default the controller's."""
        asked = at or self.controller
        node_id = cluster_view(asked.host, asked.port, (of.topic,)).leaders[of]
        return self.parts.brokers[node_id - 1]

    def cut_off(self, broker: Broker) -> None:
        ids = [f"raft-client-{broker.node_id}", str(broker.node_id)]
        self.relay.put(*(Fault(Way.TO_SERVER, each, end=Ending.CLOSED) for each in ids))
        assert sum(self.relay.end_all(Ending.CLOSED, each) for each in ids)

    def heal(self) -> None:
        self.relay.put()


@pytest.fixture
async def divided(tmp_path: Path) -> AsyncIterator[Divided]:
    its = Divided(tmp_path / "brokers")
    with ExitStack() as ending:
        ending.enter_context(its.relay)
        ending.callback(its.parts.kill)  # who is cut off does not come to an end otherwise
        await asyncio.to_thread(its.parts.start)
        yield its


@asynccontextmanager
async def another(bootstrap: str, settings: Settings) -> AsyncIterator[TakingOver]:
    """Of a second shim what takes over. It does not look for brokers, and asks them in that order."""
    cluster = Cluster(parse_servers(bootstrap), settings)
    wanted = TopicsWanted(settings.offsets_log_topics_prefix, PARTITIONS, settings.offsets_topic_replication_factor)
    owned = OwnedTopic(
        *(cluster, settings, wanted.offsets, Owner(uuid.uuid4().bytes, "another", settings.offsets_read_lease_ms)),
        patience_seconds=30.0,
        silent_seconds=3_600.0,
        max_message_bytes=LEAST_MESSAGE_BYTES,
    )
    reader = TopicReader(cluster, settings, wanted.offsets)
    its = TakingOver(cluster, settings, wanted, owned, reader, None, CoordinatorSettings, Progress())
    its.retention_told(3_600.0)
    try:
        yield its
    finally:
        await its.end()
        owned.close()
        await its.close(30.0)


def offsets(coordinator: GroupCoordinator, group: str) -> dict[int, int]:
    """By partition."""
    topics = coordinator.own_offsets(group).topics
    return {each.partition_index: each.committed_offset for topic in topics for each in topic.partitions}


async def end_without(key: bytes, of: TopicPartition, leader: Broker, settings: Settings) -> int:
    """Behind what that leader has of the partition; 0 for as long as it has that key, deleted or not."""
    reader = TopicReader(Cluster(parse_servers(leader.address), settings), settings, of.topic)
    async with aclosing(reader.read(Position(of.partition, 0))) as reading:
        async for read in reading:
            if any(record.key == key for _, records in read.batches for record in records):
                return 0
            if read.position.next_offset >= read.high_watermark:
                return read.position.next_offset
    raise AssertionError("it is read for ever")


async def delete(rig: Rig, group: str) -> None:
    named = offset_delete.OffsetDeleteRequestTopic("t", (offset_delete.OffsetDeleteRequestPartition(DELETED),))
    request = offset_delete.OffsetDeleteRequest(group, (named,))
    answer = await rig.asked(
        rig.runtime.partition_of(group), lambda c, now, asker: c.offset_delete(now, CALLER, 0, request, asker)
    )
    assert [each.error_code for topic in answer.topics for each in topic.partitions] == [0], answer


async def deleted_and_compacted(divided: Divided, rig: Rig, group: str, led: TopicPartition, settings: Settings) -> int:
    """At the new leader nothing is left of an offset. Where its log ends then."""
    deposed = divided.leader(led)
    divided.cut_off(deposed)
    await asyncio.to_thread(wait_until, lambda: divided.leader(led) is not deposed)
    leader, key = divided.leader(led), encode_key(OffsetCommitKey(group, "t", DELETED))
    await delete(rig, group)
    await rig.commit(group, 61, KEPT)
    async with asyncio.timeout(WAIT_S):
        while not (end := await end_without(key, led, leader, settings)):
            await asyncio.sleep(0.3)  # for as long as compaction takes
            await rig.commit(rig.group_in(led.partition, 1), 1)  # so that a segment is closed
    await alter(divided.controller, led.topic, **AS_EVER)
    assert divided.leader(led, deposed) is deposed, "it has heard of the other one"
    return end


@pytest.mark.soak
@pytest.mark.parametrize("heals", [True, False], ids=["the cut ends", "the cut stays"])
@pytest.mark.parametrize("is_followed", [True, False], ids=["followed", "from the beginning"])
async def test_what_was_deleted_does_not_rise_from_what_a_deposed_leader_tells(
    divided: Divided, tmp_path: Path, is_followed: bool, heals: bool
) -> None:
    """The cut ends before what was followed is gone on with, or while everything is read; or it stays."""
    settings = replace(
        settings_of(f"__deposed_{uuid.uuid4().hex[:12]}", "kafka"),
        offsets_topic_replication_factor=3,
        offsets_commit_timeout_ms=30_000,  # the deposed one may be tried some times first
    )
    async with running(divided.parts.bootstrap_servers, tmp_path / "owner", settings) as rig:
        rig.was_killed = True  # in the end, as another has its partition
        topic = f"{settings.offsets_log_topics_prefix}_offsets"
        await alter(divided.controller, topic, **SOON)
        leaders = {led: divided.leader(led) for led in (TopicPartition(topic, number) for number in range(PARTITIONS))}
        led, deposed = next(each for each in leaders.items() if each[1] is not divided.controller)
        number, group = led.partition, rig.group_in(led.partition)
        for partition in (DELETED, KEPT):
            await rig.commit(group, 5, partition)
        asked = sorted(divided.parts.brokers, key=lambda broker: broker is not deposed)
        async with another(",".join(broker.address for broker in asked), settings) as its:
            if is_followed:
                its.follow([number])
                await until(lambda: its.counts.at_end)
            end = await deleted_and_compacted(divided, rig, group, led, settings)
            if is_followed:
                copy = its._standbys._standbys[number].copy
                assert its.counts.at_end
                assert offsets(copy.coordinator, group) == {DELETED: 5, KEPT: 5}
                if heals:
                    divided.heal()
                    await until(lambda: its._standbys._standbys[number].copy.part.position.next_offset >= end)
                else:
                    with pytest.raises(NotWhole):
                        await its.read_back(number)
            reading = asyncio.create_task(its.read_back(number))
            if heals and not is_followed:
                await until(lambda: its._progress._records or reading.done())
                divided.heal()
            found = await reading
            assert offsets(found.coordinator, group) == {KEPT: 61}
            assert +Counter(its.counts.taken_over) == {"standby" if is_followed and heals else "beginning": 1}
