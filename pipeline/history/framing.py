"""The records of many batches as columns: where key and value of each are, its offset, its timestamp.

What is not as it should be is read once more, batch by batch, by :mod:`protocol.records`, which says what is wrong; so
nothing is accepted here that is refused there, but for headers of records, which are passed over, and for varints that
are longer than they may be.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from pipeline.history.columns import Bools, Buffer, Ints, Strings, zigzag_decoded
from pipeline.history.errors import DamagedSegment
from pipeline.history.scanning import HEADER, Batches
from protocol.records.batch_layout import COMPRESSION, CONTROL, LOG_APPEND_TIME
from protocol.records.batch_reading import varint
from protocol.records.batches import (
    HEADER_SIZE,
    MAX_DECOMPRESSED_SIZE,
    MIN_OBJECT_SIZE,
    BatchError,
    CorruptBatch,
    DecompressedTooLarge,
    Record,
    read_header,
    records_of,
)
from protocol.records.compression import decompress

_SMALLEST_RECORD: Final = 7
_NO_HEADERS: Final = np.zeros(0, HEADER)


class Framed(NamedTuple):
    """Records, in the order of the log. ``batch``: of each its index in ``headers`` (-1 where there are none: messages
    of older formats). Control batches have no records here."""

    buffer: Buffer
    key: Strings
    value: Strings
    offset: Ints
    timestamp: Ints
    batch: Ints
    headers: npt.NDArray[np.void]

    def chosen(self, rows: Ints | Bools) -> Framed:
        return self._replace(
            key=self.key.chosen(rows), value=self.value.chosen(rows), offset=self.offset[rows],
            timestamp=self.timestamp[rows], batch=self.batch[rows],
        )  # fmt: skip

    def keys_and_values(self) -> Iterator[tuple[bytes | None, bytes | None]]:
        """One by one."""
        raw = self.buffer.raw
        for key_at, key_size, value_at, value_size in zip(
            self.key.at.tolist(), self.key.size.tolist(), self.value.at.tolist(), self.value.size.tolist(), strict=True
        ):
            yield (
                raw[key_at : key_at + key_size] if key_size >= 0 else None,
                raw[value_at : value_at + value_size] if value_size >= 0 else None,
            )


def framed_messages(records: list[Record]) -> Framed:
    """Of records that are objects already."""
    return _of_objects([(record, -1) for record in records], _NO_HEADERS)


class NotAtOnce(Exception):
    """Of these batches one is not as it should be, or they are too large together: each for itself, then."""


def framed(path: str, batches: Batches) -> Framed:
    """The records of these batches. Raises NotAtOnce for many; of a single one DamagedSegment for what is wrong under
    a right CRC, and for what takes too much memory."""
    count = np.where(batches.headers["attributes"] & CONTROL, 0, batches.headers["record_count"]).astype(np.int64)
    try:
        buffer, start, end = _sections(batches)
        if (count * _SMALLEST_RECORD > end - start).any():
            raise CorruptBatch("more records than bytes", 0)
        at = np.array(_record_starts(buffer.raw, start.tolist(), count.tolist()), np.int64)
        batch = np.repeat(np.arange(len(count)), count)
        read = _fields(buffer, at, batch, batches.headers)
        if read is not None and (_ends_of_batches(read.ends, count, end)).all():
            return read.framed
    except (BatchError, IndexError):
        pass  # told below, of the batch that it is
    if len(batches.starts) > 1:
        raise NotAtOnce
    return _one_by_one(path, batches)


def part_of(batches: Batches, first: int, end: int) -> Batches:
    """The batches from one to before another."""
    position, raw, starts, ends, headers = batches
    return Batches(position, raw, starts[first:end], ends[first:end], headers[first:end])


def _sections(batches: Batches) -> tuple[Buffer, Ints, Ints]:
    """Where the records of each batch begin and end; those of compressed ones stand behind the window. All of them
    together may be no more than a single one."""
    raw = batches.raw
    start = np.asarray(batches.starts, np.int64) + HEADER_SIZE
    end = np.asarray(batches.ends, np.int64)
    parts = [raw]
    size = len(raw)
    codecs = batches.headers["attributes"] & COMPRESSION
    if codecs.any() and int(batches.headers["record_count"].sum()) * MIN_OBJECT_SIZE > MAX_DECOMPRESSED_SIZE:
        raise DecompressedTooLarge("too many records", 0)
    for index in np.flatnonzero(codecs).tolist():
        if batches.headers["attributes"][index] & CONTROL:
            continue
        allowed = MAX_DECOMPRESSED_SIZE + len(raw) - size
        records = decompress(int(codecs[index]), raw[start[index] : end[index]], allowed)
        parts.append(records)
        start[index], end[index] = size, size + len(records)
        size += len(records)
    return Buffer(parts), start, end


def _record_starts(raw: bytes, starts: list[int], counts: list[int]) -> list[int]:
    """Each record's length says where the next one begins. Raises IndexError and CorruptBatch."""
    found: list[int] = []
    append = found.append
    for pos, count in zip(starts, counts, strict=True):
        for _ in range(count - 1):
            append(pos)
            n = raw[pos]
            if n < 0x80:
                pos += 1 + (n >> 1)
            elif (high := raw[pos + 1]) < 0x80:
                pos += 2 + (((high << 7) + n - 0x80) >> 1)
            else:
                n, pos = varint(raw, pos)
                pos += n >> 1
        if count:
            append(pos)
    return found


