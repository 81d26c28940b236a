"""The history of commits on a topic of a real cluster: written by who owns the offsets, read by anybody."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterable, Sequence
from typing import Final

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from protocol.own.history_log import OffsetHistoryKey, OffsetHistoryValue, encode_history
from protocol.own.record_sets import RecordSet, Runs
from protocol.partition import partition_for
from protocol.records.batches import CorruptBatch, Record, decode_records
from shim.demo.parts import Broker
from shim.demo.parts import Cluster as Brokers
from shim.demo.parts.metadata import cluster_view
from shim.groups.history import History
from shim.groups.words import Refused, Window
from shim.kafka_log.history.writing import fitting_batches
from shim.kafka_log.owning.outcomes import Fenced
from shim.log.segments.batching import MAX_RECORD_SET_BYTES
from shim.runtime import history_log
from shim.runtime.history_log import HistoryBatch, HistoryLog, Part
from shim.upstream.errors import UpstreamError
from tests.conftest import TopicFactory
from tests.groups.kept import MOST_BYTES, PATIENCE_S, kept_on_topic
from tests.hung import hung

CONFIG: Final = {"cleanup.policy": "delete", "retention.ms": "-1", "max.message.bytes": str(MOST_BYTES)}
LOGGER: Final = "shim.kafka_log.history.writing"
NOW: Final = 1_767_225_600_123
ALL: Final = Window(all_commits=True)


def commits(first: int, count: int = 1, group: str = "billing") -> RecordSet:
    """As many, of which each is to the offset that is its number."""
    return [
        encode_history(
            (
                OffsetHistoryKey(group, "orders", 0, NOW + number),
                OffsetHistoryValue(number, -1, "", NOW, -1, "", None, "etl", "/10.0.0.4"),
            )
        )
        for number in range(first, first + count)
    ]


async def told(log: HistoryLog, group: str = "billing") -> list[int] | None:
    moves = await History(log).moves(group, ALL)
    return None if moves is None else [each.offset for each in moves]


async def records(log: HistoryLog, number: int = 0) -> list[tuple[bytes | None, bytes | None]]:
    """All that the partition has."""
    found: list[tuple[bytes | None, bytes | None]] = []

    def take(batches: Iterable[HistoryBatch]) -> None:
        found.extend((key, value) for batch in batches for key, value, *_ in batch.records)

    for part in reversed(await log.parts(number)):
        await log.read(number, part, take)
    return found


def nothing(batches: Iterable[HistoryBatch]) -> None:
    assert not list(batches)


# Writing


async def test_what_was_written_is_read_by_others(broker: Broker, make_topic: TopicFactory) -> None:
    """Under one epoch, and under the next one."""
    topic = make_topic(3, config=CONFIG)
    async with (
        kept_on_topic(broker.bootstrap_servers, topic, 3) as its,
        kept_on_topic(broker.bootstrap_servers, topic, 3) as other,
    ):
        await its.begin(0, 1)
        assert await its.write_all({0: [commits(1), commits(2, 3)], 1: [commits(7)]}, NOW) == {}
        assert await its.write_all({0: [commits(5)]}, NOW) == {}
        await its.begin(0)
        assert its.writing.acknowledged_end(0) == 0
        assert await its.write_all({0: [commits(6)]}, NOW) == {}
        assert its.writing.acknowledged_end(0) == 6
        for log in its.log, other.log:
            assert [await records(log, number) for number in range(3)] == [commits(1, 6), commits(7), []]


async def test_who_wrote_before_is_fenced(broker: Broker, make_topic: TopicFactory) -> None:
    topic = make_topic(2, config=CONFIG)
    async with (
        kept_on_topic(broker.bootstrap_servers, topic, 2) as first,
        kept_on_topic(broker.bootstrap_servers, topic, 2) as second,
    ):
        await first.begin(0, 1)
        assert await first.write_all({0: [commits(1)], 1: [commits(1)]}, NOW) == {}
        await second.begin(0)
        assert await second.write_all({0: [commits(2)]}, NOW) == {}
        failed = await first.write_all({0: [commits(3)], 1: [commits(3)]}, NOW)
        assert list(failed) == [0]
        assert isinstance(failed[0], Fenced)
        again = await first.write_all({0: [commits(4)], 1: [commits(4)]}, NOW)
        assert {number: str(error) for number, error in again.items()} == {
            0: f"{topic}-0 is not written by this process"
        }
        assert await first.writing.end(0) == 2, "what others write it hears of, too"
        await first.begin(0)
        assert await first.write_all({0: [commits(5)]}, NOW) == {}
        assert await records(first.log, 0) == [*commits(1), *commits(2), *commits(5)]
        assert await records(first.log, 1) == [*commits(1), *commits(3), *commits(4)]


async def test_too_much_for_the_topic(
    broker: Broker, make_topic: TopicFactory, caplog: pytest.LogCaptureFixture
) -> None:
    """It is divided, and read whole. What cannot be divided is left out; nothing fails for it."""
    topic = make_topic(config=CONFIG)
    large = [(b"k%d" % number, bytes(MOST_BYTES // 3)) for number in range(8)]
    too_large = (b"k", bytes(MOST_BYTES))
    caplog.set_level(logging.WARNING, LOGGER)
    async with kept_on_topic(broker.bootstrap_servers, topic) as its:
        await its.begin(0)
        written = [commits(1), large, [*commits(2), too_large, *commits(3)], commits(4)]
        assert await its.write_all({0: written}, NOW) == {}
        assert await its.write_all({0: [[too_large]]}, NOW) == {}
        assert await its.write_all({0: [commits(5)]}, NOW) == {}
        assert await records(its.log) == [*commits(1), *large, *commits(2, 4)]
    (line,) = [each.getMessage() for each in caplog.records if each.name == LOGGER]
    assert "is left out" in line
    assert f"max.message.bytes is {MOST_BYTES}" in line


@pytest.mark.parametrize("most_bytes", [200, 1_000, 10_000])
def test_batches_that_fit(most_bytes: int) -> None:
    """None is larger, nothing is missing, nothing changes its place; of runs likewise."""
    sets: Sequence[RecordSet | Runs] = [commits(1, 40), commits(41), commits(42, 100)]
    batches, left_out = fitting_batches(sets, NOW, most_bytes)
    assert not left_out
    assert max(map(len, batches)) <= most_bytes
    assert [(key, value) for batch in batches for key, value, *_ in decode_records(batch)] == commits(1, 141)
    run = b"\x02k\x02v\x00"  # a record from behind its offset delta on
    batches, left_out = fitting_batches([Runs([run] * 500, 500)], NOW, most_bytes)
    assert not left_out
    assert max(map(len, batches)) <= most_bytes
    found = [record for batch in batches for record in decode_records(batch)]
    assert {(each.key, each.value) for each in found} == {(b"k", b"v")}
    assert len(found) == 500


def test_a_set_that_no_log_takes() -> None:
    value = bytes(MAX_RECORD_SET_BYTES // 4)
    batches, left_out = fitting_batches([[(b"k", value)] * 5], NOW, 2 * len(value))
    assert not left_out
    assert [record.value for batch in batches for record in decode_records(batch)] == [value] * 5


async def test_a_write_that_was_given_up_is_not_mistaken_for_the_next(broker: Broker, make_topic: TopicFactory) -> None:
    topic = make_topic(config=CONFIG)
    async with kept_on_topic(broker.bootstrap_servers, topic) as its:
        await its.begin(0)
        writing = asyncio.create_task(its.write_all({0: [commits(1)]}, NOW))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="two writes"):
            await its.write_all({0: [commits(2)]}, NOW)
        writing.cancel()
        await asyncio.wait([writing])
        (failed,) = (await its.write_all({0: [commits(2)]}, NOW)).values()
        assert "is not written by this process" in str(failed)
        await its.begin(0)
        assert await its.write_all({0: [commits(3)]}, NOW) == {}
        assert await records(its.log) in (commits(3), [*commits(1), *commits(3)])


async def test_a_topic_that_was_made_anew(broker: Broker, make_topic: TopicFactory) -> None:
    topic = make_topic(config=CONFIG)
    async with kept_on_topic(broker.bootstrap_servers, topic) as its:
        await its.begin(0)
        assert await its.write_all({0: [commits(1, 5)]}, NOW) == {}
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.delete_topics([topic])[topic].result(PATIENCE_S)
        await asyncio.to_thread(make_topic, name=topic, config=CONFIG)
        (failed,) = (await its.write_all({0: [commits(9)]}, NOW)).values()
        assert "lost" in str(failed)
        await its.begin(0)
        assert await its.write_all({0: [commits(10)]}, NOW) == {}
        assert await told(its.log) == [9, 10]


async def test_where_it_ends_and_what_is_read_when_the_broker_hangs(broker: Broker, make_topic: TopicFactory) -> None:
    topic = make_topic(config=CONFIG)
    async with (
        kept_on_topic(broker.bootstrap_servers, topic, read_patience_s=1.0) as its,
        kept_on_topic(broker.bootstrap_servers, topic) as other,
    ):
        assert await its.writing.end(0) == 0
        await its.begin(0)
        assert await its.write_all({0: [commits(1, 3), commits(4)]}, NOW) == {}
        assert await other.writing.end(0) == 4
        (part,) = await its.log.parts(0)
        with hung(broker.pid):
            assert await its.writing.end(0) == 4, "nobody has to be asked"
            with pytest.raises(UpstreamError, match="nothing more comes, behind offset 0"):
                await its.log.read(0, part, nothing)


# Reading


async def test_what_takes_several_fetches(broker: Broker, make_topic: TopicFactory) -> None:
    """All is looked through in a thread; what has nothing of the group is not even decoded there."""
    topic = make_topic(config=CONFIG)
    threads = []
    decode = decode_records

    def watched(raw: bytes) -> list[Record]:
        threads.append(threading.current_thread().name)
        return decode(raw)

    async with kept_on_topic(broker.bootstrap_servers, topic) as its:
        await its.begin(0)
        for number in range(0, 60_000, 5_000):
            sets = [commits(number, 4_999), commits(number + 4_999, group="orphans")]
            assert await its.write_all({0: sets}, NOW) == {}
        assert await its.write_all({0: [commits(60_000, 10_000, "others")]}, NOW) == {}
        with pytest.MonkeyPatch.context() as patching:
            patching.setattr(history_log, "decode_records", watched)
            assert await told(its.log) == [number for number in range(60_000) if number % 5_000 != 4_999]
        assert {name.rpartition("_")[0] for name in threads} == {"history"}
        assert len(threads) == 12
        assert await told(its.log, "orphans") == [*range(4_999, 60_000, 5_000)]
        last = await History(its.log).last_commit("orphans")
        assert last is not None
        assert last.offset == 59_999


async def test_what_is_too_old_is_gone(
    broker: Broker, make_topic: TopicFactory, caplog: pytest.LogCaptureFixture
) -> None:
    """As the topic's retention does it. Nobody misses it."""
    topic = make_topic(config=CONFIG)
    async with kept_on_topic(broker.bootstrap_servers, topic) as its:
        await its.begin(0)
        for number in range(8):
            assert await its.write_all({0: [commits(number, group=f"g{number % 2}")]}, NOW) == {}
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        for kept, g0, g1 in ((5, [6], [5, 7]), (7, None, [7]), (8, None, None)):
            for deleted in admin.delete_records([TopicPartition(topic, 0, kept)]).values():
                deleted.result(PATIENCE_S)
            assert [await told(its.log, "g0"), await told(its.log, "g1")] == [g0, g1]
            last = await History(its.log).last_commit("g0")
            assert (None if last is None else [last.offset]) == g0
        assert await History(its.log).end("g0") == 8
        assert await its.write_all({0: [commits(8, group="g0")]}, NOW) == {}
        assert await told(its.log, "g0") == [8]
    assert "shim.upstream.topic_reader" not in {each.name for each in caplog.records}


