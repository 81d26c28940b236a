"""Records that are framed many at once share batches with others, and are never split, as those of any record set."""

from __future__ import annotations

import errno
import struct
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.commit_rows import CommitRows
from protocol.offsets_log import OffsetCommitKey, OffsetCommitValue, commit_runs, encode_key, encode_value
from protocol.own.record_sets import Appended, DroppingSet, EndOfTransaction, RecordSet, Runs, TransactionalSet
from protocol.records.batches import HEADER_SIZE, decode_records, encoded_size, frame_records, read_header
from protocol.records.record_runs import frame_runs, run_of, runs_size, unframed
from shim.log.segments import batching
from shim.log.segments.batching import prepare_batches

NOW = 1_700_000_000_000


def runs(first: int, count: int) -> Runs:
    raw = b"".join(struct.pack(">iqi", partition, 5, 6) for partition in range(first, first + count))
    return Runs(commit_runs("group", "orders", CommitRows(raw, 16, count, ""), NOW), count)


def pairs(first: int, count: int) -> RecordSet:
    value = encode_value(OffsetCommitValue(5, 6, "", NOW))
    return [(encode_key(OffsetCommitKey("group", "orders", p)), value) for p in range(first, first + count)]


@pytest.mark.parametrize("sizes", [[1], [3, 400, 1], [20_000], [9_000, 9_000, 9_000], [20_000, 5, 20_000]])
def test_batches_hold_whole_sets_and_no_more_than_fit(sizes: list[int]) -> None:
    firsts = [sum(sizes[:place]) for place in range(len(sizes))]
    made = prepare_batches(7, list(map(runs, firsts, sizes)), NOW)
    if len(sizes) == 1:
        assert made == prepare_batches(7, [pairs(0, sizes[0])], NOW)
    records = [(record.key, record.value) for batch in made for record in decode_records(batch.data)]
    assert records == pairs(0, sum(sizes))
    ends = {7 + sum(sizes[: place + 1]) for place in range(len(sizes))}
    assert {batch.next_offset for batch in made} <= ends, "a set is in one batch"
    several = [batch for batch in made if batch.next_offset - batch.base_offset > max(sizes)]
    assert all(len(batch.data) <= batching.MAX_BATCH_BYTES for batch in several)


def test_they_stand_between_others() -> None:
    appended: list[Appended] = [
        pairs(0, 2),
        runs(2, 70),
        TransactionalSet(9, 0, pairs(72, 1)),
        runs(73, 1),
        runs(74, 8),
        pairs(82, 1),
    ]
    records = [record for batch in prepare_batches(0, appended, NOW) for record in decode_records(batch.data)]
    assert [(record.offset, record.key) for record in records] == [
        (offset, key) for offset, (key, _) in enumerate(pairs(0, 83))
    ]


def test_sets_of_which_each_may_be_so_large_may_be_so_large_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "MAX_BATCH_BYTES", 100)
    monkeypatch.setattr(batching, "MAX_RECORD_SET_BYTES", encoded_size(pairs(0, 60)))
    made = prepare_batches(0, [pairs(0, 60), pairs(60, 60), pairs(120, 1)], NOW)
    assert [batch.next_offset for batch in made] == [60, 120, 121]


def test_a_set_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "MAX_BATCH_BYTES", 100)
    monkeypatch.setattr(batching, "MAX_RECORD_SET_BYTES", 10_000)
    assert len(prepare_batches(0, [runs(0, 50), runs(50, 50)], NOW)) == 2
    with pytest.raises(OSError, match="200 records of one request") as refused:
        prepare_batches(0, [runs(0, 200)], NOW)
    assert refused.value.errno == errno.EMSGSIZE


SETS: st.SearchStrategy[Appended] = st.one_of(
    st.builds(runs, st.just(0), st.integers(1, 30)),
    st.builds(pairs, st.just(0), st.integers(0, 30)),
    st.builds(lambda count: DroppingSet(pairs(0, count), ()), st.integers(1, 3)),
    st.builds(lambda count: TransactionalSet(9, 0, pairs(0, count)), st.integers(1, 3)),
    st.builds(EndOfTransaction, st.just(9), st.just(0), st.booleans(), st.just(1)),
)
MOST_BYTES = 2_000


def counts(appended: list[Appended]) -> list[int]:
    """Records of each batch, of sets that are put into it one after the other."""
    batches: list[list[Appended]] = [[]]
    for each in appended:
        if isinstance(each, TransactionalSet | EndOfTransaction):
            batches += [[each], []]
        elif sum(map(bound, [*batches[-1], each])) > MOST_BYTES:
            batches.append([each])
        else:
            batches[-1].append(each)
    return [count for batch in batches if (count := sum(map(records_of, batch)))]


def bound(each: Appended) -> int:
    if isinstance(each, Runs):
        return runs_size(each.runs, each.total)
    assert not isinstance(each, EndOfTransaction)
    return encoded_size(each.records if isinstance(each, DroppingSet | TransactionalSet) else each)


def records_of(each: Appended) -> int:
    if isinstance(each, Runs):
        return each.total
    if isinstance(each, EndOfTransaction):
        return 1
    return len(each.records if isinstance(each, DroppingSet | TransactionalSet) else each)


@given(st.lists(SETS, max_size=12), st.integers(0, 1 << 40))
def test_what_is_told_of_batches_is_what_they_say(appended: list[Appended], offset: int) -> None:
    with patch.object(batching, "MAX_BATCH_BYTES", MOST_BYTES):
        made = prepare_batches(offset, appended, NOW)
    assert [batch.next_offset - batch.base_offset for batch in made] == counts(appended)
    for batch in made:
        header = read_header(batch.data)
        decode_records(batch.data)  # its CRC is right
        assert batch.base_offset == offset
        assert header.size == len(batch.data)
        assert batch[1:] == (header.base_offset, header.next_offset, header.max_timestamp, header.crc)
        offset = batch.next_offset


@given(st.integers(1, 9_000))
def test_runs_take_no_more_than_their_bound(count: int) -> None:
    each = runs(0, count)
    (batch,) = prepare_batches(0, [each], NOW)
    assert len(batch.data) - HEADER_SIZE <= runs_size(each.runs, each.total)


@pytest.mark.parametrize("delta", [0, 63, 64, 1_023, 1_024])
@pytest.mark.parametrize("value", [None, b"", b"v", bytes(1_020), bytes(1_024), bytes(9_000)])
def test_a_record_framed_as_a_run_is_that_record(value: bytes | None, delta: int) -> None:
    as_run: list[bytes | bytearray] = []
    as_record: list[bytes | bytearray] = []
    assert frame_runs([run_of(b"key", value)], as_run, delta) == delta + 1
    frame_records([(b"key", value)], as_record, delta)
    assert b"".join(as_run) == b"".join(as_record)


@pytest.mark.parametrize("count", [0, 1, 64, 65, 1024, 1025, 8_193])
@pytest.mark.parametrize("size", [0, 50, 59, 60, 61, 8_187, 8_190])
def test_what_was_framed_is_taken_apart_again(count: int, size: int) -> None:
    """Where lengths and offset deltas take one byte, and two, and three."""
    its = [bytes([number % 251]) * (size + number % 3) for number in range(min(count, 8_193 if size < 99 else 70))]
    parts: list[bytes | bytearray] = []
    assert frame_runs(its, parts, 0) == len(its)
    assert unframed(b"".join(parts)) == its