class _Read(NamedTuple):
    framed: Framed
    ends: Ints


def _fields(buffer: Buffer, at: Ints, batch: Ints, headers: npt.NDArray[np.void]) -> _Read | None:
    """None when anything is not as it should be."""
    length, body = buffer.varint(at)
    ends = body + (length >> 1)
    timestamp_delta, pos = buffer.varint(body + 1)
    offset_delta, pos = buffer.varint(pos)
    key_size, key_at = buffer.varint(pos)
    key = Strings(key_at, zigzag_decoded(key_size))
    value_size, value_at = buffer.varint(key_at + np.maximum(key.size, 0))
    value = Strings(value_at, zigzag_decoded(value_size))
    behind = value_at + np.maximum(value.size, 0)
    header_count, pos = buffer.varint(behind)
    header = headers[batch]
    offset = header["base_offset"] + zigzag_decoded(offset_delta)
    last = header["base_offset"] + header["last_offset_delta"]
    delta = zigzag_decoded(timestamp_delta)
    timestamp = header["base_timestamp"] + delta
    within = (timestamp >= header["base_timestamp"]) == (delta >= 0)
    timestamp = np.where(header["attributes"] & LOG_APPEND_TIME, header["max_timestamp"], timestamp)
    right = ((length & 1) == 0) & ((header_count & 1) == 0) & np.where(header_count == 0, pos == ends, pos < ends)
    right &= buffer.holds(key, ends) & buffer.holds(value, ends) & (offset <= last)
    right[1:] &= (offset[1:] > offset[:-1]) | (batch[1:] != batch[:-1])
    right &= (offset >= header["base_offset"]) & within
    if not right.all():
        return None
    as_ints = timestamp.astype(np.int64), offset.astype(np.int64)
    return _Read(Framed(buffer, key, value, as_ints[1], as_ints[0], batch, headers), ends)


def _ends_of_batches(ends: Ints, count: Ints, end: Ints) -> Bools:
    """Whether the last record of each batch ends where the batch does."""
    some = count > 0
    last = np.cumsum(count)[some] - 1
    right: Bools = ends[last] == end[some]
    return right


def _one_by_one(path: str, batches: Batches) -> Framed:
    records: list[tuple[Record, int]] = []
    for index, start in enumerate(batches.starts):
        header = read_header(batches.raw, start)
        if header.is_control:
            continue
        try:
            read = records_of(batches.raw, start, header, MAX_DECOMPRESSED_SIZE)
        except BatchError as error:
            raise DamagedSegment(path, batches.position + start, f"{error.reason}, under a right CRC") from None
        last = header.base_offset - 1
        for record in read:
            if not last < record.offset < header.next_offset:
                reason = f"offset {record.offset} after {last}, under a right CRC"
                raise DamagedSegment(path, batches.position + start, reason)
            last = record.offset
        records += [(record, index) for record in read]
    return _of_objects(records, batches.headers)


def _of_objects(records: list[tuple[Record, int]], headers: npt.NDArray[np.void]) -> Framed:
    parts = list(chain.from_iterable((record.key, record.value) for record, _ in records))
    size = _ints(-1 if part is None else len(part) for part in parts)
    at = np.concatenate((np.zeros(1, np.int64), np.cumsum(np.maximum(size, 0))))[:-1]
    return Framed(
        Buffer([part for part in parts if part]),
        Strings(at[::2], size[::2]),
        Strings(at[1::2], size[1::2]),
        _ints(record.offset for record, _ in records),
        _ints(record.timestamp for record, _ in records),
        _ints(index for _, index in records),
        headers,
    )


def _ints(values: Iterable[int]) -> Ints:
    return np.fromiter(values, np.int64)
