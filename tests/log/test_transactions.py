"""Transactions in the log: what is read back, and that compaction leaves its meaning alone."""

from __future__ import annotations

import random
from pathlib import Path
from typing import NamedTuple

import pytest

from protocol.own.position import Position, Producer, position_header
from protocol.own.record_sets import Appended, EndOfTransaction, InTransaction, LoggedRecord, TransactionalSet
from protocol.records.batches import BatchHeader, batches, encode_batch
from shim.log import LogError, OffsetsLog
from shim.log.cleaner.cleaner import Cleaner
from shim.log.cleaner.cleaning import CleanerSettings
from shim.log.offsets_log import PartitionWrite
from shim.log.settings import LogSettings
from tests.log.rolled import NOW, closed, folder_of, opened

RETENTION = 1_000
ALWAYS = CleanerSettings(min_cleanable_ratio=0.0, delete_retention_ms=RETENTION, segment_bytes=600)


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


class State(NamedTuple):
    """What is in force, what is pending by transaction, and how far other partitions have been taken over."""

    values: dict[bytes, tuple[int, bytes]]
    pending: dict[Producer, dict[bytes, tuple[int, bytes]]]
    positions: dict[int, int]

    def take(self, record: LoggedRecord) -> None:
        offset, _, key, value, transaction = record
        if transaction is None:
            if value is None:
                self.values.pop(key, None)
                for pending in self.pending.values():
                    pending.pop(key, None)
            else:
                self.values[key] = (offset, value)
            return
        if transaction.position is not None:
            self.positions[transaction.position.partition] = transaction.position.next_offset
        if transaction.committed is None:
            assert value is not None
            self.pending.setdefault(transaction.producer, {})[key] = (offset, value)
            return
        for its_key, (its_offset, its_value) in self.pending.pop(transaction.producer, {}).items():
            if transaction.committed and its_offset > self.values.get(its_key, (-1, b""))[0]:
                self.values[its_key] = (its_offset, its_value)

    def meaning(self) -> tuple[dict[bytes, bytes], dict[Producer, dict[bytes, bytes]], dict[int, int]]:
        values = {key: value for key, (_, value) in self.values.items()}
        pending = {
            of: {key: value for key, (_, value) in entries.items()} for of, entries in self.pending.items() if entries
        }
        return values, pending, self.positions

    def outcomes(self) -> list[dict[bytes, tuple[int, bytes]]]:
        """What would be in force if one of the open transactions were committed, of each."""
        found = []
        for key in sorted(self.pending):
            values = dict(self.values)
            for its_key, (offset, value) in self.pending[key].items():
                if offset > values.get(its_key, (-1, b""))[0]:
                    values[its_key] = (offset, value)
            found.append(values)
        return found


def state_of(log: OffsetsLog) -> State:
    state = State({}, {}, {})
    for record in log.recover(0):
        state.take(record)
    return state


def records_in(log: OffsetsLog) -> list[LoggedRecord]:
    return list(log.recover(0))


def headers(data_dir: Path) -> list[BatchHeader]:
    segments = sorted(folder_of(data_dir).glob("*.log"))
    return [header for segment in segments for _, header in batches(segment.read_bytes())]


class Writing:
    """Appends to the log as one that takes over the partitions 0 and 1 of another."""

    def __init__(self, log: OffsetsLog) -> None:
        self.log = log
        self.upstream = [0, 0]

    def _append(self, entry: list[tuple[bytes, bytes | None]] | TransactionalSet | EndOfTransaction) -> None:
        assert self.log.write([PartitionWrite(0, [entry], NOW)]) == {}

    def put(self, *records: tuple[bytes, bytes | None]) -> None:
        self._append(list(records))

    def _position(self, followed: int) -> tuple[tuple[str, bytes | None], ...]:
        self.upstream[followed] += 1
        return (position_header(Position(followed, self.upstream[followed])),)

    def pend(self, producer: int, *records: tuple[bytes, bytes], followed: int = 0) -> None:
        self._append(TransactionalSet(producer, 3, list(records), self._position(followed)))

    def end(self, producer: int, *, committed: bool, followed: int = 0) -> None:
        self._append(EndOfTransaction(producer, 4, committed, 9, self._position(followed)))


def roll(log: OffsetsLog) -> None:
    """Closes the active segment."""
    log.partition_log(0).roll_older_than(NOW + 1)
    log.maintain(NOW)


def clean(data_dir: Path, log: OffsetsLog, now_ms: int = NOW) -> int:
    """Until nothing is dirty. Gives the number of rounds."""
    rounds = 0
    cleaner = Cleaner(data_dir, log.partition_logs(), ALWAYS)
    while cleaner.step(now_ms) is not None:
        rounds += 1
        assert rounds < 50, "it never ends"
    assert cleaner.uncleanable == {}
    return rounds


