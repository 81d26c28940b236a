"""Partitions of a topic of a real cluster are taken over, read back and written; former owners are fenced."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from protocol.api import Api
from protocol.messages import metadata
from protocol.own.record_sets import LoggedRecord, RecordSet
from protocol.own.topic_log import Owner
from shim.boottime import boottime
from shim.config import Settings, parse_servers
from shim.demo.parts import Broker
from shim.demo.parts import Cluster as Brokers
from shim.demo.parts.metadata import cluster_view
from shim.kafka_log.owning.outcomes import Fenced, RecordSetTooLarge
from shim.kafka_log.owning.owned_topic import OwnedTopic
from shim.kafka_log.reading.read_part import ReadPart
from shim.log import LogError
from shim.log.segments.batching import MAX_BATCH_BYTES
from shim.upstream.cluster import Cluster
from shim.upstream.errors import UpstreamError
from shim.upstream.kept_connection import KeptConnection
from shim.upstream.topic_reader import TopicReader
from tests.conftest import TopicFactory
from tests.hung import hung
from tests.kafka_log.owning.owner import Owner as RawOwner
from tests.kafka_log.owning.owner import commits
from tests.waiting import turns_of_the_loop

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
        found[number] = [(each.key, each.value) for each in await read(its, number) if each.key.startswith(b"k")]
    return found


async def read(its: OwnedTopic, number: int, part: ReadPart | None = None) -> list[LoggedRecord]:
    """To its end."""
    found: list[LoggedRecord] = []
    async for _ in its.read(number, found.extend, part):
        pass
    return found


async def write(its: OwnedTopic, writes: Mapping[int, Sequence[RecordSet]]) -> dict[int, UpstreamError]:
    """Why those failed that did, once all are told of."""
    told: dict[int, UpstreamError | None] = {}

    def completed(some: Mapping[int, UpstreamError | None]) -> None:
        assert not some.keys() & told.keys(), "told twice"
        told.update(some)

    await its.write(writes, 0, completed)
    assert told.keys() == writes.keys()
    return {number: error for number, error in told.items() if error is not None}


def some(first: int, count: int = 1) -> RecordSet:
    return [(b"k%d" % number, b"v%d" % number) for number in range(first, first + count)]


def led_by(cluster: Brokers, topic: str) -> tuple[Broker, list[int]]:
    """A broker that is not the controller, and the partitions, those that it leads first."""
    at = cluster.brokers[0]
    leaders = {at.partition: node_id for at, node_id in cluster_view(at.host, at.port, (topic,)).leaders.items()}
    one = next(each for each in cluster.brokers if each.node_id in leaders.values() and not each.is_controller)
    return one, sorted(leaders, key=lambda number: leaders[number] != one.node_id)


async def test_what_was_written_is_read_by_the_next_one(broker: Broker, make_topic: TopicFactory) -> None:
    topic = make_topic(3, config=CONFIG)
    async with owned(broker.bootstrap_servers, topic) as first, owned(broker.bootstrap_servers, topic) as second:
        assert await served(first, 0, 1) == {0: [], 1: []}
        assert await write(first, {0: [some(1), some(2, 3)], 1: [some(1)]}) == {}
        assert await write(first, {0: [[(b"k1", None)]]}) == {}
        assert await served(second, 0, 1) == {0: [*some(2, 3), (b"k1", None)], 1: some(1)}, "k1 is deleted"


async def test_a_flight_of_several_batches(broker: Broker, make_topic: TopicFactory) -> None:
    """Of one partition they come one after the other, and no record set is divided."""
    topic = make_topic(2, config={**CONFIG, "max.message.bytes": str(8 * MAX_BATCH_BYTES)})
    large = [[(b"k%d" % number, bytes(MAX_BATCH_BYTES // 3))] * 2 for number in range(9)]
    async with owned(broker.bootstrap_servers, topic) as its:
        await served(its, 0, 1)
        assert await write(its, {0: large, 1: [some(1)]}) == {}
        assert await served(its, 0, 1) == {0: [record for each in large for record in each], 1: some(1)}


async def followed(bootstrap: str, topic: str) -> ReadPart:
    """Partition 0, up to its end."""
    part = ReadPart(topic, 0)
    cluster = Cluster(parse_servers(bootstrap), SETTINGS)
    following = asyncio.create_task(cluster.run())
    try:
        async with aclosing(TopicReader(cluster, SETTINGS, topic).read(part.position)) as reading:
            async for read in reading:
                part.position = read.start
                for header, records in read.batches:
                    part.take(header, records)
                if part.position.next_offset >= read.high_watermark:
                    return part
    finally:
        following.cancel()
        await asyncio.wait([following])
    raise AssertionError("it reads for ever")


async def test_who_has_followed_it_reads_what_is_behind_that(broker: Broker, make_topic: TopicFactory) -> None:
    """And waits for the leases that it has read of, as whoever reads all."""
    topic = make_topic(config=CONFIG)
    async with (
        owned(broker.bootstrap_servers, topic, lease_ms=300) as first,
        owned(broker.bootstrap_servers, topic) as second,
    ):
        await served(first, 0)
        assert await write(first, {0: [some(1, 3)]}) == {}
        part = await followed(broker.bootstrap_servers, topic)
        assert await write(first, {0: [some(4)]}) == {}
        await second.take_over(0)
        fenced_at = boottime()
        assert await second.goes_on(0, part)
        tail = await read(second, 0, part)
        assert [(each.key, each.value) for each in tail[:-1]] == some(4)
        assert len(tail) == 2, "and its fence"
        assert boottime() >= fenced_at + 0.3
        assert await write(second, {0: [some(5)]}) == {}
        assert await served(second, 0) == {0: [*some(1, 3), *some(4), *some(5)]}
        behind = await followed(broker.bootstrap_servers, topic)
        await second.take_over(0)
        assert await second.goes_on(0, behind)
        too_far = await followed(broker.bootstrap_servers, topic)
        assert not await second.goes_on(0, too_far), "it has the fence for somebody else's"


async def test_what_was_followed_of_another_topic_is_of_no_use(broker: Broker, make_topic: TopicFactory) -> None:
    topic, other = make_topic(config=CONFIG), make_topic(config=CONFIG)
    async with owned(broker.bootstrap_servers, topic) as its, owned(broker.bootstrap_servers, other) as another:
        for each in (its, another):
            await served(each, 0)
            assert await write(each, {0: [some(1, 3)]}) == {}
        part = await followed(broker.bootstrap_servers, other)
        await its.take_over(0)
        assert not await its.goes_on(0, part), "as of one that was made anew"
        mine = await followed(broker.bootstrap_servers, topic)
        mine.position = mine.position._replace(next_offset=mine.position.next_offset - 1)
        assert await its.goes_on(0, mine)


async def test_who_owned_it_before_is_fenced(broker: Broker, make_topic: TopicFactory) -> None:
    topic = make_topic(2, config=CONFIG)
    async with owned(broker.bootstrap_servers, topic) as first, owned(broker.bootstrap_servers, topic) as second:
        await served(first, 0, 1)
        await served(second, 0)
        assert await write(second, {0: [some(7)]}) == {}
        failed = await write(first, {0: [some(1)], 1: [some(1)]})
        assert list(failed) == [0]
        assert isinstance(failed[0], Fenced)
        again = await write(first, {0: [some(1)], 1: [some(2)]})
        assert {number: str(error) for number, error in again.items()} == {0: f"{topic}-0 is not owned"}
        assert await served(first, 0) == {0: some(7)}
        assert isinstance((await write(second, {0: []}))[0], Fenced)


async def test_who_has_another_producer_id_is_fenced(broker: Broker, make_topic: TopicFactory) -> None:
    """As when the transactional id was forgotten since. What it wrote until it was fenced counts."""
    topic = make_topic(config=CONFIG)
    async with RawOwner(broker, f"{topic}-once", topic) as former, owned(broker.bootstrap_servers, topic) as its:
        await former.begin()
        await former.write(commits(1))
        await its.take_over(0)
        assert (await former.write(commits(2)))[0] == 0, "it is another id"
        keys = [each.key for each in await read(its, 0)]
        assert len(keys) == len(commits(1)) + 1 + len(commits(2)) + 2, "a fence each, and the claim behind them"
        assert (await former.write(commits(3)))[0] == 47
        assert await write(its, {0: [some(1)]}) == {}


async def test_a_batch_that_no_shim_has_written(broker: Broker, make_topic: TopicFactory) -> None:
    topic = make_topic(config=CONFIG)
    stranger = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": False})
    stranger.produce(topic, key=b"k", value=b"v", partition=0)
    assert stranger.flush(PATIENCE_S) == 0
    async with owned(broker.bootstrap_servers, topic) as its:
        with pytest.raises(LogError, match=f"{topic}-0 offset 0: a batch that no shim has written"):
            await served(its, 0)
        assert not its.may_tell(0)
        assert "not owned" in str((await write(its, {0: [some(1)]}))[0])


async def test_nothing_is_written_before_all_is_read(broker: Broker, make_topic: TopicFactory) -> None:
    topic = make_topic(config=CONFIG)
    async with owned(broker.bootstrap_servers, topic) as its:
        await its.take_over(0)
        assert "has not been read yet" in str((await write(its, {0: [some(1)]}))[0])
        reading = its.read(0, len)
        await anext(reading)
        assert "has not been read yet" in str((await write(its, {0: []}))[0])
        await reading.aclose()
        assert "not owned" in str((await write(its, {0: [some(1)]}))[0])
        assert await served(its, 0) == {0: []}


async def test_a_write_that_was_given_up_is_not_mistaken_for_the_next(broker: Broker, make_topic: TopicFactory) -> None:
    topic = make_topic(config=CONFIG)
    async with owned(broker.bootstrap_servers, topic) as its:
        await served(its, 0)
        writing = asyncio.create_task(write(its, {0: [some(1)]}))
        await asyncio.sleep(0)
        writing.cancel()
        await asyncio.wait([writing])
        (failed,) = (await write(its, {0: [some(2)]})).values()
        assert "not owned" in str(failed)
        assert (await served(its, 0))[0] in ([], some(1))


async def test_while_nobody_leads_nothing_is_acknowledged_and_nothing_more_comes(
    broker: Broker, make_topic: TopicFactory
) -> None:
    topic = make_topic(config=CONFIG)
    async with (
        owned(broker.bootstrap_servers, topic) as its,
        owned(broker.bootstrap_servers, make_topic(config=CONFIG)) as reading,
    ):
        await served(its, 0)
        await reading.take_over(0)
        its._patience = its._claiming._patience = 0.5  # from here on it is in vain
        reading._patience = 1.0
        await asyncio.to_thread(broker.stop)
        (failed,) = (await write(its, {0: [some(1)]})).values()
        assert "unknown" in str(failed)
        assert not isinstance(failed, Fenced)
        with pytest.raises(UpstreamError):
            await its.take_over(0)
        with pytest.raises(UpstreamError, match="nothing more comes"):
            async for _ in reading.read(0, len):
                pass
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
        async for _ in first.read(0, len):
            assert not first.may_tell(0)
        assert first.may_tell(0)
        assert await write(first, {0: []}) == {}
        assert first.may_tell(0)
        assert await first.release([0]) == {}
        assert not first.may_tell(0)
        await served(none, 0)
        assert not none.may_tell(0)
        assert await write(none, {0: []}) == {}
        assert not none.may_tell(0)


async def test_a_leader_that_hangs(cluster: Brokers, make_topic: TopicFactory) -> None:
    """Another one takes its place; what was on the way is there once."""
    topic = make_topic(3, config={**CONFIG, "min.insync.replicas": "2"})
    async with owned(cluster.bootstrap_servers, topic, patience_s=60.0) as its:
        await served(its, 0, 1, 2)
        assert await write(its, {number: [some(1)] for number in range(3)}) == {}
        hanging, _ = led_by(cluster, topic)
        with hung(hanging.pid):
            assert await write(its, {number: [some(2)] for number in range(3)}) == {}
        assert await write(its, {number: [some(3)] for number in range(3)}) == {}
        assert await served(its, 0, 1, 2) == dict.fromkeys(range(3), some(1, 3))


async def test_a_leader_that_hangs_holds_up_only_what_it_leads(cluster: Brokers, make_topic: TopicFactory) -> None:
    """Not those of the same call that others lead, of how many batches they are, and not the next call of these."""
    topic = make_topic(3, replication_factor=1, config={**CONFIG, "max.message.bytes": str(MOST_BYTES)})
    large = [[(b"k%d" % number, bytes(MAX_BATCH_BYTES // 3))] * 2 for number in range(9)]
    told: dict[int, UpstreamError | None] = {}
    told_of_others = asyncio.Event()

    def completed(some: Mapping[int, UpstreamError | None]) -> None:
        told.update(some)
        if len(told) == 2:
            told_of_others.set()

    async with owned(cluster.bootstrap_servers, topic, patience_s=60.0) as its:
        await served(its, 0, 1, 2)
        hanging, (held_up, one, several) = led_by(cluster, topic)
        with hung(hanging.pid):
            writing = asyncio.create_task(its.write({held_up: [some(1)], one: [some(1)], several: large}, 0, completed))
            async with asyncio.timeout(PATIENCE_S):
                await told_of_others.wait()
                assert told == {one: None, several: None}
                assert await write(its, {one: [some(2)], several: []}) == {}
            assert not writing.done()
        await writing
        assert told == {held_up: None, one: None, several: None}
        assert await served(its, held_up, one) == {held_up: some(1), one: some(1, 2)}


async def test_who_gives_a_call_up_owns_what_was_told_to_be_written(cluster: Brokers, make_topic: TopicFactory) -> None:
    topic = make_topic(3, replication_factor=1, config=CONFIG)
    told: asyncio.Queue[int] = asyncio.Queue()

    def completed(some: Mapping[int, UpstreamError | None]) -> None:
        for number in some:
            told.put_nowait(number)

    async with owned(cluster.bootstrap_servers, topic, NEVER_MS, patience_s=60.0) as its:
        await served(its, 0, 1, 2)
        hanging, (held_up, *others) = led_by(cluster, topic)
        with hung(hanging.pid):
            writing = asyncio.create_task(its.write({number: [some(1)] for number in range(3)}, 0, completed))
            async with asyncio.timeout(PATIENCE_S):
                assert sorted([await told.get(), await told.get()]) == sorted(others)
            writing.cancel()
            await asyncio.wait([writing])
            assert [its.may_tell(number) for number in (held_up, *others)] == [False, True, True]
            assert await write(its, {number: [some(2)] for number in others}) == {}
            assert "not owned" in str((await write(its, {held_up: [some(2)]}))[held_up])
        assert told.empty()
        assert (await served(its, held_up))[held_up] in ([], some(1))


async def test_of_a_call_that_is_given_up_nothing_is_left_running(broker: Broker, make_topic: TopicFactory) -> None:
    topic = make_topic(config=CONFIG)
    async with owned(broker.bootstrap_servers, topic) as its:
        await served(its, 0)
        before = asyncio.all_tasks()
        with hung(broker.pid):
            writing = asyncio.create_task(write(its, {0: [some(1)]}))
            await turns_of_the_loop()
            assert len(asyncio.all_tasks() - before) > 1, "it is on its way"
            writing.cancel()
            await turns_of_the_loop()
            assert asyncio.all_tasks() == before


async def test_what_on_completion_raises(broker: Broker, make_topic: TopicFactory) -> None:
    """Is told to who has called. What was written is owned."""
    topic = make_topic(config=CONFIG)

    def completed(some: Mapping[int, UpstreamError | None]) -> None:
        raise KeyError(*some)

    async with owned(broker.bootstrap_servers, topic) as its:
        await served(its, 0)
        with pytest.raises(KeyError, match="0"):
            await its.write({0: [some(1)]}, 0, completed)
        assert await write(its, {0: [some(2)]}) == {}
        assert await served(its, 0) == {0: some(1, 2)}


async def test_a_request_has_a_bound(tmp_path: Path, make_topic: TopicFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker takes no larger ones than it is told to; a batch that is larger than ours goes by itself."""
    monkeypatch.setattr("shim.kafka_log.producing.lanes.MAX_REQUEST_BYTES", 2 * MAX_BATCH_BYTES)
    with Broker(tmp_path / "small", properties={"socket.request.max.bytes": 3 * MAX_BATCH_BYTES}) as broker:
        topic = make_topic(8, config={**CONFIG, "max.message.bytes": str(MOST_BYTES)}, on=broker)
        nearly: RecordSet = [(b"k", bytes(MAX_BATCH_BYTES - 1024))]
        large: RecordSet = [(b"k", bytes(MAX_BATCH_BYTES * 5 // 4))] * 2
        writes = {number: [nearly, nearly] for number in range(7)} | {7: [large]}
        async with owned(broker.bootstrap_servers, topic) as its:
            await served(its, *writes)
            assert await write(its, writes) == {}
            assert await served(its, *writes) == {
                number: [record for each in sets for record in each] for number, sets in writes.items()
            }


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the requests on kept connections, as they are sent, but for looks at the cluster, which it takes by
    itself now and then."""
    names: list[str] = []
    ask = KeptConnection.ask

    async def noted(self: KeptConnection, api: Api[Any, Any], request: Any, **kwargs: Any) -> Any:
        if api is not metadata.API:
            names.append(api.name)
        return await ask(self, api, request, **kwargs)

    monkeypatch.setattr(KeptConnection, "ask", noted)
    return names


async def test_a_flight_is_one_request_for_each_leader(
    cluster: Brokers, make_topic: TopicFactory, asked: list[str]
) -> None:
    """And its answer is told in one call."""
    topic = make_topic(12, replication_factor=1, config=CONFIG)
    calls: list[int] = []
    async with owned(cluster.bootstrap_servers, topic) as its:
        await served(its, *range(12))
        asked.clear()
        await its.write({number: [some(1)] for number in range(12)}, 0, lambda some: calls.append(len(some)))
        assert asked == ["Produce"] * 3
        assert (len(calls), sum(calls)) == (3, 12)


async def test_what_waits_for_one_leader_goes_out_together(
    broker: Broker, make_topic: TopicFactory, asked: list[str]
) -> None:
    """Whoever has called, and while the request before it is under way."""
    topic = make_topic(6, config=CONFIG)
    async with owned(broker.bootstrap_servers, topic) as its:
        await served(its, *range(6))
        asked.clear()
        with hung(broker.pid):
            first = [asyncio.create_task(write(its, {number: [some(1)]})) for number in range(3)]
            await turns_of_the_loop()
            assert asked == ["Produce"]
            second = [asyncio.create_task(write(its, {number: [some(1)]})) for number in range(3, 6)]
            await turns_of_the_loop()
            assert asked == ["Produce"]
        assert await asyncio.gather(*first, *second) == [{}] * 6
        assert asked == ["Produce"] * 2


async def test_what_may_be_told_behind_a_write(broker: Broker, make_topic: TopicFactory) -> None:
    topic = make_topic(config=CONFIG)
    async with (
        owned(broker.bootstrap_servers, topic, NEVER_MS) as leased,
        owned(broker.bootstrap_servers, topic, 0) as none,
    ):
        for its, seconds in ((leased, NEVER_MS / 1000), (none, 0.0)):
            await served(its, 0)
            decided_at = boottime()
            assert not its.may_tell_behind(0, decided_at), "none is under way"
            writing = asyncio.create_task(write(its, {0: []}))
            await asyncio.sleep(0)
            sent_before = boottime()
            assert its.may_tell_behind(0, decided_at)
            assert its.may_tell_behind(0, decided_at + seconds)
            assert not its.may_tell_behind(0, sent_before + seconds)
            assert await writing == {}
            assert not its.may_tell_behind(0, decided_at)
        releasing = asyncio.create_task(none.release([0]))
        await asyncio.sleep(0)
        assert not none.may_tell_behind(0, decided_at), "the next one may read it before"
        assert await releasing == {}


async def test_which_are_idle(broker: Broker, make_topic: TopicFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are served, and not being written."""
    topic = make_topic(3, config=CONFIG)
    async with owned(broker.bootstrap_servers, topic) as its:
        await its.take_over(2)
        await served(its, 0, 1)
        assert its.idle(600.0) == []
        monkeypatch.setattr("shim.kafka_log.owning.tenure.boottime", lambda: boottime() + 600.0)
        assert its.idle(600.0) == [0, 1]
        writing = asyncio.create_task(write(its, {0: []}))
        await asyncio.sleep(0)
        assert its.idle(600.0) == [1]
        assert await writing == {}
        assert its.idle(600.0) == [1]


async def test_under_which_epoch_one_is_owned(broker: Broker, make_topic: TopicFactory) -> None:
    topic = make_topic(config=CONFIG)
    async with owned(broker.bootstrap_servers, topic) as its:
        with pytest.raises(UpstreamError, match="not owned"):
            its.producer(0)
        await its.take_over(0)
        first = its.producer(0)
        await its.take_over(0)
        assert its.producer(0) == first._replace(epoch=first.epoch + 1)


async def test_two_calls_at_a_time(broker: Broker, make_topic: TopicFactory) -> None:
    topic = make_topic(config=CONFIG)
    async with owned(broker.bootstrap_servers, topic) as its:
        await served(its, 0)
        writing = asyncio.create_task(write(its, {0: [some(1)]}))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="two calls"):
            await write(its, {0: []})
        assert await writing == {}
        assert await served(its, 0) == {0: some(1)}


async def test_who_releases_tells_nothing_from_then_on(broker: Broker, make_topic: TopicFactory) -> None:
    """Not only when all brokers have answered: whoever comes next may have read it before."""
    topic = make_topic(config=CONFIG)
    async with owned(broker.bootstrap_servers, topic, NEVER_MS) as its:
        await served(its, 0)
        assert await write(its, {0: []}) == {}
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
        monkeypatch.setattr("shim.kafka_log.owning.tenure.boottime", lambda: boottime() + SILENT_S)
        (failed,) = (await write(its, {0: [some(1)]})).values()
        assert "owned no more" in str(failed)
        assert await served(its, 0) == {0: []}


async def test_a_topic_that_was_made_anew(broker: Broker, make_topic: TopicFactory) -> None:
    """The broker knows nothing of who wrote to the one before, and takes the next batch."""
    topic = make_topic(config=CONFIG)
    async with owned(broker.bootstrap_servers, topic) as its:
        await served(its, 0)
        assert await write(its, {0: [some(1, 5)]}) == {}
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.delete_topics([topic])[topic].result(PATIENCE_S)
        await asyncio.to_thread(make_topic, name=topic, config=CONFIG)
        (failed,) = (await write(its, {0: [some(9)]})).values()
        assert "lost" in str(failed)
        assert not its.may_tell(0)


async def test_what_was_deleted_at_the_beginning_is_missed(broker: Broker, make_topic: TopicFactory) -> None:
    topic = make_topic(config={**CONFIG, "cleanup.policy": "compact,delete"})
    async with owned(broker.bootstrap_servers, topic) as its:
        await served(its, 0)
        assert await write(its, {0: [some(1, 5)]}) == {}
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        for deleted in admin.delete_records([TopicPartition(topic, 0, 4)]).values():
            deleted.result(PATIENCE_S)
        with pytest.raises(LogError, match=f"{topic}-0: offsets 0 to 4 are gone"):
            await served(its, 0)
        assert not its.may_tell(0)


async def test_more_than_the_topic_takes(broker: Broker, make_topic: TopicFactory) -> None:
    """Of that partition nothing is written, not even what it would take; of the others all is."""
    topic = make_topic(3, config=CONFIG)
    large = [some(1), [(b"k", bytes(MOST_BYTES))]]
    larger = [[(b"k", bytes(1 << 20))] * 101]
    async with owned(broker.bootstrap_servers, topic) as its:
        await served(its, 0, 1, 2)
        failed = await write(its, {0: large, 1: [some(1)], 2: larger})
        assert {number: type(error) for number, error in failed.items()} == dict.fromkeys((0, 2), RecordSetTooLarge)
        assert "max.message.bytes" in str(failed[0])
        assert "are allowed" in str(failed[2])
        assert await write(its, {0: [some(2)], 2: [some(2)]}) == {}
        assert await served(its, 0, 1, 2) == {0: some(2), 1: some(1), 2: some(2)}


async def test_what_was_read_before_it_was_taken_over_again(broker: Broker, make_topic: TopicFactory) -> None:
    topic = make_topic(config=CONFIG)
    async with owned(broker.bootstrap_servers, topic, NEVER_MS) as its:
        await its.take_over(0)
        reading = its.read(0, len)
        await anext(reading)
        await its.take_over(0)
        with pytest.raises(UpstreamError, match="taken over again"):
            await anext(reading)
        assert not its.may_tell(0)


async def test_while_it_is_read_for_long_it_stays_its_own(
    broker: Broker, make_topic: TopicFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Longer than an owner may be silent. Claims are written meanwhile, and read, too."""
    topic = make_topic(config={**CONFIG, "segment.ms": "1"})  # a fetch is of one segment
    async with owned(broker.bootstrap_servers, topic) as first, owned(broker.bootstrap_servers, topic) as second:
        await served(first, 0)
        for number in range(4):
            assert await write(first, {0: [some(number)]}) == {}
        later = [0.0]
        monkeypatch.setattr("shim.kafka_log.owning.tenure.boottime", lambda: boottime() + later[0])
        found: list[LoggedRecord] = []
        await second.take_over(0)
        fence = second.fence(0)
        async for _ in second.read(0, found.extend):
            later[0] = min(later[0] + 0.6 * SILENT_S, 2.4 * SILENT_S)
        assert later[0] > 2 * SILENT_S
        assert [each.key for each in found if each.key.startswith(b"k")] == [b"k%d" % number for number in range(4)]
        assert found[-1].offset == second.end(0) - 1 > fence.base_offset
        assert second.may_tell(0) is False, "without a lease"
        last = second.last_written(0)
        assert last is not None
        assert last.base_offset == found[-1].offset
        assert await write(second, {0: [some(4)]}) == {}
        assert second.last_written(0) is not last, "nothing stands between that is not known"


def test_a_lease_that_nobody_may_have() -> None:
    with pytest.raises(ValueError, match="a lease of 10001 ms"):
        OwnedTopic(
            *(Cluster((), SETTINGS), SETTINGS, "t", Owner(bytes(16), "a test", 10_001)),
            patience_seconds=1.0,
            silent_seconds=1.0,
            max_message_bytes=1,
        )


async def test_what_somebody_else_has_by_now_is_not_taken_back(broker: Broker, make_topic: TopicFactory) -> None:
    topic = make_topic(2, config=CONFIG)
    async with owned(broker.bootstrap_servers, topic) as first, owned(broker.bootstrap_servers, topic) as second:
        await served(first, 0, 1)
        await served(first, 0)  # its own again
        assert await write(first, {1: [some(9)]}) == {}
        await served(second, 1)
        with pytest.raises(Fenced, match="somebody else has got an epoch"):
            await first.take_over(1)
        assert await write(second, {1: [some(1)]}) == {}, "it was not fenced by that"
        assert await served(first, 0) == {0: []}
        await first.take_over(1)  # whoever says so again knows of that
        with pytest.raises(Fenced):
            await second.take_over(1)


async def test_what_was_released_may_be_taken_back_from_whoever_has_it(
    broker: Broker, make_topic: TopicFactory
) -> None:
    topic = make_topic(1, config=CONFIG)
    async with owned(broker.bootstrap_servers, topic) as first, owned(broker.bootstrap_servers, topic) as second:
        await served(first, 0)
        assert await first.release([0]) == {}
        await served(second, 0)
        assert await write(second, {0: [some(1)]}) == {}
        assert await served(first, 0) == {0: some(1)}


async def test_whose_reading_was_broken_off_waits_for_the_leases_before_it(
    broker: Broker, make_topic: TopicFactory
) -> None:
    """The last claim is its own by then, and it has told nothing under it."""
    topic = make_topic(config=CONFIG)
    async with (
        owned(broker.bootstrap_servers, topic, lease_ms=1000) as first,
        owned(broker.bootstrap_servers, topic) as second,
    ):
        await served(first, 0)
        await second.take_over(0)
        fenced_at = boottime()
        await second.take_over(0)
        await read(second, 0)
        assert boottime() >= fenced_at + 1.0
