"""The records of a batch as messages of the older formats, without an object for each: for who gives old clients what
newer ones have written (Kafka 3.9 and older did that for each fetch).

Headers go, and in magic 0 timestamps. The layouts are told in :mod:`protocol.records.batches` and
:mod:`protocol.records.message_sets`.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from isal.isal_zlib import crc32

from protocol.records.batch_errors import BatchError, CorruptBatch, DecompressedTooLarge
from protocol.records.batch_layout import (
    COMPRESSION,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    MAX_INT64,
    MIN_OBJECT_SIZE,
    BatchHeader,
)
from protocol.records.batch_reading import varint, varlong
from protocol.records.compression import MAX_DECOMPRESSED_SIZE, Compression, decompress
from protocol.records.message_sets import wrapped

_PREFIX: Final = struct.Struct(">qiI")  # offset, size, CRC
_LENGTH: Final = struct.Struct(">i")
_HEADS: Final = (struct.Struct(">BBi"), struct.Struct(">BBqi"))  # by magic: what is before the key
_CRC_SIZE: Final = 4
_NULL: Final = _LENGTH.pack(-1)
_OFFSET_SIZE: Final = 8


class BatchMessages(NamedTuple):
    """``parts``: for each record, in their order, two of them, which are its message as it stands in an uncompressed
    set, or inside a wrapper: what has to be added to its offset there is ``base_offset``. ``codec``: the batch's."""

    parts: list[bytes]
    base_offset: int
    magic: int
    codec: Compression
    timestamp: int
    log_append_time: bool

    @property
    def size(self) -> int:
        """In messages."""
        return len(self.parts) // 2

    def joined(self, count: int, codec: Compression, level: int | None = None) -> bytes:
        """The first so many as a message set; with a codec in one wrapper. One is needed where the batch has one."""
        content = b"".join(self.parts[: 2 * count] if count < self.size else self.parts)
        if not codec:
            return content
        last = int.from_bytes(self.parts[2 * count - 2][:_OFFSET_SIZE], "big", signed=True) + self.base_offset
        time = self.timestamp if self.magic else None
        return wrapped(content, last, self.magic, codec, time, level=level, log_append_time=self.log_append_time)


def batch_messages(
    buf: bytes, pos: int, header: BatchHeader, magic: int, first_offset: int, max_size: int = MAX_DECOMPRESSED_SIZE
) -> BatchMessages:
    """Of the batch at ``pos``, whose header is read and whose CRC is checked, the records from ``first_offset`` on as
    messages of ``magic`` 0 or 1.

    ``max_size`` and what it raises: as for :func:`protocol.records.batches.records_of`; and CorruptBatch for offsets
    that do not rise.
    """
    codec = header.attributes & COMPRESSION
    start, end = pos + HEADER_SIZE, pos + header.size
    if codec:
        if header.record_count * MIN_OBJECT_SIZE > max_size:
            raise DecompressedTooLarge(f"{header.record_count} records where {max_size} bytes are allowed", pos)
        buf = decompress(codec, buf[start:end], max_size, start)
        start, end = 0, len(buf)
    append_time = bool(header.attributes & LOG_APPEND_TIME) and magic > 0
    try:
        parts, base_offset = _messages(buf, start, end, header, magic, first_offset, append_time and not codec)
    except IndexError:
        raise CorruptBatch("record cut off", pos) from None
    except BatchError as error:
        raise CorruptBatch(f"{error.reason} (at byte {error.position} of the records)", pos) from None
    return BatchMessages(parts, base_offset, magic, Compression(codec), header.max_timestamp, append_time)


def _messages(
    buf: bytes, pos: int, end: int, header: BatchHeader, magic: int, first_offset: int, append_time: bool
) -> tuple[list[bytes], int]:
    # As in batch_reading, varints of one and two bytes are read in place, and jumps are checked before a slice is made.
    parts: list[bytes] = []
    append = parts.append
    pack, pack_length, pack_prefix = _HEADS[magic].pack, _LENGTH.pack, _PREFIX.pack
    is_relative = magic and header.attributes & COMPRESSION
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    subtracted = 0
    last = first_offset - 1
    attributes = LOG_APPEND_TIME if append_time else 0
    for _ in range(header.record_count):
        n = buf[pos]
        pos += 1
        if n >= 0x80:
            if (high := buf[pos]) < 0x80:
                n += (high << 7) - 0x80
                pos += 1
            else:
                n, pos = varint(buf, pos - 1)
        record_end = pos + (n >> 1)
        if n & 1 or record_end > end:
            raise CorruptBatch(f"record of {n >> 1} bytes", pos)
        pos += 1  # the record's attributes: unused by every Kafka

        n = buf[pos]
        pos += 1
        if n >= 0x80:
            if (high := buf[pos]) < 0x80:
                n += (high << 7) - 0x80
                pos += 1
            else:
                n, pos = varlong(buf, pos - 1)
        timestamp = base_timestamp + ((n >> 1) ^ -(n & 1))

        n = buf[pos]
        pos += 1
        if n >= 0x80:
            if (high := buf[pos]) < 0x80:
                n += (high << 7) - 0x80
                pos += 1
            else:
                n, pos = varint(buf, pos - 1)
        offset = base_offset + ((n >> 1) ^ -(n & 1))
        if offset <= last:
            if offset < first_offset and not parts:
                pos = record_end
                continue
            raise CorruptBatch(f"offset {offset} after {last}", pos)
        last = offset
        if is_relative and not parts:
            subtracted = offset

        n = buf[pos]
        pos += 1
        if n >= 0x80:
            if (high := buf[pos]) < 0x80:
                n += (high << 7) - 0x80
                pos += 1
            else:
                n, pos = varint(buf, pos - 1)
        size = n >> 1
        stop = pos if n == 1 else pos + size
        if stop > record_end or (n & 1 and n != 1):
            raise CorruptBatch(f"key of {size} bytes, {record_end - pos} left in the record", pos)
        if append_time:
            timestamp = header.max_timestamp
        if not -MAX_INT64 - 1 <= timestamp <= MAX_INT64:
            raise CorruptBatch("timestamp beyond 64 bits", pos)
        length = -1 if n == 1 else size
        checked = pack(magic, attributes, timestamp, length) if magic else pack(magic, 0, length)
        if n != 1:
            checked += buf[pos:stop]
            pos = stop

        n = buf[pos]
        pos += 1
        if n >= 0x80:
            if (high := buf[pos]) < 0x80:
                n += (high << 7) - 0x80
                pos += 1
            else:
                n, pos = varint(buf, pos - 1)
        if n == 1:
            checked += _NULL
            value = b""
        else:
            size = n >> 1
            if n & 1 or pos + size > record_end:
                raise CorruptBatch(f"value of {size} bytes, {record_end - pos} left in the record", pos)
            checked += pack_length(size)
            value = buf[pos : pos + size]
        crc = crc32(value, crc32(checked))
        append(pack_prefix(offset - subtracted, _CRC_SIZE + len(checked) + len(value), crc) + checked)
        append(value)
        pos = record_end  # behind the headers, which no message has
    if pos != end:
        raise CorruptBatch(f"{end - pos} bytes after the last record", pos)
    return parts, subtracted
