"""Writing record batches."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

import google_crc32c

from protocol.records.batch_layout import (
    BASE_OFFSETS,
    CHECKED_FROM,
    COMPRESSION,
    CONTROL,
    CONTROL_KEY,
    CRC,
    CRC_POSITION,
    END_TRANSACTION,
    END_TRANSACTION_TYPES,
    LENGTH_OVERHEAD,
    LENGTH_POSITION,
    LOG_APPEND_TIME,
    MAGIC,
    MAX_INT64,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    PREFIX,
    PRODUCER,
    PRODUCER_POSITION,
    TRANSACTIONAL,
    BatchHeader,
    EndTransactionMarker,
    Record,
)
from protocol.records.compression import Compression, compress
from protocol.records.varints import SMALL as _SMALL
from protocol.records.varints import ZIGZAG as _ZIGZAG
from protocol.records.varints import zigzag

_CHECKED_HEADER: Final = struct.Struct(">hiqqqhii")
_MAX_RECORD_OVERHEAD: Final = 23  # of those, length, offset delta and both lengths at five bytes
_crc32c = google_crc32c.value

_Checked: TypeAlias = tuple[int, int, int, int, int, int, int, int]
"""A header's fields from the attributes on: what the CRC covers of it."""

_LAST_BASE_OFFSET: Final = BASE_OFFSETS[1]


_NULL: Final = zigzag(-1)
_NO_DELTA: Final = b"\x00\x00"  # record attributes, timestamp delta


def encode_batch(
    base_offset: int,
    records: Sequence[tuple[bytes | None, bytes | None]],
    timestamp_ms: int,
    *,
    leader_epoch: int = 0,
    attributes: int = 0,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    compression: Compression = Compression.NONE,
) -> bytes:
    """One batch of (key, value) pairs at consecutive offsets with one timestamp, as a broker writes it.

    ``timestamp_ms``: milliseconds since the epoch, or -1. Raises ValueError for no records at all, for a batch beyond
    2 GiB - 1, for a negative base offset, for a number that its field cannot hold, and for compression bits in
    ``attributes``.
    """
    if not records:
        raise ValueError("a batch without records")
    if attributes & COMPRESSION:
        raise ValueError("the codec belongs in compression, not in attributes")
    parts: list[bytes | bytearray] = []
    frame_records(records, parts, 0)
    attributes |= compression
    count = len(records)
    producer = (producer_id, producer_epoch, base_sequence)
    checked = (attributes, count - 1, timestamp_ms, timestamp_ms, *producer, count)
    return _finish(base_offset, leader_epoch, checked, parts)[0]


def frame_records(
    records: Sequence[tuple[bytes | None, bytes | None]], parts: list[bytes | bytearray], delta: int
) -> None:
    """Append (key, value) pairs to `parts` as records of a batch, the first of them at that offset delta, with the
    batch's own timestamp."""
    small = _ZIGZAG
    for offset, (key, value) in enumerate(records, delta):
        offset_delta = small[offset] if offset < _SMALL else zigzag(offset)
        size = 3 + len(offset_delta)
        if key is None:
            key_length = _NULL
            key = b""
        else:
            n = len(key)
            key_length = small[n] if n < _SMALL else zigzag(n)
            size += n
        if value is None:
            value_length = _NULL
            value = b""
        else:
            n = len(value)
            value_length = small[n] if n < _SMALL else zigzag(n)
            size += n
        size += len(key_length) + len(value_length)
        length = small[size] if size < _SMALL else zigzag(size)
        parts += (length, _NO_DELTA, offset_delta, key_length, key, value_length, value, b"\x00")


def encode_framed(
    base_offset: int,
    count: int,
    parts: list[bytes | bytearray],
    timestamp_ms: int,
    *,
    max_timestamp: int | None = None,
    compression: Compression = Compression.NONE,
) -> bytes:
    """As :func:`encode_batch`, of so many records that are framed already. `parts` is changed.

    ``max_timestamp``, where it is not that of all: ``timestamp_ms`` is what the records' deltas are relative to then.
    """
    newest = timestamp_ms if max_timestamp is None else max_timestamp
    checked = (compression, count - 1, timestamp_ms, newest, NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE, count)
    return _finish(base_offset, 0, checked, parts)[0]


