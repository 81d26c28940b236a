"""Of transactions, what was committed, from its marker on; also where the marker is in a later segment."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.history.errors import UnreadableLog
from pipeline.history.reading import Question, read_segment
from pipeline.history.schemas import OFFSETS
from pipeline.history.segments import OFFSETS_TOPIC, Wanted, segments_in
from protocol.own.position import Position, position_header
from protocol.records.batch_layout import TRANSACTIONAL
from protocol.records.batches import (
    ControlRecordType,
    EndTransactionMarker,
    Record,
    encode_end_transaction,
    encode_records,
)
from tests.pipeline.history.logs import TIME, batch, commit, make_ours, read, segment


def pending(base: int, producer: int, offset: int, *, followed: int | None = None) -> bytes:
    headers = () if followed is None else (position_header(Position(followed, 1)),)
    key, value = commit("g", "t", 0, offset)
    record = Record(key, value, headers, TIME, base)
    return encode_records([record], attributes=TRANSACTIONAL, producer_id=producer, producer_epoch=0)


def marker(base: int, producer: int, *, committed: bool, followed: int | None = None) -> bytes:
    kind = ControlRecordType.COMMIT if committed else ControlRecordType.ABORT
    headers = () if followed is None else (position_header(Position(followed, 1)),)
    return encode_end_transaction(
        base, EndTransactionMarker(kind, 0), TIME + base, producer_id=producer, producer_epoch=0, headers=headers
    )


def found(folder: Path) -> list[tuple[int, int, int]]:
    names = ("offset", "log_offset", "effective_timestamp")
    return sorted(
        (row["offset"], row["log_offset"], row["effective_timestamp"] - TIME) for row in read(folder, names=names)
    )


def test_committed_aborted_and_open(tmp_path: Path) -> None:
    segment(
        tmp_path, 0, batch(0, commit("g", "t", 0, 1)), pending(1, 7, 100), pending(2, 8, 200), pending(3, 9, 300),
        pending(4, 7, 101), marker(5, 8, committed=False), marker(6, 7, committed=True), pending(7, 7, 102),
    )  # fmt: skip
    assert found(tmp_path) == [(1, 0, 0), (100, 1, 6), (101, 4, 6)]


def test_the_marker_is_in_a_later_segment(tmp_path: Path) -> None:
    segment(tmp_path, 0, pending(0, 7, 100), pending(1, 8, 200), pending(2, 9, 300))
    segment(tmp_path, 3, batch(3, commit("other", "t", 0, 1)), marker(4, 8, committed=False))
    segment(tmp_path, 5, marker(5, 7, committed=True), pending(6, 7, 101), marker(7, 7, committed=False))
    assert found(tmp_path) == [(1, 3, 0), (100, 0, 5)]


def test_a_later_segment_that_is_gone_is_told(tmp_path: Path) -> None:
    """It may have been read before it went: without it what it puts in force would be missing, and nobody know."""
    segment(tmp_path, 0, pending(0, 7, 100))
    later = segment(tmp_path, 1, marker(1, 7, committed=True))
    segment(tmp_path, 2, batch(2, commit("other", "t", 0, 1)))
    first, *_ = segments_in([str(tmp_path)], OFFSETS_TOPIC, Wanted())
    later.unlink()
    with pytest.raises(UnreadableLog, match=f"{later} is gone: it was compacted"):
        list(read_segment(first, Question(OFFSETS, ("offset",))))


def test_the_shims_own_say_of_which_partition_they_are(tmp_path: Path) -> None:
    """A producer has a transaction in two partitions of the cluster's; each ends by its own marker."""
    make_ours(tmp_path, 1)
    parts = [pending(0, 7, 100, followed=3), pending(1, 7, 200, followed=4)]
    parts += [marker(2, 7, committed=True, followed=4), marker(3, 7, committed=False, followed=3)]
    segment(tmp_path, 0, *parts)
    assert found(tmp_path) == [(200, 1, 2)]
