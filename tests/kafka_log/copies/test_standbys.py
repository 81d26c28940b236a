"""Partitions of others are followed, and what was followed is given to whoever takes one over, as long as it counts."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import cast

import pytest

from protocol.offsets_log import OffsetCommitKey, OffsetCommitValue, encode_key, encode_value
from protocol.own.position import Position
from protocol.records.batches import Record, encode_records, read_header
from shim.kafka_log.copies import partition_copy, standbys
from shim.kafka_log.copies.partition_copy import PartitionCopy
from shim.kafka_log.copies.replaying import TopicReplay
from shim.kafka_log.copies.standbys import Standbys
from shim.kafka_log.copies.tombstones import Tombstones
from shim.kafka_log.reading.read_part import ReadPart
from shim.logs.repeats import Repeats, event_of
from shim.runtime.replaying import Home
from shim.upstream import UpstreamError
from shim.upstream.topic_leaders import Leader
from shim.upstream.topic_reader import Fetched, TopicReader
from tests.coordinator.driving import new_coordinator
from tests.waiting import turns_of_the_loop, until

TOPIC = "t"
RETENTION_S = 100.0
WAIT_SECONDS = 20.0


class Topic:
    """A topic whose partitions are read as far as the test lets them be."""

    def __init__(self) -> None:
        self.fetched: defaultdict[int, asyncio.Queue[Fetched[bytes]]] = defaultdict(asyncio.Queue)
        self.begun: list[Position] = []
        self.reading: set[int] = set()
        self.ends: defaultdict[int, int] = defaultdict(int)
        self.leader = 0
        self.told: set[int] = set()
        """Of these it was said what is deleted, to whoever reads them now."""
        self.deleted: dict[int, int] = {}
        """Of each the offset at which what stands for partition 0 is deleted."""

    async def read_raw(self, position: Position) -> AsyncGenerator[Fetched[bytes], None]:
        number = position.partition
        assert number not in self.reading, "one reading of a partition at a time"
        if number not in self.told:
            self.told.add(number)
            batches = []
            if number in self.deleted:
                raw = encode_records([Record(encode_key(OffsetCommitKey("g", "t", 0)), None, (), 0, 0)])
                batches = [(read_header(raw)._replace(base_offset=self.deleted[number]), raw)]
            yield Fetched(position, batches, 0, leader=Leader(self.leader, self.leader))
            raise AssertionError("that was all")
        self.reading.add(number)
        self.begun.append(position)
        try:
            while True:
                yield await self.fetched[number].get()
        finally:
            self.reading.discard(number)

    def brings(
        self,
        number: int,
        *offsets: int,
        at: int | None = None,
        missing: int = 0,
        behind: int = 0,
        is_reset: bool = False,
    ) -> None:
        """A batch with commits of these; ``missing``: so many were compacted away before it; ``behind``: so many
        records more are there."""
        start = self.ends[number] if at is None else at
        batches = []
        if offsets:
            records = [
                Record(
                    encode_key(OffsetCommitKey("g", "t", place)), encode_value(OffsetCommitValue(each)), (), 0, place
                )
                for place, each in enumerate(offsets)
            ]
            raw = encode_records(records, producer_id=7, producer_epoch=0, base_sequence=0)
            header = read_header(raw)._replace(base_offset=start + missing, partition_leader_epoch=0)
            batches = [(header, raw)]
        self.ends[number] = start + missing + len(offsets)
        end = self.ends[number] + behind
        position = Position(number, start, 0, 0, bytes([1] * 16))
        self.fetched[number].put_nowait(
            Fetched(position, batches, end, is_reset, end, Leader(self.leader, self.leader))
        )


class Retention:
    """As the cluster tells it, if it does."""

    def __init__(self) -> None:
        self.asked: list[tuple[float, float]] = []
        self.errors: list[UpstreamError] = []

    async def may_be_gone(self, since: float, at: float) -> bool:
        self.asked.append((since, at))
        if self.errors:
            raise self.errors.pop(0)
        return at - since >= RETENTION_S


class Following:
    def __init__(self) -> None:
        self.topic = Topic()
        self.retention = Retention()
        self.replayer = ThreadPoolExecutor(1)
        self.made: list[PartitionCopy] = []
        reader, tombstones = cast(TopicReader, self.topic), cast(Tombstones, self.retention)
        self.nothing_loads = asyncio.Event()
        self.nothing_loads.set()
        self.its = Standbys(reader, TOPIC, self._copy, self.replayer, tombstones, self.nothing_loads)

    def _copy(self, number: int) -> PartitionCopy:
        coordinator = new_coordinator()
        replay = TopicReplay(coordinator, Home(0, 1, f"{TOPIC}-{number}"), lambda *_: None)
        self.made.append(PartitionCopy(coordinator, replay, ReadPart(TOPIC, number)))
        self.topic.told.discard(number)
        return self.made[-1]

    async def counts(self, at_end: int, behind: int) -> None:
        await until(lambda: (self.its.at_end, self.its.behind) == (at_end, behind))

    async def reads(self, number: int, next_offset: int) -> None:
        await until(lambda: any(its.part.position[:2] == (number, next_offset) and its.is_whole for its in self.made))

    async def taken(self, number: int) -> PartitionCopy | None:
        self.its.hold(number)
        async with asyncio.timeout(WAIT_SECONDS):
            return await self.its.taken(number)


@pytest.fixture
async def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """CLOCK_BOOTTIME, as the test has it."""
    found = [1000.0]
    for module in (standbys, partition_copy):
        monkeypatch.setattr(module, "boottime", lambda: found[0])
    return found


class Waits:
    """Of those that begin again after a while: over when the test says so."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._over = asyncio.Event()

    async def begin(self, seconds: float) -> None:
        self.seconds.append(seconds)
        await self._over.wait()

    def end(self) -> None:
        self._over.set()
        self._over = asyncio.Event()


