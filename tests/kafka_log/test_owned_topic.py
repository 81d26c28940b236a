"""Partitions of a topic of a real cluster are taken over, read back and written; former owners are fenced."""

from __future__ import annotations

import asyncio
import os
import signal
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from protocol.own.topic_log import Owner
from shim.config import Settings, parse_servers
from shim.demo.parts import Broker
from shim.demo.parts import Cluster as Brokers
from shim.demo.parts.metadata import cluster_view
from shim.kafka_log.lease import boottime
from shim.kafka_log.owned_topic import Fenced, OwnedTopic
from shim.log import LogError
from shim.log.batching import MAX_BATCH_BYTES, RecordSet
from shim.upstream.cluster import Cluster
from shim.upstream.errors import UpstreamError
from tests.conftest import TopicFactory
from tests.kafka_log.owner import Owner as RawOwner
from tests.kafka_log.owner import commits

CONFIG = {"cleanup.policy": "compact", "message.timestamp.type": "LogAppendTime", "min.insync.replicas": "1"}
SETTINGS = Settings(topology_refresh_interval_ms=200)
NEVER_MS = 10_000
MOST_BYTES = 8 * MAX_BATCH_BYTES
PATIENCE_S = 20.0
SILENT_S = 3600.0


@asynccontextmanager
async def owned(
    bootstrap: str, topic: str, lease_ms: int = 0, patience_s: float = PATIENCE_S, silent_s: float = SILENT_S
) -> AsyncIterator[OwnedTopic]:
    """A process's."""
    cluster = Cluster(parse_servers(bootstrap), SETTINGS)
    following = asyncio.create_task(cluster.run())
    made = OwnedTopic(
        *(cluster, SETTINGS, topic, Owner(uuid.uuid4().bytes, "a test", lease_ms)),
        patience_seconds=patience_s,
        silent_seconds=silent_s,
        max_message_bytes=MOST_BYTES,
    )
    try:
        yield made
    finally:
        made.close()
        following.cancel()
        await asyncio.wait([following])


async def served(its: OwnedTopic, *numbers: int) -> dict[int, list[tuple[bytes, bytes | None]]]:
    """Taken over and read: what was written of each, but for claims."""
    found = {}
    for number in numbers:
        await its.take_over(number)
        found[number] = [
            (each.key, each.value) async for some in its.read(number) for each in some if each.key.startswith(b"k")
        ]
    return found


def some(first: int, count: int = 1) -> RecordSet:
    return [(b"k%d" % number, b"v%d" % number) for number in range(first, first + count)]


async def test_what_was_written_is_read_by_the_next_one(broker: Broker, make_topic: TopicFactory) -> None:
    topic = make_topic(3, config=CONFIG)
    async with owned(broker.bootstrap_servers, topic) as first, owned(broker.bootstrap_servers, topic) as second:
        assert await served(first, 0, 1) == {0: [], 1: []}
        assert await first.write({0: [some(1), some(2, 3)], 1: [some(1)]}, 0) == {}
        assert await first.write({0: [[(b"k1", None)]]}, 0) == {}
        assert await served(second, 0, 1) == {0: [*some(1), *some(2, 3), (b"k1", None)], 1: some(1)}


