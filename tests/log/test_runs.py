"""Records that are framed many at once share batches with others, and are never split, as those of any record set."""

from __future__ import annotations

import errno
import struct

import pytest

from protocol.commit_rows import CommitRows
from protocol.offsets_log import OffsetCommitKey, OffsetCommitValue, commit_runs, encode_key, encode_value
from protocol.records.batches import decode_records
from shim.log import batching
from shim.log.batching import Appended, RecordSet, Runs, TransactionalSet, prepare_batches

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
    assert {batch.header.next_offset for batch in made} <= ends, "a set is in one batch"
    several = [batch for batch in made if batch.header.record_count > max(sizes)]
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


def test_a_set_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "MAX_BATCH_BYTES", 100)
    monkeypatch.setattr(batching, "MAX_RECORD_SET_BYTES", 10_000)
    assert len(prepare_batches(0, [runs(0, 50), runs(50, 50)], NOW)) == 2
    with pytest.raises(OSError, match="200 records of one request") as refused:
        prepare_batches(0, [runs(0, 200)], NOW)
    assert refused.value.errno == errno.EMSGSIZE