def framed_batch(base_offset: int, count: int, parts: list[bytes | bytearray], timestamp_ms: int) -> tuple[bytes, int]:
    """As :func:`encode_framed`, and the CRC that is in it."""
    checked = (0, count - 1, timestamp_ms, timestamp_ms, NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE, count)
    return _finish(base_offset, 0, checked, parts)


def encode_records(
    records: Sequence[Record],
    *,
    leader_epoch: int = 0,
    attributes: int = 0,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    compression: Compression = Compression.NONE,
    log_append_time: int | None = None,
) -> bytes:
    """One batch of records with headers, and offsets and timestamps of their own; offsets rise, gaps are allowed.

    Base offset and base timestamp are the first record's. ``log_append_time``, milliseconds since the epoch, is the
    time of all records for those who read the batch (KIP-32); the records' own timestamps are written all the same.
    Raises ValueError for offsets that do not rise, for timestamps beyond 64 bits, for header keys that are no text
    (surrogates other than those of :class:`Record`), and as :func:`encode_batch` does.
    """
    if not records:
        raise ValueError("a batch without records")
    if attributes & COMPRESSION:
        raise ValueError("the codec belongs in compression, not in attributes")
    attributes |= compression
    max_timestamp = max(record.timestamp for record in records)
    if log_append_time is not None:
        attributes |= LOG_APPEND_TIME
        max_timestamp = log_append_time
    first, last = records[0], records[-1]
    span = last.offset - first.offset
    producer = (producer_id, producer_epoch, base_sequence)
    checked = (attributes, span, first.timestamp, max_timestamp, *producer, len(records))
    parts = record_parts(records, first.offset, span, first.timestamp)
    return _finish(first.offset, leader_epoch, checked, parts)[0]


def encode_end_transaction(
    base_offset: int,
    marker: EndTransactionMarker,
    timestamp_ms: int,
    *,
    producer_id: int,
    producer_epoch: int,
    leader_epoch: int = 0,
    headers: tuple[tuple[str, bytes | None], ...] = (),
) -> bytes:
    """The control batch that ends a producer's transaction in a partition, as the partition's leader writes it (but
    that it writes no headers).

    Raises ValueError for a marker of another type, and as :func:`encode_batch` does.
    """
    if marker.type not in END_TRANSACTION_TYPES:
        raise ValueError(f"control records of type {marker.type} end no transaction")
    try:
        key, value = CONTROL_KEY.pack(0, marker.type), END_TRANSACTION.pack(0, marker.coordinator_epoch)
    except struct.error as error:
        raise ValueError(f"a marker that cannot be written: {error}") from None
    return encode_records(
        [Record(key, value, headers, timestamp_ms, base_offset)],
        leader_epoch=leader_epoch,
        attributes=TRANSACTIONAL | CONTROL,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )


def of_producer(batch: bytes, producer_id: int, producer_epoch: int, base_sequence: int) -> bytes:
    """The batch as that producer sends it, its records numbered from there on (KIP-98). Its base offset is 0: brokers
    take no other from a producer (Kafka 4.3, `LogValidator`).

    Raises struct.error for a number that its field cannot hold; the batch itself is not looked at.
    """
    stamped = bytearray(batch)
    stamped[:LENGTH_POSITION] = bytes(LENGTH_POSITION)
    PRODUCER.pack_into(stamped, PRODUCER_POSITION, producer_id, producer_epoch, base_sequence)
    CRC.pack_into(stamped, CRC_POSITION, _crc32c(bytes(stamped[CHECKED_FROM:])))
    return bytes(stamped)


def rewrite_batch(header: BatchHeader, records: Sequence[Record]) -> bytes:
    """The batch ``header`` with these records: some of what it had, or none. They keep offset and timestamp.

    Of the header, only length, CRC and number of records change: a max timestamp that went with its record is the
    caller's to replace. Records are compressed with the header's codec; a batch without any has no codec (as Kafka's
    compaction leaves it). Raises ValueError for records outside the header's offsets or not in order (though they may
    have been read like that), and as :func:`encode_records` does.
    """
    parts = record_parts(records, header.base_offset, header.last_offset_delta, header.base_timestamp)
    return rewrite_framed(header, len(records), parts)