async def test_a_flight_of_several_batches(broker: Broker, make_topic: TopicFactory) -> None:
    """Of one partition they come one after the other, and no record set is divided."""
    topic = make_topic(2, config={**CONFIG, "max.message.bytes": str(8 * MAX_BATCH_BYTES)})
    large = [[(b"k%d" % number, bytes(MAX_BATCH_BYTES // 3))] * 2 for number in range(9)]
    async with owned(broker.bootstrap_servers, topic) as its:
        await served(its, 0, 1)
        assert await its.write({0: large, 1: [some(1)]}, 0) == {}
        assert await served(its, 0, 1) == {0: [record for each in large for record in each], 1: some(1)}


async def test_who_owned_it_before_is_fenced(broker: Broker, make_topic: TopicFactory) -> None:
    topic = make_topic(2, config=CONFIG)
    async with owned(broker.bootstrap_servers, topic) as first, owned(broker.bootstrap_servers, topic) as second:
        await served(first, 0, 1)
        await served(second, 0)
        assert await second.write({0: [some(7)]}, 0) == {}
        failed = await first.write({0: [some(1)], 1: [some(1)]}, 0)
        assert list(failed) == [0]
        assert isinstance(failed[0], Fenced)
        again = await first.write({0: [some(1)], 1: [some(2)]}, 0)
        assert {number: str(error) for number, error in again.items()} == {0: f"{topic}-0 is not owned"}
        assert await served(first, 0) == {0: some(7)}
        assert isinstance((await second.renew([0]))[0], Fenced)


async def test_who_has_another_producer_id_is_fenced(broker: Broker, make_topic: TopicFactory) -> None:
    """As when the transactional id was forgotten since. What it wrote until it was fenced counts."""
    topic = make_topic(config=CONFIG)
    async with RawOwner(broker, f"{topic}-once", topic) as former, owned(broker.bootstrap_servers, topic) as its:
        await former.begin()
        await former.write(commits(1))
        await its.take_over(0)
        assert (await former.write(commits(2)))[0] == 0, "it is another id"
        keys = [each.key async for records in its.read(0) for each in records]
        assert len(keys) == len(commits(1)) + 1 + len(commits(2)) + 2, "a fence each, and the claim behind them"
        assert (await former.write(commits(3)))[0] == 47
        assert await its.write({0: [some(1)]}, 0) == {}


async def test_a_batch_that_no_shim_has_written(broker: Broker, make_topic: TopicFactory) -> None:
    topic = make_topic(config=CONFIG)
    stranger = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": False})
    stranger.produce(topic, key=b"k", value=b"v", partition=0)
    assert stranger.flush(PATIENCE_S) == 0
    async with owned(broker.bootstrap_servers, topic) as its:
        with pytest.raises(LogError, match=f"{topic}-0 offset 0: a batch that no shim has written"):
            await served(its, 0)
        assert not its.may_tell(0)
        assert "not owned" in str((await its.write({0: [some(1)]}, 0))[0])


async def test_nothing_is_written_before_all_is_read(broker: Broker, make_topic: TopicFactory) -> None:
    topic = make_topic(config=CONFIG)
    async with owned(broker.bootstrap_servers, topic) as its:
        await its.take_over(0)
        assert "has not been read yet" in str((await its.write({0: [some(1)]}, 0))[0])
        reading = its.read(0)
        await anext(reading)
        assert "has not been read yet" in str((await its.renew([0]))[0])
        await reading.aclose()
        assert "not owned" in str((await its.write({0: [some(1)]}, 0))[0])
        assert await served(its, 0) == {0: []}


async def test_a_write_that_was_given_up_is_not_mistaken_for_the_next(broker: Broker, make_topic: TopicFactory) -> None:
    topic = make_topic(config=CONFIG)
    async with owned(broker.bootstrap_servers, topic) as its:
        await served(its, 0)
        writing = asyncio.create_task(its.write({0: [some(1)]}, 0))
        await asyncio.sleep(0)
        writing.cancel()
        await asyncio.wait([writing])
        (failed,) = (await its.write({0: [some(2)]}, 0)).values()
        assert "not owned" in str(failed)
        assert (await served(its, 0))[0] in ([], some(1))


async def test_while_nobody_leads_nothing_is_acknowledged(broker: Broker, make_topic: TopicFactory) -> None:
    topic = make_topic(config=CONFIG)
    async with owned(broker.bootstrap_servers, topic, patience_s=0.5) as its:
        await served(its, 0)
        await asyncio.to_thread(broker.stop)
        (failed,) = (await its.write({0: [some(1)]}, 0)).values()
        assert "unknown" in str(failed)
        assert not isinstance(failed, Fenced)
        with pytest.raises(UpstreamError):
            await its.take_over(0)
        await asyncio.to_thread(broker.start)
    async with owned(broker.bootstrap_servers, topic) as its:
        assert await served(its, 0) == {0: []}


async def test_who_may_tell(broker: Broker, make_topic: TopicFactory) -> None:
    """Nothing before all is read, nothing once it is released, and not without a lease."""
    topic = make_topic(config=CONFIG)
    async with (
        owned(broker.bootstrap_servers, topic, NEVER_MS) as first,
        owned(broker.bootstrap_servers, topic) as none,
    ):
        await first.take_over(0)
        assert not first.may_tell(0)
        async for _ in first.read(0):
            assert not first.may_tell(0)
        assert first.may_tell(0)
        assert await first.renew([0]) == {}
        assert first.may_tell(0)
        assert await first.release([0]) == {}
        assert not first.may_tell(0)
        await served(none, 0)
        assert not none.may_tell(0)
        assert await none.renew([0]) == {}
        assert not none.may_tell(0)


async def test_a_leader_that_hangs(cluster: Brokers, make_topic: TopicFactory) -> None:
    """Another one takes its place; what was on the way is there once."""
    topic = make_topic(3, config={**CONFIG, "min.insync.replicas": "2"})
    async with owned(cluster.bootstrap_servers, topic, patience_s=60.0) as its:
        await served(its, 0, 1, 2)
        assert await its.write({number: [some(1)] for number in range(3)}, 0) == {}
        at = cluster.brokers[0]
        led_by = cluster_view(at.host, at.port, (topic,)).leaders
        hanging = next(each for each in cluster.brokers if each.node_id in led_by.values() and not each.is_controller)
        os.kill(hanging.pid, signal.SIGSTOP)
        try:
            assert await its.write({number: [some(2)] for number in range(3)}, 0) == {}
        finally:
            os.kill(hanging.pid, signal.SIGCONT)
        assert await its.write({number: [some(3)] for number in range(3)}, 0) == {}
        assert await served(its, 0, 1, 2) == dict.fromkeys(range(3), some(1, 3))


async def test_two_calls_at_a_time(broker: Broker, make_topic: TopicFactory) -> None:
    topic = make_topic(config=CONFIG)
    async with owned(broker.bootstrap_servers, topic) as its:
        await served(its, 0)
        writing = asyncio.create_task(its.write({0: [some(1)]}, 0))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="two calls"):
            await its.renew([0])
        assert await writing == {}
        assert await served(its, 0) == {0: some(1)}


async def test_who_releases_tells_nothing_from_then_on(broker: Broker, make_topic: TopicFactory) -> None:
    """Not only when all brokers have answered: whoever comes next may have read it before."""
    topic = make_topic(config=CONFIG)
    async with owned(broker.bootstrap_servers, topic, NEVER_MS) as its:
        await served(its, 0)
        assert await its.renew([0]) == {}
        assert its.may_tell(0)
        releasing = asyncio.create_task(its.release([0]))
        await asyncio.sleep(0)
        assert not its.may_tell(0)
        assert await releasing == {}


async def test_who_was_silent_for_too_long_may_have_been_forgotten(
    broker: Broker, make_topic: TopicFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = make_topic(config=CONFIG)
    async with owned(broker.bootstrap_servers, topic) as its:
        await served(its, 0)
        monkeypatch.setattr("shim.kafka_log.owned_topic.boottime", lambda: boottime() + SILENT_S)
        (failed,) = (await its.write({0: [some(1)]}, 0)).values()
        assert "owned no more" in str(failed)
        assert await served(its, 0) == {0: []}


async def test_a_topic_that_was_made_anew(broker: Broker, make_topic: TopicFactory) -> None:
    """The broker knows nothing of who wrote to the one before, and takes the next batch."""
    topic = make_topic(config=CONFIG)
    async with owned(broker.bootstrap_servers, topic) as its:
        await served(its, 0)
        assert await its.write({0: [some(1, 5)]}, 0) == {}
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.delete_topics([topic])[topic].result(PATIENCE_S)
        await asyncio.to_thread(make_topic, name=topic, config=CONFIG)
        (failed,) = (await its.write({0: [some(9)]}, 0)).values()
        assert "lost" in str(failed)
        assert not its.may_tell(0)


async def test_what_was_deleted_at_the_beginning_is_missed(broker: Broker, make_topic: TopicFactory) -> None:
    topic = make_topic(config={**CONFIG, "cleanup.policy": "compact,delete"})
    async with owned(broker.bootstrap_servers, topic) as its:
        await served(its, 0)
        assert await its.write({0: [some(1, 5)]}, 0) == {}
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        for deleted in admin.delete_records([TopicPartition(topic, 0, 4)]).values():
            deleted.result(PATIENCE_S)
        with pytest.raises(LogError, match=f"{topic}-0: offsets 0 to 4 are gone"):
            await served(its, 0)
        assert not its.may_tell(0)


async def test_more_than_the_topic_takes(broker: Broker, make_topic: TopicFactory) -> None:
    topic = make_topic(config=CONFIG)
    async with owned(broker.bootstrap_servers, topic) as its:
        await served(its, 0)
        with pytest.raises(OSError, match=r"max\.message\.bytes"):
            await its.write({0: [[(b"k", bytes(MOST_BYTES))]]}, 0)
        assert await its.write({0: [some(1)]}, 0) == {}


async def test_what_was_read_before_it_was_taken_over_again(broker: Broker, make_topic: TopicFactory) -> None:
    topic = make_topic(config=CONFIG)
    async with owned(broker.bootstrap_servers, topic, NEVER_MS) as its:
        await its.take_over(0)
        reading = its.read(0)
        await anext(reading)
        await its.take_over(0)
        with pytest.raises(UpstreamError, match="taken over again"):
            await anext(reading)
        assert not its.may_tell(0)


async def test_nothing_more_comes(broker: Broker, make_topic: TopicFactory) -> None:
    topic = make_topic(config=CONFIG)
    async with owned(broker.bootstrap_servers, topic, patience_s=1.0) as its:
        await its.take_over(0)
        await asyncio.to_thread(broker.stop)
        with pytest.raises(UpstreamError, match="nothing more comes"):
            async for _ in its.read(0):
                pass


def test_a_lease_that_nobody_may_have() -> None:
    with pytest.raises(ValueError, match="a lease of 10001 ms"):
        OwnedTopic(
            *(Cluster((), SETTINGS), SETTINGS, "t", Owner(bytes(16), "a test", 10_001)),
            patience_seconds=1.0,
            silent_seconds=1.0,
            max_message_bytes=1,
        )
