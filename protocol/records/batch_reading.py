"""Reading record batches, believing nothing in them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

import google_crc32c

from protocol.records.batch_errors import CorruptBatch, DecompressedTooLarge, TruncatedBatch, UnsupportedBatch
from protocol.records.batch_layout import (
    BASE_OFFSETS,
    CHECKED_FROM,
    COMPRESSION,
    CONTROL_KEY,
    END_TRANSACTION,
    END_TRANSACTION_TYPES,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME,
    MAGIC,
    MAGIC_POSITION,
    MAX_INT64,
    MIN_OBJECT_SIZE,
    SKIM_ABOVE,
    BatchHeader,
    ControlRecordType,
    EndTransactionMarker,
    Record,
)
from protocol.records.compression import MAX_DECOMPRESSED_SIZE, decompress

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_SIZE_AT: Final = struct.Struct(">i")
_MIN_RECORD_SIZE: Final = 7  # length, attributes, two deltas, two lengths, header count: one byte each
_MIN_RECORD_HEADER_SIZE: Final = 2  # an empty key and a null value
_crc32c = google_crc32c.value
_new = tuple.__new__


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
    if not BASE_OFFSETS[0] <= base_offset <= BASE_OFFSETS[1]:
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
    if _crc32c(buf[pos + CHECKED_FROM : pos + LENGTH_OVERHEAD + header.length]) != header.crc:
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
    if header.attributes & COMPRESSION:
        return _compressed_records(buf, pos, header, max_size)
    batch_end = pos + header.length + LENGTH_OVERHEAD
    pos += HEADER_SIZE
    if header.record_count * _MIN_RECORD_SIZE > batch_end - pos:
        raise CorruptBatch(f"{header.record_count} records in {batch_end - pos} bytes", pos - 4)
    return _all_records(buf, pos, batch_end, header, batch_end)


def only_record(buf: bytes, pos: int, end: int, header: BatchHeader) -> Record:
    """The record that takes the bytes from ``pos`` to ``end``, in a batch with that header that is not compressed.

    Raises CorruptBatch, and IndexError where the buffer ends first.
    """
    (record,) = _read_records(buf, pos, end, header, 1, end - pos, keep=True)
    return record


def _compressed_records(buf: bytes, pos: int, header: BatchHeader, max_size: int) -> list[Record]:
    codec = header.attributes & COMPRESSION
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
    append_time = header.max_timestamp if header.attributes & LOG_APPEND_TIME else None
    unskimmed = SKIM_ABOVE - count if keep else MAX_INT64
    if unskimmed < 0:
        _read_records(buf, pos, batch_end, header, count, max_headers, keep=False)
        unskimmed = MAX_INT64
    for left in range(count, 0, -1):
        start = pos
        n = buf[pos]
        pos += 1
        if n >= 0x80:
            if (high := buf[pos]) < 0x80:
                n += (high << 7) - 0x80
                pos += 1
            else:
                n, pos = varint(buf, start)
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
                    n, pos = varlong(buf, pos - 1)
            timestamp += (n >> 1) ^ -(n & 1)
            if not -MAX_INT64 - 1 <= timestamp <= MAX_INT64:
                raise CorruptBatch("timestamp beyond 64 bits", pos)

        n = buf[pos]
        pos += 1
        if n >= 0x80:
            if (high := buf[pos]) < 0x80:
                n += (high << 7) - 0x80
                pos += 1
            else:
                n, pos = varint(buf, pos - 1)
        offset = base_offset + ((n >> 1) ^ -(n & 1))

        n = buf[pos]
        pos += 1
        if n >= 0x80:
            if (high := buf[pos]) < 0x80:
                n += (high << 7) - 0x80
                pos += 1
            else:
                n, pos = varint(buf, pos - 1)
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
                n, pos = varint(buf, pos - 1)
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
                n, pos = varint(buf, pos - 1)
            header_count = n >> 1
            if n & 1 or header_count * _MIN_RECORD_HEADER_SIZE > record_end - pos:
                raise CorruptBatch(f"{header_count ^ -(n & 1)} headers in {record_end - pos} bytes", pos)
            if header_count > max_headers:
                raise DecompressedTooLarge(f"{header_count} headers where {max_headers} more are allowed", pos)
            unskimmed -= header_count
            if unskimmed < 0:
                _read_records(buf, start, batch_end, header, left, max_headers, keep=False)
                unskimmed = MAX_INT64
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
            n, pos = varint(buf, pos - 1)
        key_start = pos
        key_end = pos + (n >> 1)
        if n & 1 or key_end > record_end:
            raise CorruptBatch("header key length", pos)
        n = buf[key_end]
        pos = key_end + 1
        if n >= 0x80:
            n, pos = varint(buf, key_end)
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


def varint(buf: bytes, pos: int) -> tuple[int, int]:
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


def varlong(buf: bytes, pos: int) -> tuple[int, int]:
    """Likewise, of 64 bits."""
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
    if record.key is None or len(record.key) < CONTROL_KEY.size:
        raise CorruptBatch("control record key too short", 0)
    version, control_type = CONTROL_KEY.unpack_from(record.key)
    if version < 0:
        raise CorruptBatch(f"control record key version {version}", 0)
    return int(control_type)


def end_transaction_marker(record: Record) -> EndTransactionMarker:
    """What a control record of type ABORT or COMMIT says (KIP-98). Its value: version int16, coordinator epoch int32;
    newer versions only add to it.

    Raises CorruptBatch (at byte 0 of key or value) for a record of another type and for a malformed one.
    """
    control_type = control_record_type(record)
    if control_type not in END_TRANSACTION_TYPES:
        raise CorruptBatch(f"control record of type {control_type}, which ends no transaction", 0)
    if record.value is None or len(record.value) < END_TRANSACTION.size:
        raise CorruptBatch("end transaction marker too short", 0)
    version, coordinator_epoch = END_TRANSACTION.unpack_from(record.value)
    if version < 0:
        raise CorruptBatch(f"end transaction marker version {version}", 0)
    return EndTransactionMarker(ControlRecordType(control_type), coordinator_epoch)