@pytest.fixture
async def waits(monkeypatch: pytest.MonkeyPatch) -> Waits:
    made, sleep = Waits(), asyncio.sleep
    monkeypatch.setattr(asyncio, "sleep", lambda s: made.begin(s) if s == standbys.RETRY_SECONDS else sleep(s))
    return made


@asynccontextmanager
async def following(*numbers: int) -> AsyncIterator[Following]:
    made = Following()
    made.its.follow(numbers)
    try:
        yield made
    finally:
        await made.its.close()
        made.replayer.shutdown()


def committed(copy: PartitionCopy | None) -> dict[int, int]:
    assert copy is not None
    table = copy.coordinator._state.offsets.committed
    found = {number: table.get("g", "t", number) for number in range(10)}
    return {number: its.offset for number, its in found.items() if its is not None}


async def test_what_was_followed_is_what_was_written() -> None:
    async with following(0) as its:
        its.topic.brings(0, 5, 6, behind=2)
        await its.reads(0, 2)
        assert (its.its.at_end, its.its.behind) == (0, 1)
        its.topic.brings(0, 7, 8)
        await its.counts(1, 0)
        its.topic.brings(0, 9)
        await its.reads(0, 5)
        copy = await its.taken(0)
        assert committed(copy) == {0: 9, 1: 8}
        assert copy is not None
        assert (copy.part.position.next_offset, copy.part.records) == (5, 5)
        assert await its.taken(0) is None, "it is the taker's"
        assert its.its.at_end == 0


async def test_what_is_deleted_further_on_is_none_of_it() -> None:
    """Compaction may have taken the tombstone by then."""
    async with following(0) as its:
        its.topic.deleted[0] = 2
        its.topic.brings(0, 5, 6, behind=2)
        its.topic.brings(0, 7, missing=1)
        await its.counts(1, 0)
        assert committed(await its.taken(0)) == {0: 7, 1: 6}


