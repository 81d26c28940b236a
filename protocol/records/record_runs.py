"""Records that are not made one by one, of commits that are rows, and their framing for a batch.

A commit of a hundred partitions is a hundred records of one length: the same group, topic and time, and a partition,
an offset and a leader epoch for each. Those come in rows, as in the request (:class:`protocol.commit_rows.CommitRows`),
and are copied a column at a time: a slice with a step, which is a loop in C. Of few rows the pieces of all records are
put together at once, which is faster then.

What the bytes are is said by :mod:`protocol.records.batches`, which writes records of any kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final, TypeAlias

from protocol.commit_rows import OFFSET_AT, REST_SIZE, ROW_SIZE, CommitRows
from protocol.records.varints import LANES, ONE_BYTE_BELOW, SMALL, TWO_BYTES_BELOW, ZIGZAG, zigzag

_NO_DELTA: Final = b"\x00\x00"  # record attributes, timestamp delta
_NO_HEADERS: Final = b"\x00"
_NULL: Final = zigzag(-1)
_BEFORE_RUN: Final = tuple(_NO_DELTA + offset_delta for offset_delta in ZIGZAG)
RECORD_OVERHEAD: Final = len(_NO_DELTA) + 2 * 5
"""Bytes of a record in a batch before what a run has of it, at most: length and offset delta take five."""

# From so many rows on, columns are faster than rows.
_MANY: Final = 20

_SPLIT: Final = {ROW_SIZE: Struct("4s12s"), ROW_SIZE + REST_SIZE: Struct("4s12s2x")}


class RecordRun:
    """One record for each of many rows: ``before``, the row's partition, ``middle``, its offset and leader epoch,
    ``after``.

    ``before`` begins with the key's length, ``middle`` has that of the value, ``after`` ends with the number of
    headers: a record from behind its offset delta on.
    """

    __slots__ = ("after", "before", "middle", "rows")

    def __init__(self, before: bytes, middle: bytes, after: bytes, rows: CommitRows) -> None:
        self.before = before
        self.middle = middle
        self.after = after
        self.rows = rows

    @property
    def body_size(self) -> int:
        """Of each record, from behind its offset delta on."""
        return len(self.before) + len(self.middle) + len(self.after) + ROW_SIZE

    def __len__(self) -> int:
        """Likewise, of all records, in bytes."""
        return self.rows.size * self.body_size

    def frame(self, parts: list[bytes | bytearray], delta: int) -> None:
        """Append the records as a batch has them, the first of them at that offset delta."""
        done, count = 0, self.rows.size
        while count - done >= _MANY and delta < TWO_BYTES_BELOW:
            stop = min(count, done + (ONE_BYTE_BELOW if delta < ONE_BYTE_BELOW else TWO_BYTES_BELOW) - delta)
            parts.append(self._columns(delta, done, stop))
            delta, done = delta + stop - done, stop
        if done < count:
            self._pieces(parts, delta, done)

    def _pieces(self, parts: list[bytes | bytearray], delta: int, first: int) -> None:
        """The records of the rows from that one on."""
        raw, stride = self.rows.raw, self.rows.stride
        before, middle, after = self.before, self.middle, self.after
        size = len(_NO_DELTA) + self.body_size
        head, width = b"", 0
        for at, (partition, rest) in enumerate(_SPLIT[stride].iter_unpack(raw[first * stride :]), delta):
            offset_delta = ZIGZAG[at] if at < SMALL else zigzag(at)
            if len(offset_delta) != width:
                width = len(offset_delta)
                head = zigzag(size + width) + _NO_DELTA
            parts += (head, offset_delta, before, partition, middle, rest, after)

    def _columns(self, delta: int, first: int, stop: int) -> bytearray:
        """The records of these rows, whose offset deltas all have the same number of bytes, one or two."""
        lanes = LANES[1 if delta < ONE_BYTE_BELOW else 2]
        head = zigzag(len(_NO_DELTA) + len(lanes) + self.body_size) + _NO_DELTA
        before_offset = b"".join((head, bytes(len(lanes)), self.before, bytes(OFFSET_AT), self.middle))
        partition_at = len(head) + len(lanes) + len(self.before)
        past_row = len(before_offset) - OFFSET_AT  # minus where a row's offset is
        count = stop - first
        framed = bytearray(b"".join((before_offset, bytes(ROW_SIZE - OFFSET_AT), self.after))) * count
        size = len(framed) // count
        for place, lane in enumerate(lanes, len(head)):
            framed[place::size] = lane[delta : delta + count]
        columns = self.rows.columns
        for place in range(OFFSET_AT):
            framed[partition_at + place :: size] = columns[place][first:stop]
        for place in range(OFFSET_AT, ROW_SIZE):
            framed[past_row + place :: size] = columns[place][first:stop]
        return framed


Run: TypeAlias = bytes | RecordRun
"""Records: one, from behind its offset delta on; or many."""


def runs(before: bytes, middle: bytes, after: bytes, rows: CommitRows) -> Sequence[Run]:
    """One record for each row, as of :class:`RecordRun`."""
    if rows.size == 1:
        raw = rows.raw
        return (b"".join((before, raw[:OFFSET_AT], middle, raw[OFFSET_AT:ROW_SIZE], after)),)
    return (RecordRun(before, middle, after, rows),)


def run_of(key: bytes, value: bytes | None) -> bytes:
    """One record, without headers, as a run; value None is a tombstone."""
    if value is None:
        return b"".join((zigzag(len(key)), key, _NULL, _NO_HEADERS))
    return b"".join((zigzag(len(key)), key, zigzag(len(value)), value, _NO_HEADERS))


def frame_runs(each: Sequence[Run], parts: list[bytes | bytearray], delta: int) -> int:
    """Append the records as a batch has them, the first of them at that offset delta; gives the delta after them."""
    for run in each:
        if isinstance(run, RecordRun):
            run.frame(parts, delta)
            delta += run.rows.size
            continue
        before = _BEFORE_RUN[delta] if delta < SMALL else _NO_DELTA + zigzag(delta)
        size = len(before) + len(run)
        parts += (ZIGZAG[size] if size < SMALL else zigzag(size), before, run)
        delta += 1
    return delta


def unframed(framed: bytes) -> list[bytes]:
    """The runs, of one record each, that :func:`frame_runs` has framed from offset delta 0 on."""
    found = []
    at = delta = 0
    while at < len(framed):
        size, at = _size_at(framed, at)
        end = at + size
        found.append(framed[at + len(_NO_DELTA) + len(zigzag(delta)) : end])
        at = end
        delta += 1
    return found


def _size_at(framed: bytes, at: int) -> tuple[int, int]:
    """And where that ends."""
    coded = shift = 0
    while framed[at] & 0x80:
        coded |= (framed[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return (coded | framed[at] << shift) >> 1, at + 1


def runs_size(each: Sequence[Run], count: int) -> int:
    """An upper bound of the bytes that they take in a batch, ``count`` records."""
    return sum(map(len, each)) + count * RECORD_OVERHEAD
