"""Record batches, magic 2: the format of Kafka's logs and of its Produce and Fetch since Kafka 0.11 (KIP-98).

Layout, big-endian. The CRC-32C covers everything from the attributes to the end of the batch, so it does not cover
the base offset, the length, the leader epoch and the magic::

     0  base offset             int64        23  last offset delta   int32
     8  length (bytes after)    int32        27  base timestamp      int64
    12  partition leader epoch  int32        35  max timestamp       int64
    16  magic (2)               int8         43  producer id         int64
    17  crc                     uint32       51  producer epoch      int16
    21  attributes              int16        53  base sequence       int32
                                             57  number of records   int32
    61  records: length varint, attributes int8, timestamp delta varlong, offset delta varint,
        key length varint + key, value length varint + value, header count varint + headers (length -1: null)

The base timestamp is the delete horizon when that attribute is set (KIP-534); deltas are relative to it all the same.
A batch may hold fewer records than its offsets span, down to none: compaction leaves such batches behind.
Where a codec is named in the attributes, it has compressed all that comes after the header: header, CRC and offsets
are read without decompressing.

What is read is what brokers keep and Kafka 4.3's consumer reads: brokers assign base offsets, so producers send what
they like (0 or -1, most of them); and of a batch that is not compressed brokers take any offset deltas, so its records
need not rise, nor keep within the batch's offsets. Refused here, though that consumer reads it: what no broker takes
from a producer (a last offset delta below 0 or below the number of records less one; bytes after the last record of a
batch without any, compressed or not); lengths below -1 (null to it); varints of more bits than their type has (it drops
these); and base offsets less than 2^31 from the ends of 64 bits, and timestamps beyond them (it goes round). Of what is
cut off, it looks at the magic alone, and at the length that a message of magic 0 has at least; here all is judged that
is there.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

import google_crc32c

from protocol.records.batch_errors import (
    BatchError,
    CorruptBatch,
    DecompressedTooLarge,
    TruncatedBatch,
    UnsupportedBatch,
)
from protocol.records.compression import MAX_DECOMPRESSED_SIZE, Compression, compress, decompress
from protocol.records.varints import SMALL as _SMALL
from protocol.records.varints import ZIGZAG as _ZIGZAG
from protocol.records.varints import zigzag

__all__ = [
    "HEADER_SIZE",
    "LENGTH_OVERHEAD",
    "MAGIC",
    "MAGIC_POSITION",
    "MAX_DECOMPRESSED_SIZE",
    "MIN_OBJECT_SIZE",
    "NO_PRODUCER_EPOCH",
    "NO_PRODUCER_ID",
    "NO_SEQUENCE",
    "NO_TIMESTAMP",
    "SKIM_ABOVE",
    "BatchError",
    "BatchHeader",
    "Compression",
    "ControlRecordType",
    "CorruptBatch",
    "DecompressedTooLarge",
    "EndTransactionMarker",
    "Record",
    "TruncatedBatch",
    "UnsupportedBatch",
    "batches",
    "check_crc",
    "control_record_type",
    "decode_records",
    "encode_batch",
    "encode_end_transaction",
    "encode_framed",
    "encode_records",
    "encoded_size",
    "end_transaction_marker",
    "frame_records",
    "read_header",
    "records_of",
    "rewrite_batch",
]

HEADER_SIZE: Final = 61
"""Bytes of a batch before its first record."""

LENGTH_OVERHEAD: Final = 12
"""Bytes of a batch that its own length field does not count."""

MAGIC: Final = 2
MAGIC_POSITION: Final = 16
"""Where the magic is, in message sets too: all formats can be told apart by it."""

NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1

MIN_OBJECT_SIZE: Final = 64
"""Bytes that each record and each header of a compressed batch counts at least against the limit of its decompressed
size: read, they are objects, which take more than the 7 and 2 bytes that they can be."""

SKIM_ABOVE: Final = 8192
"""Records and headers that are made out of a batch or a message set before all the rest of it is skimmed: they are
objects, which take up to 40 times the bytes that they were, and nobody shall have more of them made than these for what
is refused at its end. They take some 2 MiB beside their contents."""

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_PREFIX: Final = struct.Struct(">qiibI")
_CHECKED_HEADER: Final = struct.Struct(">hiqqqhii")
_SIZE_AT: Final = struct.Struct(">i")
_CONTROL_KEY: Final = struct.Struct(">hh")
_END_TRANSACTION: Final = struct.Struct(">hi")
_CHECKED_FROM: Final = _PREFIX.size
_MAX_INT64: Final = 2**63 - 1
_BASE_OFFSETS: Final = (-(2**63) + 2**31, 2**63 - 1 - 2**31)  # from there, no offset delta leads beyond 64 bits
_MIN_RECORD_SIZE: Final = 7  # length, attributes, two deltas, two lengths, header count: one byte each
_MAX_RECORD_OVERHEAD: Final = 23  # of those, length, offset delta and both lengths at five bytes
_MIN_RECORD_HEADER_SIZE: Final = 2  # an empty key and a null value

_COMPRESSION: Final = 0x07
_LOG_APPEND_TIME: Final = 0x08
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20
_DELETE_HORIZON: Final = 0x40

_crc32c = google_crc32c.value
_new = tuple.__new__


class ControlRecordType(IntEnum):
    """Types of control records (Kafka 4.3)."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class EndTransactionMarker(NamedTuple):
    """What a control record of type ABORT or COMMIT says: how a producer's transaction ended in this partition."""

    type: ControlRecordType
    coordinator_epoch: int