async def test_who_goes_on_with_a_part_of_it_knows_what_is_deleted(now: list[float]) -> None:
    async with following(0) as its:
        its.topic.deleted[0] = 2
        its.topic.brings(0, 5, behind=2)
        await its.reads(0, 1)
        copy = await its.taken(0)
        assert copy is not None
        for at, left in ((1, []), (2, [2])):
            record = Record(encode_key(OffsetCommitKey("g", "t", 0)), b"", (), 0, at)
            header = read_header(encode_records([record], producer_id=7))
            assert [each.offset for each in copy.part.take(header, [record])] == left


async def test_of_what_is_not_read_nothing_is_gone_on_with() -> None:
    async with following(0) as its:
        await asyncio.sleep(0)
        assert await its.taken(0) is None
        assert await its.taken(1) is None


async def test_nothing_is_read_once_it_is_held() -> None:
    """What the taker writes is not to be taken for somebody else's."""
    async with following(0) as its:
        its.topic.brings(0, 5)
        await its.counts(1, 0)
        its.its.hold(0)
        its.topic.brings(0, 6)
        its.its.follow([])
        await turns_of_the_loop()
        copy = await its.taken(0)
        assert committed(copy) == {0: 5}
        assert its.topic.reading == set()


async def test_what_is_being_replayed_is_waited_for() -> None:
    async with following(0) as its:
        its.topic.brings(0, 5)
        await its.counts(1, 0)
        goes_on = threading.Event()
        its.replayer.submit(goes_on.wait, WAIT_SECONDS)
        its.topic.brings(0, 6)
        await until(lambda: not its.replayer._work_queue.empty())
        taking = asyncio.create_task(its.taken(0))
        await turns_of_the_loop()
        assert not taking.done()
        goes_on.set()
        copy = await taking
        assert copy is not None
        assert (committed(copy), copy.part.position.next_offset) == ({0: 6}, 2)


async def test_what_was_broken_off_is_of_no_use(caplog: pytest.LogCaptureFixture) -> None:
    """A record of another partition: who owns it will say so. Nothing of it stays."""
    async with following(0) as its:
        its.topic.brings(0, 5)
        await its.counts(1, 0)
        (copy,) = its.made
        its.topic.brings(0, 6)
        copy._replay._home._num_partitions = 10**6
        copy._replay._home._checked.clear()
        await its.counts(0, 0)
        assert not copy.is_whole
        assert await its.taken(0) is None
    assert f"{TOPIC}-0 is not followed" in caplog.text


async def test_a_mistake_of_ours_is_told_and_it_is_followed_anew_after_a_while(
    waits: Waits, caplog: pytest.LogCaptureFixture
) -> None:
    """With where it was made, as often as the log is to have that."""
    times = 3
    async with following(0) as its:
        its.topic.brings(0, 5)
        await its.counts(1, 0)
        for each in range(1, times + 1):
            made = len(its.made)
            its.made[-1]._replay = None  # type: ignore[assignment]
            its.topic.brings(0, 6)
            await until(lambda each=each: len(waits.seconds) == each)  # type: ignore[misc]
            assert (its.its.at_end, its.its.behind, its.topic.reading) == (0, 1, set())
            its.topic.brings(0, 7, 8, at=0)
            waits.end()
            await its.counts(1, 0)
            assert len(its.made) == made + 1
        assert committed(await its.taken(0)) == {0: 7, 1: 8}
    assert waits.seconds == [5.0] * times
    records = [each for each in caplog.records if each.getMessage() == "t-0: its reading begins again"]
    assert [each.exc_info is not None and each.exc_info[0] for each in records] == [AttributeError] * times
    repeats = Repeats(times - 1)
    events = [event_of(each.name, each.levelno, str(each.msg), each.getMessage()) for each in records]
    assert [repeats.may_pass(each, 0.0) for each in events] == [True] * (times - 1) + [False]


async def test_what_a_mistake_of_ours_was_made_in_is_not_gone_on_with(waits: Waits) -> None:
    """The partition comes here while it waits to begin again; nor is it in the way of what is far behind."""
    async with following(0, 1) as its:
        its.made[0]._replay = None  # type: ignore[assignment]
        its.topic.brings(0, 5, behind=1)
        its.topic.brings(1, 6)
        await its.counts(1, 1)
        assert waits.seconds == [5.0]
        assert await its.taken(0) is None
        assert committed(await its.taken(1)) == {0: 6}