def rewrite_framed(header: BatchHeader, count: int, parts: list[bytes | bytearray]) -> bytes:
    """As :func:`rewrite_batch`, of so many records that are framed already. `parts` is changed."""
    attributes = header.attributes if count else header.attributes & ~COMPRESSION
    producer = (header.producer_id, header.producer_epoch, header.base_sequence)
    checked = (attributes, header.last_offset_delta, header.base_timestamp, header.max_timestamp, *producer, count)
    return _finish(header.base_offset, header.partition_leader_epoch, checked, parts)[0]


def record_parts(
    records: Iterable[Record], base_offset: int, last_offset_delta: int, base_timestamp: int
) -> list[bytes | bytearray]:
    """The records as they stand in a batch. Raises ValueError for offsets that do not rise or are beyond
    ``last_offset_delta``, and for timestamps beyond 64 bits."""
    parts: list[bytes | bytearray] = []
    small = _ZIGZAG
    near = min(_SMALL, MAX_INT64 - base_timestamp + 1)
    last_delta = -1
    for key, value, headers, timestamp, offset in records:
        delta = offset - base_offset
        if not last_delta < delta <= last_offset_delta:
            raise ValueError(f"offset {offset} in a batch of {base_offset}..{base_offset + last_offset_delta}")
        last_delta = delta
        offset_delta = small[delta] if delta < _SMALL else zigzag(delta)
        delta = timestamp - base_timestamp
        if 0 <= delta < near:
            timestamp_delta = small[delta]
        elif -MAX_INT64 - 1 <= delta <= MAX_INT64 and -MAX_INT64 - 1 <= timestamp <= MAX_INT64:
            timestamp_delta = zigzag(delta)
        else:
            raise ValueError(f"timestamp {timestamp} in a batch from {base_timestamp} on")
        if key is None:
            key_length = _NULL
            key = b""
            size = 1
        else:
            n = len(key)
            key_length = small[n] if n < _SMALL else zigzag(n)
            size = n + 1
        if value is None:
            value_length = _NULL
            value = b""
        else:
            n = len(value)
            value_length = small[n] if n < _SMALL else zigzag(n)
            size += n
        tail = _header_bytes(headers) if headers else b"\x00"
        size += len(timestamp_delta) + len(offset_delta) + len(key_length) + len(value_length) + len(tail)
        length = small[size] if size < _SMALL else zigzag(size)
        parts += (length, b"\x00", timestamp_delta, offset_delta, key_length, key, value_length, value, tail)
    return parts


def _header_bytes(headers: Sequence[tuple[str, bytes | None]]) -> bytes:
    """The headers of one record, their count in front."""
    small = _ZIGZAG
    n = len(headers)
    out = bytearray(small[n] if n < _SMALL else zigzag(n))
    for name, content in headers:
        encoded = name.encode("utf-8", "surrogateescape")
        n = len(encoded)
        out += small[n] if n < _SMALL else zigzag(n)
        out += encoded
        if content is None:
            out += _NULL
        else:
            n = len(content)
            out += small[n] if n < _SMALL else zigzag(n)
            out += content
    return bytes(out)


def encoded_size(records: Sequence[tuple[bytes | None, bytes | None]]) -> int:
    """An upper bound of the bytes that these records take in a batch, without the header; encodes nothing."""
    contents = sum([len(key or b"") + len(value or b"") for key, value in records])
    return _MAX_RECORD_OVERHEAD * len(records) + contents


def _finish(
    base_offset: int, leader_epoch: int, checked: _Checked, parts: list[bytes | bytearray]
) -> tuple[bytes, int]:
    """The whole batch, and its CRC."""
    if not 0 <= base_offset <= _LAST_BASE_OFFSET:
        raise ValueError(f"base offset {base_offset}")
    if codec := checked[0] & COMPRESSION:
        parts = [compress(codec, b"".join(parts))]
    try:
        parts.insert(0, _CHECKED_HEADER.pack(*checked))
        body = b"".join(parts)
        crc: int = _crc32c(body)
        length = len(body) + CHECKED_FROM - LENGTH_OVERHEAD
        return PREFIX.pack(base_offset, length, leader_epoch, MAGIC, crc) + body, crc
    except struct.error as error:
        raise ValueError(f"a batch field that cannot be written: {error}") from None