class Record(NamedTuple):
    """One record. ``timestamp``: milliseconds since the epoch, -1 when it has none; ``offset``: absolute.

    Header keys are UTF-8 by the protocol, but not every producer keeps to that: bytes that are not are surrogates here
    (PEP 383, ``surrogateescape``), and are written again as they were. Java has replacement characters for them.
    """

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int = NO_TIMESTAMP
    offset: int = -1


class BatchHeader(NamedTuple):
    """The 61 bytes before the records, as they stand there; ``length`` counts the bytes after itself."""

    base_offset: int
    length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.length + LENGTH_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The first offset after this batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> int:
        """A :class:`Compression`, or a number that no Kafka uses."""
        return self.attributes & _COMPRESSION

    @property
    def is_log_append_time(self) -> bool:
        """All records have the batch's max timestamp, whatever their deltas say (KIP-32)."""
        return bool(self.attributes & _LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """The records are control records (:func:`control_record_type`), not data."""
        return bool(self.attributes & _CONTROL)

    @property
    def delete_horizon(self) -> int | None:
        """From when on tombstones in here may be dropped, milliseconds since the epoch (KIP-534), or None."""
        return self.base_timestamp if self.attributes & _DELETE_HORIZON else None


# --- reading ---------------------------------------------------------------------------------------------------------


def read_header(buf: bytes, pos: int = 0) -> BatchHeader:
    """The header of the batch that starts at ``pos``. The whole batch is in ``buf`` when this returns.

    Its CRC is not checked. Raises TruncatedBatch when the buffer ends before the batch does, CorruptBatch when this is
    no batch of magic 2.
    """
    available = len(buf) - pos
    if pos < 0:
        raise CorruptBatch("negative position", pos)
    if available < HEADER_SIZE:
        # What can be judged is judged at once, so that a caller does not wait for bytes which cannot make it right.
        if available >= LENGTH_OVERHEAD and _SIZE_AT.unpack_from(buf, pos + 8)[0] < HEADER_SIZE - LENGTH_OVERHEAD:
            raise CorruptBatch("batch length below that of a header", pos + 8)
        if available > MAGIC_POSITION and buf[pos + MAGIC_POSITION] != MAGIC:
            raise CorruptBatch(f"magic {buf[pos + MAGIC_POSITION]}, not {MAGIC}", pos + MAGIC_POSITION)
        raise TruncatedBatch("batch header cut off", pos, HEADER_SIZE)
    fields = _HEADER.unpack_from(buf, pos)
    base_offset, length, _, magic, _, _, last_offset_delta, _, _, _, _, _, record_count = fields
    if length < HEADER_SIZE - LENGTH_OVERHEAD:
        raise CorruptBatch(f"batch length {length}, below that of a header", pos + 8)
    if magic != MAGIC:
        raise CorruptBatch(f"magic {magic}, not {MAGIC}", pos + MAGIC_POSITION)
    if not _BASE_OFFSETS[0] <= base_offset <= _BASE_OFFSETS[1]:
        raise CorruptBatch(f"base offset {base_offset}", pos)
    if last_offset_delta < 0:
        raise CorruptBatch(f"last offset delta {last_offset_delta}", pos + 23)
    if record_count < 0 or record_count - 1 > last_offset_delta:
        raise CorruptBatch(f"{record_count} records in {last_offset_delta + 1} offsets", pos + 57)
    if length + LENGTH_OVERHEAD > available:
        raise TruncatedBatch(
            f"batch of {length + LENGTH_OVERHEAD} bytes cut off after {available}", pos, length + LENGTH_OVERHEAD
        )
    return _new(BatchHeader, fields)


def check_crc(buf: bytes, pos: int, header: BatchHeader) -> None:
    """Raises CorruptBatch when the batch at ``pos``, whose header this is, does not have the CRC that it says."""
    if _crc32c(buf[pos + _CHECKED_FROM : pos + LENGTH_OVERHEAD + header.length]) != header.crc:
        raise CorruptBatch("CRC mismatch", pos)


def batches(buf: bytes, pos: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each batch from ``pos`` to the end of ``buf``, CRCs checked.

    Raises TruncatedBatch when the last batch is cut off (as it may be in a Fetch response), CorruptBatch otherwise (as
    for messages of magic 0 and 1: :func:`protocol.records.fetched.decode_fetched` reads both); the sound batches before
    it have been given by then.
    """
    end = len(buf)
    while pos < end:
        header = read_header(buf, pos)
        check_crc(buf, pos, header)
        yield pos, header
        pos += header.length + LENGTH_OVERHEAD


def decode_records(buf: bytes, pos: int = 0, max_size: int = MAX_DECOMPRESSED_SIZE) -> list[Record]:
    """The records of the batch at ``pos``, its CRC checked.

    ``max_size`` limits a compressed batch, see :func:`records_of`. Raises CorruptBatch (TruncatedBatch when the buffer
    ends first), DecompressedTooLarge, and UnsupportedBatch for a codec that Kafka does not have.
    """
    header = read_header(buf, pos)
    check_crc(buf, pos, header)
    return records_of(buf, pos, header, max_size)


def records_of(buf: bytes, pos: int, header: BatchHeader, max_size: int = 0) -> list[Record]:
    """As :func:`decode_records`, of a batch whose header is read and whose CRC is checked already.

    ``max_size``: how many bytes the records of a compressed batch may be once decompressed, where a record or a header
    counts for MIN_OBJECT_SIZE at least; with 0, the default, a compressed batch is an UnsupportedBatch. Read, records
    are objects of some 200 bytes and their contents, however few bytes they were.
    """
    if header.attributes & _COMPRESSION:
        return _compressed_records(buf, pos, header, max_size)
    batch_end = pos + header.length + LENGTH_OVERHEAD
    pos += HEADER_SIZE
    if header.record_count * _MIN_RECORD_SIZE > batch_end - pos:
        raise CorruptBatch(f"{header.record_count} records in {batch_end - pos} bytes", pos - 4)
    return _all_records(buf, pos, batch_end, header, batch_end)


def _compressed_records(buf: bytes, pos: int, header: BatchHeader, max_size: int) -> list[Record]:
    codec = header.attributes & _COMPRESSION
    if max_size <= 0:
        raise UnsupportedBatch(f"records compressed with codec {codec}", pos)
    if header.record_count * MIN_OBJECT_SIZE > max_size:
        raise DecompressedTooLarge(f"{header.record_count} records where {max_size} bytes are allowed", pos)
    start = pos + HEADER_SIZE
    records = decompress(codec, buf[start : pos + LENGTH_OVERHEAD + header.length], max_size, start)
    try:
        return _all_records(records, 0, len(records), header, max_size // MIN_OBJECT_SIZE - header.record_count)
    except DecompressedTooLarge as error:
        raise DecompressedTooLarge(error.reason, pos) from None
    except CorruptBatch as corrupt:
        reason = f"{corrupt.reason} (at byte {corrupt.position} of the decompressed records)"
        raise CorruptBatch(reason, pos) from None


def _all_records(buf: bytes, pos: int, end: int, header: BatchHeader, max_headers: int) -> list[Record]:
    try:
        return _read_records(buf, pos, end, header, header.record_count, max_headers, keep=True)
    except IndexError:
        raise CorruptBatch("record cut off", end) from None


def _read_records(
    buf: bytes, pos: int, batch_end: int, header: BatchHeader, count: int, max_headers: int, *, keep: bool
) -> list[Record]:
    """The last ``count`` records of the batch; where they are not to be kept, they are skimmed, and none is made."""
    # Varints of one and two bytes are read in place: they are the rule, and a call costs more than all the rest.
    # Reading may run past the record's end, even past the batch's: every jump is checked before a slice is made,
    # and where the record really ended is checked at its end.
    records: list[Record] = []
    append = records.append
    base_offset = header.base_offset
    base_timestamp = header.base_timestamp
    append_time = header.max_timestamp if header.attributes & _LOG_APPEND_TIME else None
    unskimmed = SKIM_ABOVE - count if keep else _MAX_INT64
    if unskimmed < 0:
        _read_records(buf, pos, batch_end, header, count, max_headers, keep=False)
        unskimmed = _MAX_INT64
    for left in range(count, 0, -1):
        start = pos
        n = buf[pos]
        pos += 1
        if n >= 0x80:
            if (high := buf[pos]) < 0x80:
                n += (high << 7) - 0x80
                pos += 1
            else:
                n, pos = _varint(buf, start)
        if n & 1:
            raise CorruptBatch("negative record length", start)
        record_end = pos + (n >> 1)
        if record_end > batch_end:
            raise CorruptBatch(f"record of {n >> 1} bytes, {batch_end - pos} left in the batch", start)
        pos += 1  # the record's attributes: unused by every Kafka

        n = buf[pos]
        pos += 1
        timestamp = base_timestamp
        if n:
            if n >= 0x80:
                if (high := buf[pos]) < 0x80:
                    n += (high << 7) - 0x80
                    pos += 1
                else:
                    n, pos = _varlong(buf, pos - 1)
            timestamp += (n >> 1) ^ -(n & 1)
            if not -_MAX_INT64 - 1 <= timestamp <= _MAX_INT64:
                raise CorruptBatch("timestamp beyond 64 bits", pos)

        n = buf[pos]
        pos += 1
        if n >= 0x80:
            if (high := buf[pos]) < 0x80:
                n += (high << 7) - 0x80
                pos += 1
            else:
                n, pos = _varint(buf, pos - 1)
        offset = base_offset + ((n >> 1) ^ -(n & 1))

        n = buf[pos]
        pos += 1
        if n >= 0x80:
            if (high := buf[pos]) < 0x80:
                n += (high << 7) - 0x80
                pos += 1
            else:
                n, pos = _varint(buf, pos - 1)
        key: bytes | None
        if n & 1:
            if n != 1:
                raise CorruptBatch("negative key length", pos)
            key = None
        else:
            end = pos + (n >> 1)
            if end > record_end:
                raise CorruptBatch(f"key of {n >> 1} bytes, {record_end - pos} left in the record", pos)
            key = buf[pos:end] if keep else None
            pos = end

        n = buf[pos]
        pos += 1
        if n >= 0x80:
            if (high := buf[pos]) < 0x80:
                n += (high << 7) - 0x80
                pos += 1
            else:
                n, pos = _varint(buf, pos - 1)
        value: bytes | None
        if n & 1:
            if n != 1:
                raise CorruptBatch("negative value length", pos)
            value = None
        else:
            end = pos + (n >> 1)
            if end > record_end:
                raise CorruptBatch(f"value of {n >> 1} bytes, {record_end - pos} left in the record", pos)
            value = buf[pos:end] if keep else None
            pos = end

        headers: tuple[tuple[str, bytes | None], ...] = ()
        n = buf[pos]
        pos += 1
        if n:
            if n >= 0x80:
                n, pos = _varint(buf, pos - 1)
            header_count = n >> 1
            if n & 1 or header_count * _MIN_RECORD_HEADER_SIZE > record_end - pos:
                raise CorruptBatch(f"{header_count ^ -(n & 1)} headers in {record_end - pos} bytes", pos)
            if header_count > max_headers:
                raise DecompressedTooLarge(f"{header_count} headers where {max_headers} more are allowed", pos)
            unskimmed -= header_count
            if unskimmed < 0:
                _read_records(buf, start, batch_end, header, left, max_headers, keep=False)
                unskimmed = _MAX_INT64
            max_headers -= header_count
            headers, pos = _read_headers(buf, pos, record_end, header_count, keep)
        if pos != record_end:
            raise CorruptBatch(f"record ends at {pos}, its length says {record_end}", start)
        if keep:
            time = timestamp if append_time is None else append_time
            append(_new(Record, (key, value, headers, time, offset)))
    if pos != batch_end:
        raise CorruptBatch(f"{batch_end - pos} bytes after the last record", pos)
    return records


def _read_headers(
    buf: bytes, pos: int, record_end: int, count: int, keep: bool
) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        n = buf[pos]
        pos += 1
        if n >= 0x80:
            n, pos = _varint(buf, pos - 1)
        key_start = pos
        key_end = pos + (n >> 1)
        if n & 1 or key_end > record_end:
            raise CorruptBatch("header key length", pos)
        n = buf[key_end]
        pos = key_end + 1
        if n >= 0x80:
            n, pos = _varint(buf, key_end)
        value: bytes | None = None
        if n != 1:
            end = pos + (n >> 1)
            if n & 1 or end > record_end:
                raise CorruptBatch("header value length", pos)
            if keep:
                value = buf[pos:end]
            pos = end
        if keep:
            key = buf[key_start:key_end]
            try:
                headers.append((key.decode(), value))
            except UnicodeDecodeError:
                headers.append((key.decode(errors="surrogateescape"), value))
    return tuple(headers), pos


def _varint(buf: bytes, pos: int) -> tuple[int, int]:
    """The 32 bits at ``pos``, still zigzag-coded (the lowest bit is the sign), and the position after them."""
    n = 0
    for shift in (0, 7, 14, 21, 28):
        byte = buf[pos]
        pos += 1
        n |= (byte & 0x7F) << shift
        if byte < 0x80:
            if n > 0xFFFF_FFFF:
                break
            return n, pos
    raise CorruptBatch("varint beyond 32 bits", pos)


def _varlong(buf: bytes, pos: int) -> tuple[int, int]:
    n = 0
    for shift in (0, 7, 14, 21, 28, 35, 42, 49, 56, 63):
        byte = buf[pos]
        pos += 1
        n |= (byte & 0x7F) << shift
        if byte < 0x80:
            if n > 0xFFFF_FFFF_FFFF_FFFF:
                break
            return n, pos
    raise CorruptBatch("varlong beyond 64 bits", pos)


def control_record_type(record: Record) -> int:
    """Type of a control record, by its key (version int16, type int16): a :class:`ControlRecordType` or a newer one.

    Raises CorruptBatch (at byte 0 of the key) when the key is too short or has a negative version.
    """
    if record.key is None or len(record.key) < _CONTROL_KEY.size:
        raise CorruptBatch("control record key too short", 0)
    version, control_type = _CONTROL_KEY.unpack_from(record.key)
    if version < 0:
        raise CorruptBatch(f"control record key version {version}", 0)
    return int(control_type)


def end_transaction_marker(record: Record) -> EndTransactionMarker:
    """What a control record of type ABORT or COMMIT says (KIP-98). Its value: version int16, coordinator epoch int32;
    newer versions only add to it.

    Raises CorruptBatch (at byte 0 of key or value) for a record of another type and for a malformed one.
    """
    control_type = control_record_type(record)
    if control_type not in _END_TRANSACTION_TYPES:
        raise CorruptBatch(f"control record of type {control_type}, which ends no transaction", 0)
    if record.value is None or len(record.value) < _END_TRANSACTION.size:
        raise CorruptBatch("end transaction marker too short", 0)
    version, coordinator_epoch = _END_TRANSACTION.unpack_from(record.value)
    if version < 0:
        raise CorruptBatch(f"end transaction marker version {version}", 0)
    return EndTransactionMarker(ControlRecordType(control_type), coordinator_epoch)


_END_TRANSACTION_TYPES: Final = (ControlRecordType.ABORT, ControlRecordType.COMMIT)


# --- writing ---------------------------------------------------------------------------------------------------------


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
    if attributes & _COMPRESSION:
        raise ValueError("the codec belongs in compression, not in attributes")
    parts: list[bytes | bytearray] = []
    frame_records(records, parts, 0)
    attributes |= compression
    count = len(records)
    producer = (producer_id, producer_epoch, base_sequence)
    return _finish(base_offset, leader_epoch, attributes, count - 1, timestamp_ms, timestamp_ms, producer, count, parts)


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


def encode_framed(base_offset: int, count: int, parts: list[bytes | bytearray], timestamp_ms: int) -> bytes:
    """As :func:`encode_batch`, of so many records that are framed already. `parts` is changed."""
    producer = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE)
    return _finish(base_offset, 0, 0, count - 1, timestamp_ms, timestamp_ms, producer, count, parts)


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
    if attributes & _COMPRESSION:
        raise ValueError("the codec belongs in compression, not in attributes")
    attributes |= compression
    max_timestamp = max(record.timestamp for record in records)
    if log_append_time is not None:
        attributes |= _LOG_APPEND_TIME
        max_timestamp = log_append_time
    first, last = records[0], records[-1]
    span = last.offset - first.offset
    return _finish(
        first.offset,
        leader_epoch,
        attributes,
        span,
        first.timestamp,
        max_timestamp,
        (producer_id, producer_epoch, base_sequence),
        len(records),
        _record_parts(records, first.offset, span, first.timestamp),
    )


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
    if marker.type not in _END_TRANSACTION_TYPES:
        raise ValueError(f"control records of type {marker.type} end no transaction")
    try:
        key, value = _CONTROL_KEY.pack(0, marker.type), _END_TRANSACTION.pack(0, marker.coordinator_epoch)
    except struct.error as error:
        raise ValueError(f"a marker that cannot be written: {error}") from None
    return encode_records(
        [Record(key, value, headers, timestamp_ms, base_offset)],
        leader_epoch=leader_epoch,
        attributes=_TRANSACTIONAL | _CONTROL,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )


def rewrite_batch(header: BatchHeader, records: Sequence[Record]) -> bytes:
    """The batch ``header`` with these records: some of what it had, or none. They keep offset and timestamp.

    Of the header, only length, CRC and number of records change: a max timestamp that went with its record is the
    caller's to replace. Records are compressed with the header's codec; a batch without any has no codec (as Kafka's
    compaction leaves it). Raises ValueError for records outside the header's offsets or not in order (though they may
    have been read like that), and as :func:`encode_records` does.
    """
    return _finish(
        header.base_offset,
        header.partition_leader_epoch,
        header.attributes if records else header.attributes & ~_COMPRESSION,
        header.last_offset_delta,
        header.base_timestamp,
        header.max_timestamp,
        (header.producer_id, header.producer_epoch, header.base_sequence),
        len(records),
        _record_parts(records, header.base_offset, header.last_offset_delta, header.base_timestamp),
    )


def _record_parts(
    records: Sequence[Record], base_offset: int, last_offset_delta: int, base_timestamp: int
) -> list[bytes | bytearray]:
    parts: list[bytes | bytearray] = []
    small = _ZIGZAG
    near = min(_SMALL, _MAX_INT64 - base_timestamp + 1)
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
        elif -_MAX_INT64 - 1 <= delta <= _MAX_INT64 and -_MAX_INT64 - 1 <= timestamp <= _MAX_INT64:
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
    base_offset: int,
    leader_epoch: int,
    attributes: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    producer: tuple[int, int, int],
    count: int,
    parts: list[bytes | bytearray],
) -> bytes:
    if not 0 <= base_offset <= _BASE_OFFSETS[1]:
        raise ValueError(f"base offset {base_offset}")
    if attributes & _COMPRESSION:
        parts = [compress(attributes & _COMPRESSION, b"".join(parts))]
    try:
        checked = _CHECKED_HEADER.pack(attributes, last_offset_delta, base_timestamp, max_timestamp, *producer, count)
        parts.insert(0, checked)
        body = b"".join(parts)
        length = len(body) + _CHECKED_FROM - LENGTH_OVERHEAD
        return _PREFIX.pack(base_offset, length, leader_epoch, MAGIC, _crc32c(body)) + body
    except struct.error as error:
        raise ValueError(f"a batch field that cannot be written: {error}") from None