def test_what_was_written_is_read_back(data_dir: Path) -> None:
    log = opened(data_dir)
    writing = Writing(log)
    writing.pend(7, (b"a", b"1"), (b"b", b"2"))
    writing.end(7, committed=True)
    writing.put((b"a", b"3"))
    writing.end(2**63 - 1, committed=False, followed=1)
    log.close()
    found = list(opened_log(data_dir).recover(0))
    producer = Producer(0, 7)
    pending = InTransaction(producer, 3, None, Position(0, 1))
    assert found == [
        LoggedRecord(0, NOW, b"a", b"1", pending),
        LoggedRecord(1, NOW, b"b", b"2", pending),
        LoggedRecord(2, NOW, b"\0\0\0\1", b"\0\0\0\0\0\x09", InTransaction(producer, 4, True, Position(0, 2))),
        LoggedRecord(3, NOW, b"a", b"3"),
        LoggedRecord(
            4, NOW, b"\0\0\0\0", b"\0\0\0\0\0\x09",
            InTransaction(Producer(1, 2**63 - 1), 4, False, Position(1, 1)),
        ),
    ]  # fmt: skip
    assert [(h.is_transactional, h.is_control, h.producer_id, h.producer_epoch) for h in headers(data_dir)] == [
        (True, False, 7, 3),
        (True, True, 7, 4),
        (False, False, -1, -1),
        (True, True, 2**63 - 1, 4),
    ]


def opened_log(data_dir: Path) -> OffsetsLog:
    return OffsetsLog.open(data_dir, 1, settings=LogSettings())


def test_in_one_write_with_others_each_keeps_its_place(data_dir: Path) -> None:
    log = opened(data_dir)
    entries: list[Appended] = [[(b"a", b"1")], [(b"b", b"1")], TransactionalSet(7, 0, [(b"a", b"2")]), [(b"c", b"1")]]
    assert log.write([PartitionWrite(0, [*entries, EndOfTransaction(7, 0, True, 0)], NOW)]) == {}
    assert [(r.offset, r.key) for r in log.recover(0)][:4] == [(0, b"a"), (1, b"b"), (2, b"a"), (3, b"c")]
    assert [header.record_count for header in headers(data_dir)] == [2, 1, 1, 1]


@pytest.mark.parametrize("control_type", [2, 9])
def test_a_control_record_that_ends_no_transaction_is_refused(data_dir: Path, control_type: int) -> None:
    log = opened(data_dir)
    Writing(log).end(7, committed=True)
    log.close()
    segment = next(folder_of(data_dir).glob("*.log"))
    key = b"\0\0" + control_type.to_bytes(2, "big")
    segment.write_bytes(encode_batch(0, [(key, b"\0\0\0\0\0\0")], NOW, attributes=0x30, producer_id=7))
    with pytest.raises(LogError, match=f"type {control_type}"):
        list(opened_log(data_dir).recover(0))


