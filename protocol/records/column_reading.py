"""What compaction asks of the records of a batch, without an object for each record: their keys and offsets, whether
any are tombstones, and where each begins.

A commit of a hundred partitions is a hundred records of one length (:mod:`protocol.records.record_runs`). Such a row is
taken apart by two calls: a pattern of all bytes but offset delta, key and value finds the keys, as many as there are
records if each is of this shape; and the offset deltas are a slice with a step. A record that is not in such a row is
read by itself.

What is read here is plain: not compressed, in no transaction, all of one timestamp, offsets rising within the batch,
and each number in as few bytes as it takes. So the bytes of a record are what
:func:`protocol.records.batches.rewrite_batch` would write for it, and can be copied. Of any other batch, of one with
few records in rows, and of one that is malformed, nothing is said here: :func:`protocol.records.batches.records_of`
reads it, or says what is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import lt
from struct import unpack
from typing import Final, NamedTuple

from protocol.records.batch_errors import CorruptBatch
from protocol.records.batch_layout import (
    COMPRESSION,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    MAX_INT64,
    TRANSACTIONAL,
    BatchHeader,
)
from protocol.records.batch_reading import only_record, varint, varlong
from protocol.records.batch_writing import record_parts
from protocol.records.record_columns import RecordColumns
from protocol.records.varints import LANES, ONE_BYTE_BELOW, TWO_BYTES_BELOW, zigzag

_NO_DELTA: Final = b"\x00\x00"  # record attributes, timestamp delta
_NOT_PLAIN: Final = COMPRESSION | LOG_APPEND_TIME | TRANSACTIONAL
_NULL: Final = zigzag(-1)
_ROW: Final = 4
"""Fewer records are no row: they take less time one by one."""
_AVERAGE: Final = 5
"""So many records have to be read at a time, by themselves or in rows; or else nothing is gained."""
_LOOKED_AT: Final = 16
"""Of so many records one may be short of that average at first."""
_REACH: Final = 64
_FARTHEST: Final = 4096
"""Records that are looked at for a row: few at first, as most rows are short."""
_KEPT_SHAPES: Final = 1024
_WIDTHS: Final = {1: range(ONE_BYTE_BELOW), 2: range(ONE_BYTE_BELOW, TWO_BYTES_BELOW)}
"""By how many bytes they take, which numbers are read in rows."""
_SIZES: Final = {
    bytes(code): size
    for width, sizes in _WIDTHS.items()
    for size, code in enumerate(zip(*LANES[width], strict=True))
    if size in sizes
}
_VALUE_LENGTHS: Final = {len(length) + size: length for length, size in _SIZES.items() if size}
"""The length of a value, by how many bytes that and the value take; of the two that take one byte, that of none."""
_VALUE_LENGTHS[len(_NULL)] = _NULL
_CODES: Final = {1: "B", 2: "H"}
_DELTAS: Final = {
    width: {int.from_bytes(code, "big"): delta for code, delta in _SIZES.items() if len(code) == width}
    for width in _WIDTHS
}
"""Each of them by its bytes as an unsigned number, big-endian."""


def record_columns(buf: bytes, pos: int, header: BatchHeader) -> RecordColumns | None:
    """The records of the batch at ``pos``, of which the header is read and the CRC checked; None if they are not all
    plain, as told above, and where nothing is gained.

    As long as what it gives is used, all of ``buf`` is kept.
    """
    if header.record_count < _ROW or header.attributes & _NOT_PLAIN:
        return None
    try:
        return _read(buf, pos, header)
    except (IndexError, CorruptBatch):
        return None


def _read(buf: bytes, pos: int, header: BatchHeader) -> RecordColumns | None:
    at, left, base_offset = pos + HEADER_SIZE, header.record_count, header.base_offset
    end = pos + header.size
    columns: RecordColumns | None = None
    last, reach, credit = -1, _REACH, left // _LOOKED_AT
    while left:
        length, length_end = varint(buf, at)
        size = (length >> 1) + length_end - at
        count = min(left, reach, (end - at) // size)
        lengths = buf[at : at + count * size : size]
        count -= len(lengths.lstrip(lengths[:1]))
        credit += count - _AVERAGE
        if credit < 0 and count < left:
            return None
        if columns is None:
            beginning, timestamp = _beginning(buf, length_end, header.base_timestamp)
            columns = RecordColumns(buf, pos, header, timestamp)
        if count < _ROW:
            found = _add_one(columns, header, buf, at, at + size)
        else:
            found = _add_row(columns, base_offset, last, buf, at, size, count, buf[at:length_end], beginning)
        if not found or columns.offsets[-found] <= base_offset + last:
            return None
        last = columns.offsets[-1] - base_offset
        at += found * size
        left -= found
        reach = min(4 * reach, _FARTHEST) if found == reach else _REACH
    return columns if at == end and last <= header.last_offset_delta else None


def _beginning(buf: bytes, at: int, base_timestamp: int) -> tuple[bytes, int]:
    """Attributes and timestamp delta of the record that has them there, as they should be, and its timestamp."""
    if buf[at : at + len(_NO_DELTA)] == _NO_DELTA:
        return _NO_DELTA, base_timestamp
    code, _ = varlong(buf, at + 1)
    delta = (code >> 1) ^ -(code & 1)
    if not -MAX_INT64 - 1 <= base_timestamp + delta <= MAX_INT64:
        raise CorruptBatch("timestamp beyond 64 bits", at)
    return b"\x00" + zigzag(delta), base_timestamp + delta


def _add_one(columns: RecordColumns, header: BatchHeader, buf: bytes, at: int, end: int) -> int:
    """Adds the record from ``at`` to ``end``, and says how many that are: one, or none if it is not plain."""
    record = only_record(buf, at, end, header)
    if not 0 <= record.offset - header.base_offset <= header.last_offset_delta:
        return 0
    plain = b"".join(record_parts((record,), header.base_offset, header.last_offset_delta, header.base_timestamp))
    if record.timestamp != columns.timestamp or buf[at:end] != plain:
        return 0
    columns.add((at,), (record.key,), (record.offset,), has_values=record.value is not None)
    return 1


class _Shape(NamedTuple):
    """What the records of a row have in common. ``keys``, of a buffer, where the row begins and ends: the key of each,
    one key for each record if all are of this shape, and fewer otherwise."""

    keys: Callable[[bytes, int, int], list[bytes]]
    has_values: bool


@lru_cache(_KEPT_SHAPES)
def _shape(size: int, length: bytes, beginning: bytes, delta_width: int, key_length: bytes) -> _Shape | None:
    """Of records of that size, which begin with their length and these bytes, and have the other behind their offset
    delta. None if no plain ones do."""
    key_size = _SIZES.get(key_length)
    if key_size is None or length != zigzag(size - len(length)):
        return None
    beginning = length + beginning
    before_value = len(beginning) + delta_width + len(key_length) + key_size
    value_length = _VALUE_LENGTHS.get(size - 1 - before_value)  # at the end is how many headers there are: none
    if value_length is None:
        return None
    record = b"".join(
        (
            re.escape(beginning),
            b".{%d}" % delta_width,
            re.escape(key_length),
            b"(.{%d})" % key_size,
            re.escape(value_length),
            b".{%d}" % (size - 1 - before_value - len(value_length)),
            b"\x00",
        )
    )
    return _Shape(re.compile(record, re.DOTALL).findall, value_length != _NULL)


def _add_row(
    columns: RecordColumns,
    base_offset: int,
    last: int,
    buf: bytes,
    at: int,
    size: int,
    count: int,
    length: bytes,
    beginning: bytes,
) -> int:
    """Adds ``count`` records of that size, or fewer where the next offset delta is wider, and says how many.

    ``length``, ``beginning``: what the first has before its offset delta; ``last``: the offset delta before the row. 0
    if they are not plain, or not of one shape.
    """
    delta_at = at + len(length) + len(beginning)
    width = 1 if buf[delta_at] < 0x80 else 2
    key_length_at = delta_at + width
    key_length = buf[key_length_at : key_length_at + (1 if buf[key_length_at] < 0x80 else 2)]
    shape = _shape(size, length, beginning, width, key_length)
    count = min(count, _WIDTHS[width].stop - 1 - last)
    if shape is None or count <= 0:
        return 0
    stop = at + count * size
    keys = shape.keys(buf, at, stop)
    offsets = _offsets(base_offset, last, [buf[delta_at + lane : stop : size] for lane in range(width)])
    if len(keys) != count or not offsets:
        return 0
    columns.add(range(at, stop, size), keys, offsets, has_values=shape.has_values)
    return count


def _offsets(base_offset: int, last: int, lanes: list[bytes]) -> Sequence[int]:
    """Those that have these deltas, of which the bytes are given a lane at a time. None if they do not rise."""
    width, count = len(lanes), len(lanes[0])
    first, stop = last + 1, last + 1 + count
    if first in _WIDTHS[width] and lanes == [lane[first:stop] for lane in LANES[width]]:
        return range(base_offset + first, base_offset + stop)
    codes = bytearray(width * count)  # compaction has taken out some that were between them
    for place, lane in enumerate(lanes):
        codes[place::width] = lane
    known = _DELTAS[width]
    try:
        offsets = [base_offset + known[code] for code in unpack(f">{count}{_CODES[width]}", codes)]
    except KeyError:
        return ()
    return offsets if all(map(lt, offsets, offsets[1:])) else ()
