"""The records of a batch one after the other, as messages of an older format: :mod:`protocol.records.batch_messages`.

Records of one shape in a row (:mod:`protocol.records.record_shapes`) take little more than half the time of others.
These are read number by number, which also says what is wrong with bad ones.
"""

from __future__ import annotations

from struct import Struct, error
from typing import Final

from isal.isal_zlib import crc32

from protocol.records.batch_errors import CorruptBatch
from protocol.records.batch_layout import COMPRESSION, LOG_APPEND_TIME, MAX_INT64, BatchHeader
from protocol.records.batch_reading import varint, varlong
from protocol.records.message_layout import HEADS, LENGTH, NULL
from protocol.records.record_shapes import BASE_TIMESTAMPS, Times, one_time, own_times, shape_at

PARTS: Final = 2
"""Of a message: what is before its value, and the value."""

_PREFIX: Final = Struct(">qiI")
_TIMESTAMP: Final = Struct(">q")
_CRC_SIZE: Final = 4
_ROW: Final = 3
"""So many records of one shape are worth looking for it."""
_MOST_UNLOOKED: Final = 64
"""Records that are read number by number before a shape is looked for again, where there was none again and again."""


def record_messages(
    buf: bytes, pos: int, end: int, header: BatchHeader, magic: int, first_offset: int, append_time: int | None
) -> tuple[list[bytes], int]:
    """Of the records from ``pos`` to ``end`` those from ``first_offset`` on: the parts of their messages, and what was
    subtracted from the offsets in these. ``append_time``: the time of all of them.

    Raises CorruptBatch, and IndexError where a record is cut off.
    """
    # As in batch_reading, varints of one and two bytes are read in place, and jumps are checked before a slice is made.
    parts: list[bytes] = []
    append = parts.append
    pack, pack_length, pack_prefix = HEADS[magic].pack, LENGTH.pack, _PREFIX.pack
    is_relative = magic and header.attributes & COMPRESSION
    base_offset, base_timestamp, left = header.base_offset, header.base_timestamp, header.record_count
    subtracted = 0
    last = first_offset - 1
    lowest, highest = -MAX_INT64 - 1, MAX_INT64
    attributes = 0 if append_time is None else LOG_APPEND_TIME
    # Before the first message is made nobody knows what is subtracted; so many records are not looked at for a shape.
    unlooked = 1 if left > _ROW and base_timestamp in BASE_TIMESTAMPS else left
    pause = 1
    messages_times: Times | None = None
    while left:
        if unlooked:
            unlooked -= 1
        else:
            if messages_times is None:
                messages_times = _times(magic, base_timestamp, append_time)
            time_code, base_time = messages_times
            before = left
            if (shape := shape_at(buf, pos, time_code)) is not None:
                unpack, size, length_width, key_code, lengths, times, deltas, value_sizes = shape[:8]
                pack_head, key_length, around_value = shape[8:]
                try:
                    while left:
                        length, time, delta, code, key, value_code = unpack(buf, pos)
                        value_size = value_sizes[value_code]
                        offset = base_offset + deltas[delta]
                        start = pos + size
                        stop = start + value_size
                        record_end = pos + length_width + lengths[length]
                        if stop > record_end or record_end > end or code != key_code or offset <= last:
                            break
                        head = pack_head(magic, attributes, base_time + times[time], key_length, key, value_size)
                        value = buf[start:stop]
                        crc = crc32(value, crc32(head))
                        append(pack_prefix(offset - subtracted, around_value + value_size, crc) + head)
                        append(value)
                        last = offset
                        pos = record_end  # behind the headers, which no message has
                        left -= 1
                except (KeyError, error):
                    pass  # what is in none of the tables, or cut off, is not of this shape
            if before - left >= _ROW:
                pause = 1
            else:
                unlooked = pause
                pause = min(2 * pause, _MOST_UNLOOKED)
            if before > left:
                continue

        left -= 1
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
                unlooked += 1
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
        if append_time is not None:
            timestamp = append_time
        if not lowest <= timestamp <= highest:
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
            checked += NULL
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
        pos = record_end
    if pos != end:
        raise CorruptBatch(f"{end - pos} bytes after the last record", pos)
    return parts, subtracted


def _times(magic: int, base_timestamp: int, append_time: int | None) -> Times:
    if not magic:
        return one_time(b"")
    return own_times(base_timestamp) if append_time is None else one_time(_TIMESTAMP.pack(append_time))