class TestCompaction:
    def test_an_aborted_offset_stands_for_nothing(self, data_dir: Path) -> None:
        log = opened(data_dir)
        writing = Writing(log)
        writing.put((b"a", b"old"))
        writing.pend(7, (b"a", b"aborted"))
        writing.end(7, committed=False)
        roll(log)
        assert clean(data_dir, log) == 1
        assert records_in(log)[0].value == b"old"
        assert b"aborted" not in [record.value for record in log.recover(0)]

    def test_a_committed_one_supersedes(self, data_dir: Path) -> None:
        log = opened(data_dir)
        writing = Writing(log)
        writing.put((b"a", b"old"))
        writing.pend(7, (b"a", b"new"))
        writing.end(7, committed=True)
        roll(log)
        clean(data_dir, log)
        assert records_in(log)[0][:4] == (1, NOW, b"a", b"new")

    def test_a_regular_one_before_the_marker_supersedes_it(self, data_dir: Path) -> None:
        log = opened(data_dir)
        writing = Writing(log)
        writing.pend(7, (b"a", b"pending"), (b"b", b"pending"))
        writing.put((b"a", b"regular"))
        writing.end(7, committed=True)
        roll(log)
        clean(data_dir, log)
        assert state_of(log).meaning()[0] == {b"a": b"regular", b"b": b"pending"}
        assert [record.value for record in log.recover(0)].count(b"pending") == 1

    def test_nothing_from_the_first_open_transaction_on(self, data_dir: Path) -> None:
        log = opened(data_dir)
        writing = Writing(log)
        writing.put((b"a", b"1"))
        writing.put((b"a", b"2"))
        writing.pend(7, (b"a", b"3"))
        writing.put((b"a", b"4"))
        writing.put((b"a", b"5"))
        roll(log)
        assert clean(data_dir, log) == 1
        assert [record.value for record in log.recover(0)] == [b"3", b"4", b"5"]
        writing.end(7, committed=True)
        roll(log)
        assert clean(data_dir, log) == 1
        assert records_in(log)[0].value == b"5"

    def test_a_segment_that_waits_for_the_end_is_not_read_again_and_again(self, data_dir: Path) -> None:
        log = opened(data_dir)
        Writing(log).pend(7, (b"a", b"3"))
        roll(log)
        cleaner = Cleaner(data_dir, log.partition_logs(), ALWAYS)
        assert cleaner.step(NOW) is None
        before = cleaner._undecided.copy()
        assert before
        assert cleaner.step(NOW) is None
        assert cleaner._undecided == before

    def test_that_it_waits_is_told_once_and_not_before_another_segment_is_full(
        self, data_dir: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        log = opened(data_dir)
        writing = Writing(log)
        writing.pend(7, (b"a", b"3"))
        cleaner = Cleaner(data_dir, log.partition_logs(), ALWAYS)
        waits = "not cleaned from offset 0 on, and grows, until the transaction of producer 7"
        for times in (0, 1, 1):
            writing.put((b"a", b"4"))
            roll(log)
            assert cleaner.step(NOW) is None
            assert caplog.text.count(waits) == times
        writing.end(7, committed=True)
        writing.pend(8, (b"a", b"5"))
        roll(log)
        assert cleaner.step(NOW) is not None
        for times in (0, 1):
            writing.put((b"a", b"6"))
            roll(log)
            assert cleaner.step(NOW) is None
            assert caplog.text.count("until the transaction of producer 8") == times

    def test_a_marker_goes_after_its_records_and_the_newest_position_never(self, data_dir: Path) -> None:
        log = opened(data_dir)
        writing = Writing(log)
        for number in range(4):
            writing.pend(7, (b"a", b"%d" % number))
            writing.end(7, committed=True)
        writing.put((b"a", b"last"))

        def markers() -> list[int]:
            return [header.base_offset for header in headers(data_dir) if header.is_control]

        roll(log)
        clean(data_dir, log)
        assert markers() == [1, 3, 5, 7], "their records were there when the round began"
        for now_ms, left in ((NOW, [1, 3, 5, 7]), (NOW + RETENTION, []), (NOW + 9 * RETENTION, [])):
            writing.put((b"a", b"once more"))
            writing.end(8, committed=False)
            roll(log)
            clean(data_dir, log, now_ms)
            *old, newest = markers()
            assert [offset for offset in old if offset < 9] == left
        for _ in range(3):
            writing.put((b"a", b"without a transaction"))
            roll(log)
            clean(data_dir, log, NOW + 99 * RETENTION)
        assert markers()[-1] == newest
        assert state_of(log).positions == {0: 11}

    def test_a_map_that_is_full_looks_for_the_ends(self, data_dir: Path) -> None:
        log = opened(data_dir)
        writing = Writing(log)
        writing.pend(7, (b"a", b"1"))
        for number in range(20):
            writing.put((b"k%d" % number, b"v"))
        writing.end(7, committed=False)
        roll(log)
        settings = CleanerSettings(min_cleanable_ratio=0.0, dedupe_buffer_size=1)
        cleaner = Cleaner(data_dir, log.partition_logs(), settings)
        stats = cleaner.step(NOW)
        assert stats is not None
        assert stats.end_offset > 0
        assert b"1" not in [record.value for record in log.recover(0)]


@pytest.mark.parametrize("seed", [*range(8), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(8, 100))])
def test_any_log_means_the_same_compacted(seed: int, data_dir: Path) -> None:
    rng = random.Random(seed)
    size = rng.choice((150, 400, 1500))
    log = opened(data_dir, LogSettings(segment_bytes=size))
    writing = Writing(log)
    is_open: set[tuple[int, int]] = set()
    now_ms = NOW
    for number in range(rng.choice((30, 120))):
        keys = [b"k%d" % rng.randrange(5) for _ in range(rng.randrange(1, 4))]
        producer, followed = rng.randrange(3), rng.randrange(2)
        match rng.choice(("put", "put", "delete", "pend", "pend", "end", "end", "clean", "reopen", "time")):
            case "put":
                writing.put(*((key, b"%d" % number) for key in dict.fromkeys(keys)))
            case "delete":
                writing.put((keys[0], None))
            case "pend":
                writing.pend(producer, *((key, b"%d" % number) for key in dict.fromkeys(keys)), followed=followed)
                is_open.add((producer, followed))
            case "end":
                writing.end(producer, committed=rng.random() < 0.6, followed=followed)
                is_open.discard((producer, followed))
            case "clean":
                if rng.random() < 0.3:
                    roll(log)
                before = state_of(log)
                clean(data_dir, log, now_ms)
                after = state_of(log)
                assert after.meaning()[::2] == before.meaning()[::2]
                assert after.outcomes() == before.outcomes()
            case "reopen":
                log.close()
                log = opened(data_dir, LogSettings(segment_bytes=size))
                writing.log = log
            case "time":
                now_ms += RETENTION
    for producer, followed in is_open:
        writing.end(producer, committed=rng.random() < 0.5, followed=followed)
    roll(log)
    expected = state_of(log).meaning()
    assert not expected[1]
    for _ in range(4):
        now_ms += RETENTION
        writing.put((b"filler", b"f"))
        roll(log)
        clean(data_dir, log, now_ms)
    values, pending, positions = state_of(log).meaning()
    del values[b"filler"]
    assert (values, pending, positions) == expected
    data = [record for record in log.recover(0) if record.transaction is None or record.transaction.committed is None]
    assert len([record for record in data if closed(log)[-1].next_offset > record.offset]) <= 6
    log.close()
