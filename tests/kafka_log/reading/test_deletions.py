"""What is deleted in a partition is known before it is read, so that compaction may take it away meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Final

import pytest

from protocol.own.position import Position
from protocol.own.record_sets import LoggedRecord
from protocol.records.batches import BatchHeader, Record, encode_records, read_header
from shim.config import parse_servers
from shim.demo.parts import Broker
from shim.kafka_log.reading.deletions import read_deletions
from shim.kafka_log.reading.read_part import NotWhole, ReadPart
from shim.log import LogError
from shim.upstream.cluster import Cluster
from shim.upstream.topic_leaders import Leader
from shim.upstream.topic_reader import Fetched, TopicReader
from tests.conftest import TopicFactory
from tests.kafka_log.owning.test_owned_topic import CONFIG, SETTINGS, owned, served, write
from tests.kafka_log.topics.test_watch import alter

WAIT_S: Final = 60.0
HOUR: Final = str(3_600_000)
LATER: Final = {"segment.ms": "1", "min.compaction.lag.ms": HOUR, "delete.retention.ms": HOUR}
AT_ONCE: Final = {"min_compaction_lag_ms": "0", "delete_retention_ms": "0", "min_cleanable_dirty_ratio": "0.0"}


def batch(offset: int, *records: tuple[bytes, bytes | None]) -> tuple[BatchHeader, bytes]:
    made = [Record(key, value, (), 0, place) for place, (key, value) in enumerate(records)]
    raw = encode_records(made, producer_id=7, producer_epoch=0, base_sequence=0)
    return read_header(raw)._replace(base_offset=offset), raw


def logged(part: ReadPart, offset: int, *records: tuple[bytes, bytes | None]) -> list[tuple[int, bytes | None]]:
    header, _ = batch(offset, *records)
    taken = part.take(header, [Record(key, value, (), 0, offset + at) for at, (key, value) in enumerate(records)])
    return [(each.offset, each.value) for each in taken]


async def told(
    part: ReadPart, *answers: Sequence[tuple[BatchHeader, bytes]], leaders: Sequence[Leader] = (Leader(1, 4),)
) -> bool:
    """In turn by those leaders, the last of whom stays. Whether it was closed in the end."""
    closed = []
    end = max((header.next_offset for answer in answers for header, _ in answer), default=0)

    async def reading() -> AsyncGenerator[Fetched[bytes], None]:
        position = Position(0, 0)
        try:
            for number, answer in enumerate(answers):
                read = Fetched(position, list(answer), end, leader=leaders[min(number, len(leaders) - 1)])
                yield read
                position = read.position
            raise AssertionError("it has come to the end")
        finally:
            closed.append(True)

    await read_deletions(reading, part, "t-0")
    return bool(closed)


async def test_what_is_deleted_further_on_is_none_of_the_records() -> None:
    part = ReadPart("t", 0)
    one, two = batch(0, (b"a", b"1"), (b"b", b"1")), batch(2, (b"a", None), (b"b", b"2"), (b"c", None))
    assert await told(part, [one], [two])
    assert logged(part, 0, (b"a", b"1"), (b"b", b"1")) == [(1, b"1")]
    assert part.position.next_offset == 2
    assert logged(part, 2, (b"a", None), (b"b", b"2"), (b"c", None)) == [(2, None), (3, b"2"), (4, None)]
    assert logged(part, 5, (b"a", b"3")) == [(5, b"3")], "it is there again"


async def test_of_several_the_last_one_counts() -> None:
    part = ReadPart("t", 0)
    assert await told(part, [batch(0, (b"a", None)), batch(1, (b"a", b"2"), (b"a", None))])
    assert logged(part, 0, (b"a", None)) == [], "it does not matter any more"
    assert logged(part, 1, (b"a", b"2"), (b"a", None)) == [(2, None)]


async def test_nothing_is_there() -> None:
    part = ReadPart("t", 0)
    assert await told(part, [])
    assert logged(part, 0, (b"a", b"1")) == [(0, b"1")]


async def test_at_the_end_nothing_is_kept_of_it() -> None:
    part = ReadPart("t", 0)
    assert await told(part, [batch(0, (b"a", b"1"), (b"a", None))])
    part.at_end()
    assert part._deleted is None


@pytest.mark.parametrize(("leader", "is_another"), [(Leader(1, 5), False), (Leader(1, 6), True), (Leader(2, 5), True)])
async def test_they_are_of_one_leader(leader: Leader, is_another: bool) -> None:
    """What it has compacted away another one may have yet. With another one it is begun again, some times."""
    begun = []
    answers = [batch(0, (b"a", b"1"))], [batch(1, (b"a", None))]

    async def reading() -> AsyncGenerator[Fetched[bytes], None]:
        begun.append(True)
        yield Fetched(Position(0, 0), answers[0], 2, leader=Leader(1, 4))
        yield Fetched(Position(0, 1), answers[1], 2, leader=leader)

    part = ReadPart("t", 0)
    if is_another:
        with pytest.raises(NotWhole, match="5 times another broker had come to lead t-0"):
            await read_deletions(reading, part, "t-0")
    else:
        await read_deletions(reading, part, "t-0")
        assert part.leader_epoch == leader.epoch
    assert len(begun) == (5 if is_another else 1)


@pytest.mark.parametrize("is_compacted", [True, False])
@pytest.mark.parametrize("leader", [Leader(2, 5), Leader(1, 5)])
async def test_at_another_leader_nothing_counts_but_a_log_of_which_nothing_is_gone(
    leader: Leader, is_compacted: bool
) -> None:
    """Nor does what was deleted at the one before: that may be lost, and the key be there anew."""
    part = ReadPart("t", 0)
    assert await told(part, [batch(0, (b"a", b"1")), batch(1, (b"a", None))])
    part.told_by(leader)
    if is_compacted:
        with pytest.raises(NotWhole):
            logged(part, 1, (b"a", b"1"))
    else:
        assert logged(part, 0, (b"a", b"1")) == [(0, b"1")]


async def test_in_the_middle_the_same_leader_goes_on_under_the_next_epoch() -> None:
    part = ReadPart("t", 0)
    assert await told(part, [batch(0, (b"a", b"1"), (b"b", b"1"), (b"a", None))])
    part.told_by(Leader(1, 4))
    assert logged(part, 0, (b"a", b"1")) == []
    part.told_by(Leader(1, 5))
    assert logged(part, 2, (b"a", None)) == [(2, None)]


async def test_a_log_that_is_another_one_meanwhile() -> None:
    """It is begun again with that one. What is read then is to be of it."""
    topics = iter((b"1" * 16, b"2" * 16))

    async def reading() -> AsyncGenerator[Fetched[bytes], None]:
        position = Position(0, 0, topic_id=next(topics))
        if position.topic_id == b"1" * 16:
            yield Fetched(position, [batch(0, (b"a", None))], 2)
            yield Fetched(position._replace(topic_id=b"2" * 16), [], 2, is_reset=True)
        else:
            yield Fetched(position, [batch(0, (b"b", None))], 1)

    part = ReadPart("t", 0)
    await read_deletions(reading, part, "t-0")
    assert part.position == Position(0, 0, topic_id=b"2" * 16)
    assert logged(part, 0, (b"a", b"1"), (b"b", b"1")) == [(0, b"1"), (1, b"1")]


@pytest.mark.parametrize(("high_watermark", "is_over"), [(1, False), (3, True)])
async def test_where_nothing_comes_it_is_over_at_the_end_alone(high_watermark: int, is_over: bool) -> None:
    """A leader that has just come may not know yet how far all have got."""
    went_on = []

    async def reading() -> AsyncGenerator[Fetched[bytes], None]:
        yield Fetched(Position(0, 0), [batch(0, (b"a", b"1"))], 1, high_watermark=1)
        yield Fetched(Position(0, 1), [], 1, high_watermark=high_watermark)
        went_on.append(True)
        yield Fetched(Position(0, 1), [batch(1, (b"a", None), (b"b", b"1"))], 1, high_watermark=3)

    part = ReadPart("t", 0)
    await read_deletions(reading, part, "t-0", least_end=3)
    assert went_on == ([] if is_over else [True])
    assert logged(part, 0, (b"a", b"1")) == ([(0, b"1")] if is_over else [])


async def test_what_no_shim_has_written() -> None:
    header, raw = batch(0, (b"a", b"1"))
    with pytest.raises(LogError, match=r"^t-0: "):
        await told(ReadPart("t", 0), [(header._replace(record_count=2), raw)])


def test_what_cannot_be_decoded_is_told_of_in_one_way() -> None:
    header, raw = batch(0, (b"a", b"1"))
    with pytest.raises(LogError, match=r"^t-0 offset 0: "):
        ReadPart("t", 0).take_all([(header._replace(record_count=2), raw)], len)


async def has(broker: Broker, topic: str, key: bytes) -> bool:
    """A value or a tombstone."""
    reader = TopicReader(Cluster(parse_servers(broker.bootstrap_servers), SETTINGS), SETTINGS, topic)
    async with aclosing(reader.read(Position(0, 0))) as reading:
        async for read in reading:
            if any(record.key == key for _, records in read.batches for record in records):
                return True
            if read.position.next_offset >= read.high_watermark:
                return False
    raise AssertionError("it is read for ever")


async def test_what_compaction_takes_while_all_is_read_does_not_rise_again(
    tmp_path: Path, make_topic: TopicFactory
) -> None:
    """The reading has come by a record; that and its tombstone are gone before it comes to the tombstone."""
    with Broker(tmp_path, properties={"log.cleaner.backoff.ms": 100, "log.segment.delete.delay.ms": 100}) as broker:
        topic = make_topic(config={**CONFIG, **LATER}, on=broker)
        async with owned(broker.bootstrap_servers, topic) as first, owned(broker.bootstrap_servers, topic) as second:
            await served(first, 0)
            for key, value in ((b"k1", b"v"), (b"k2", b"v"), (b"k3", b"v"), (b"k1", None), (b"k4", b"v")):
                assert await write(first, {0: [[(key, value)]]}) == {}
            await second.take_over(0)
            found: dict[bytes, bytes | None] = {}
            is_compacted = False

            def replay(records: list[LoggedRecord]) -> None:
                found.update((each.key, each.value) for each in records if each.key.startswith(b"k"))

            async for _ in second.read(0, replay):
                if not is_compacted and found:
                    assert found.keys() <= {b"k1", b"k2"}, "it has come too far"
                    await alter(broker, topic, **AT_ONCE)
                    async with asyncio.timeout(WAIT_S):
                        while await has(broker, topic, b"k1"):
                            await asyncio.sleep(0.1)  # for as long as compaction takes
                            await second._claiming.again(second._tenures[0])  # it comes by where something was written
                    is_compacted = True
    assert is_compacted
    assert {key for key, value in found.items() if value is not None} == {b"k2", b"k3", b"k4"}