async def test_a_log_that_is_another_one_is_read_anew() -> None:
    async with following(0) as its:
        its.topic.brings(0, 5, 6)
        await its.counts(1, 0)
        its.topic.brings(0, at=1, is_reset=True)
        its.topic.brings(0, 7, at=0)
        await its.reads(0, 1)
        await its.counts(1, 0)
        assert committed(await its.taken(0)) == {0: 7}
        assert its.topic.begun[-2].next_offset == 0


async def test_a_beginning_that_is_gone_is_not_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    async with following(0) as its:
        its.topic.brings(0, 5, at=3)
        await its.counts(0, 0)
        assert await its.taken(0) is None
    assert "offsets 0 to 3 are gone" in caplog.text


async def test_what_was_not_at_the_end_for_long_is_too_old(now: list[float], caplog: pytest.LogCaptureFixture) -> None:
    """A tombstone may have been removed behind it."""
    async with following(0) as its:
        its.topic.brings(0, 5)
        await its.counts(1, 0)
        now[0] += RETENTION_S - 1
        its.topic.brings(0, 6, behind=1)
        await its.reads(0, 2)
        now[0] += 2
        its.topic.brings(0, behind=1)  # the next one is asked for now
        its.topic.brings(0, 7)
        its.topic.brings(0, 8, at=0)
        await its.reads(0, 1)
        await its.counts(1, 0)
        assert committed(await its.taken(0)) == {0: 8}
    assert caplog.text.count("t-0: what was followed is not used: it is older than half of ") == 1