async def test_a_partition_that_nobody_leads(cluster: Brokers, make_topic: TopicFactory) -> None:
    topic = make_topic(3, replication_factor=1, config=CONFIG)
    at = cluster.brokers[0]
    led_by = cluster_view(at.host, at.port, (topic,)).leaders
    gone = next(each for each in cluster.brokers if not each.is_controller and each.node_id in led_by.values())
    number = next(number for (_, number), leader in led_by.items() if leader == gone.node_id)
    async with kept_on_topic(cluster.bootstrap_servers, topic, 3, read_patience_s=1.0, write_patience_s=1.0) as its:
        await its.begin(number)
        with hung(gone.pid):
            (failed,) = (await its.write_all({number: [commits(1)]}, NOW)).values()
            assert "unknown" in str(failed)
            group = next(name for name in map(str, range(1_000)) if partition_for(name, 3) == number)
            history = History(its.log)
            for asked in (
                history.moves(group, ALL),
                history.last_commit(group),
                history.at(group, NOW),
                history.last_reset(group),
                history.end(group),
            ):
                with pytest.raises(Refused, match="the history cannot be read now"):
                    await asked


async def test_what_was_acknowledged_and_does_not_come(
    broker: Broker, make_topic: TopicFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a leader that is cut off from the others: it is not told that nothing was committed."""
    topic = make_topic(config=CONFIG)
    async with kept_on_topic(broker.bootstrap_servers, topic, read_patience_s=2.5) as its:
        await its.begin(0)
        assert await its.write_all({0: [commits(1, 3)]}, NOW) == {}
        monkeypatch.setattr(its.writing, "acknowledged_end", lambda _: 7)
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(Refused, match=f"{topic}-0: nothing more comes, behind offset 3"):
                await told(its.log)


async def test_while_it_is_read_the_topic_is_made_anew(broker: Broker, make_topic: TopicFactory) -> None:
    """What is there now is not told as what comes next."""
    topic = make_topic(config=CONFIG)
    loop, has_begun = asyncio.get_running_loop(), asyncio.Event()
    async with kept_on_topic(broker.bootstrap_servers, topic) as its:
        await its.begin(0)
        assert await its.write_all({0: [commits(1, 3)]}, NOW) == {}
        reading = asyncio.create_task(its.log.read(0, Part(0, 10), lambda _: loop.call_soon_threadsafe(has_begun.set)))
        await has_begun.wait()
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.delete_topics([topic])[topic].result(PATIENCE_S)
        await asyncio.to_thread(make_topic, name=topic, config=CONFIG)
        with pytest.raises(UpstreamError, match="is not the log that it was"):
            await reading


async def test_records_that_cannot_be_decoded(
    broker: Broker, make_topic: TopicFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers look at batches from without, as far as they can."""

    def damaged(raw: bytes) -> list[Record]:
        raise CorruptBatch("no record", len(raw))

    topic = make_topic(config=CONFIG)
    async with kept_on_topic(broker.bootstrap_servers, topic) as its:
        await its.begin(0)
        assert await its.write_all({0: [commits(1)]}, NOW) == {}
        monkeypatch.setattr(history_log, "decode_records", damaged)
        with pytest.raises(Refused, match=f"the history cannot be read now: {topic}-0 offset 0: no record"):
            await told(its.log)
        assert await told(its.log, "orphans") is None, "it is not looked into"