async def test_what_may_be_too_old_is_not_at_its_end_until_that_is_known(
    now: list[float], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(standbys, "RETRY_SECONDS", 0.001)
    async with following(0) as its:
        its.retention.errors = [UpstreamError("no answer"), UpstreamError("no answer")]
        its.topic.brings(0, 4, behind=1)
        await its.reads(0, 1)
        now[0] += RETENTION_S - 1
        its.topic.brings(0, behind=1)
        its.topic.brings(0, 5)
        await its.counts(1, 0)
        assert its.retention.asked == [(1000.0, 1000.0 + RETENTION_S - 1)] * 3
        assert committed(await its.taken(0)) == {0: 5}
    assert caplog.text.count("not known whether what is followed of t-0 is too old for now: no answer") == 1


async def test_of_what_is_not_followed_any_more_it_is_not_over(
    now: list[float], waits: Waits, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with following() as its:
        for _ in range(2):
            waits.seconds.clear()
            its.topic.ends[0] = 0  # read from the beginning
            its.retention.errors = [UpstreamError("no answer")]
            its.its.follow([0])
            its.topic.brings(0, 4)
            await until(lambda: bool(waits.seconds))
            its.its.follow([])
    assert caplog.text.count("not known whether what is followed of t-0 is too old for now: no answer") == 2
    assert "this is over" not in caplog.text


async def test_where_another_leader_has_it_compacted_it_is_read_from_the_beginning(
    now: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    """What the one before has told may be deleted, and that be compacted away, too."""
    async with following(0) as its:
        its.topic.brings(0, 5)
        await its.counts(1, 0)
        its.topic.leader = 1
        its.topic.brings(0, 6, behind=1)
        await its.reads(0, 2)
        its.topic.brings(0, 7, missing=1)
        its.topic.brings(0, 8, at=0)
        await its.reads(0, 1)
        await its.counts(1, 0)
        assert committed(await its.taken(0)) == {0: 8}
    assert caplog.text.count("t-0: what was followed is not used: what stands behind offset 2 was compacted, at ") == 1


async def test_what_another_leader_compacts_once_it_was_read_does_not_matter(now: list[float]) -> None:
    async with following(0) as its:
        its.topic.brings(0, 5)
        await its.counts(1, 0)
        its.topic.leader = 1
        its.topic.brings(0, 6, behind=1)
        its.topic.brings(0, 7)
        await its.reads(0, 3)
        its.topic.brings(0, 8, missing=6)
        await its.reads(0, 10)
        assert len(its.made) == 1


async def test_it_counts_from_when_the_end_was_asked_for(now: list[float]) -> None:
    async with following(0) as its:
        its.topic.brings(0, 5)
        await its.counts(1, 0)
        now[0] += 30
        its.topic.brings(0, 6)
        await its.reads(0, 2)
        its.topic.brings(0)
        await until(lambda: its.made[0].up_to_date_at == 1030.0)
        copy = await its.taken(0)
        assert committed(copy) == {0: 6}
        assert copy is not None
        assert copy.up_to_date_at == 1030.0
        assert its.retention.asked[-1] == (1000.0, 1030.0)


async def test_one_that_is_far_behind_at_a_time() -> None:
    async with following(2, 1, 0) as its:
        its.topic.brings(0, 5, behind=7)
        await its.reads(0, 1)
        assert its.topic.reading == {0}
        its.topic.brings(0, *range(7))
        its.topic.brings(1, 5)
        await its.counts(2, 1)
        await until(lambda: its.topic.reading == {0, 1, 2})


async def test_it_makes_way_for_whom_others_wait_for() -> None:
    async with following(0) as its:
        its.nothing_loads.clear()
        its.topic.brings(0, 5)
        await turns_of_the_loop()
        assert its.made[0].part.position.next_offset == 0
        its.nothing_loads.set()
        await its.counts(1, 0)


async def test_whom_it_follows_changes() -> None:
    async with following(0, 1) as its:
        for number in (0, 1):
            its.topic.brings(number, 5)
        await its.counts(2, 0)
        its.its.follow([1])
        await its.counts(1, 0)
        its.its.hold(1)
        its.its.follow([])
        copy = await its.its.taken(1)
        assert committed(copy) == {0: 5}, "that was held"
        assert copy is not None
        its.its.give_back(1, copy)
        assert await its.its.taken(1) is copy
        its.its.give_back(1, copy)
        its.its.drop(1)
        assert await its.its.taken(1) is None
        its.its.follow([1])
        its.its.drop(1)
        assert await its.its.taken(1) is None, "it is followed, and not held"
        assert its.its.behind == 1


async def test_what_is_held_and_to_be_followed_after_all_is_read_anew() -> None:
    async with following(0) as its:
        its.topic.brings(0, 5)
        await its.counts(1, 0)
        its.its.hold(0)
        its.its.follow([0])
        its.topic.brings(0, 6, 7, at=0)
        await its.counts(1, 0)
        assert committed(await its.taken(0)) == {0: 6, 1: 7}
        assert len(its.made) == 2


async def test_who_waits_to_know_its_age_is_in_nobody_s_way(now: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    """What is far behind is read one after the other: a question that nobody answers is not a part of that."""
    monkeypatch.setattr(standbys, "RETRY_SECONDS", 0.001)
    async with following(1, 0) as its:
        never = UpstreamError("no answer")
        its.retention.errors = [never] * 1_000
        its.topic.brings(0, 5)
        await its.reads(0, 1)
        await until(lambda: len(its.retention.asked) > 3)
        its.topic.brings(1, 6)
        await its.reads(1, 1)
        assert its.its.at_end == 0
        its.retention.errors.clear()
        await its.counts(2, 0)


async def test_what_waits_for_its_turn_is_not_older_for_that(now: list[float]) -> None:
    """Where all of them take longer to be read than tombstones stay, none would come to its end."""
    async with following(0, 1) as its:
        await until(lambda: its.topic.reading == {0})
        now[0] += RETENTION_S + 1
        its.topic.brings(0, behind=1)
        its.topic.brings(0, 5, at=0)
        await until(lambda: 1 in its.topic.reading)
        now[0] += 5
        its.topic.brings(1, 6)
        await its.counts(1, 1)
        assert its.retention.asked[-1][0] == 1000.0 + RETENTION_S + 1
