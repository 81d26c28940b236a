"""OffsetCommit request 8, decoded by code that was written for it alone: what generated code is measured against.

As fast as plain Python got with one field read after the other, and as strict about bounds as the compiled decoder:
no length is negative or runs over the end, no count is believed that the bytes left cannot hold.
"""

from struct import Struct, error
from typing import Any

from protocol.errors import DecodeError
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.wire import MAX_STRING, ZERO_UUID

_generation = Struct(">iB").unpack_from
# The least bytes that a partition takes: index, offset, epoch, the length of no metadata, the count of no tags. So
# these can be read at once, whatever the metadata's length turns out to be.
_partition = Struct(">iqiBB").unpack_from
# tuple.__new__ skips the constructor of the named tuple, as generated code does.
_new: Any = tuple.__new__


def decode_offset_commit_request_8(buf: bytes, pos: int = 0) -> tuple[OffsetCommitRequest, int]:
    """The request body at `pos`, and the position after it. Raises DecodeError, without a field path."""
    start = pos
    try:
        end = len(buf)
        n = buf[pos]
        pos += 1
        if n > 127:
            n, pos = _text_length(buf, pos, n)
        elif n == 0:
            raise ValueError("group id")
        stop = pos + n - 1
        group_id = buf[pos:stop].decode()
        generation_id, n = _generation(buf, stop)
        pos = stop + 5
        if n > 127:
            n, pos = _text_length(buf, pos, n)
        elif n == 0:
            raise ValueError("member id")
        stop = pos + n - 1
        member_id = buf[pos:stop].decode()
        n = buf[stop]
        pos = stop + 1
        group_instance_id = None
        if n:
            if n > 127:
                n, pos = _text_length(buf, pos, n)
            stop = pos + n - 1
            group_instance_id = buf[pos:stop].decode()
            pos = stop
        count = buf[pos]
        pos += 1
        if count > 127:
            count, pos = _length(buf, pos, count)
        count -= 1
        if count < 0 or count * 3 > end - pos:
            raise ValueError("count of topics")
        topics = []
        for _ in range(count):
            n = buf[pos]
            pos += 1
            if n > 127:
                n, pos = _text_length(buf, pos, n)
            elif n == 0:
                raise ValueError("topic")
            stop = pos + n - 1
            name = buf[pos:stop].decode()
            count = buf[stop]
            pos = stop + 1
            if count > 127:
                count, pos = _length(buf, pos, count)
            count -= 1
            if count < 0 or count * 18 > end - pos:
                raise ValueError("count of partitions")
            partitions = []
            for _ in range(count):
                index, offset, epoch, n, tags = _partition(buf, pos)
                if n == 1:
                    metadata: str | None = ""
                    pos += 18
                elif n == 0:
                    metadata = None
                    pos += 18
                else:
                    pos += 17
                    if n > 127:
                        n, pos = _text_length(buf, pos, n)
                    stop = pos + n - 1
                    metadata = buf[pos:stop].decode("utf-8", "surrogateescape")
                    tags = buf[stop]
                    pos = stop + 1
                tagged: tuple[tuple[int, bytes], ...] = ()
                if tags:
                    tagged, pos = _tagged_fields(buf, pos, tags)
                partitions.append(_new(OffsetCommitRequestPartition, (index, offset, epoch, -1, metadata, tagged)))
            tags = buf[pos]
            pos += 1
            tagged = ()
            if tags:
                tagged, pos = _tagged_fields(buf, pos, tags)
            topics.append(_new(OffsetCommitRequestTopic, (name, ZERO_UUID, tuple(partitions), tagged)))
        tags = buf[pos]
        pos += 1
        tagged = ()
        if tags:
            tagged, pos = _tagged_fields(buf, pos, tags)
        if pos > end:
            raise ValueError("end")
        fields = (group_id, generation_id, member_id, group_instance_id, -1, tuple(topics), tagged)
        return _new(OffsetCommitRequest, fields), pos
    except (IndexError, ValueError, error) as failure:
        raise DecodeError(f"malformed ({failure})", start, "OffsetCommitRequest") from None


def _varint(buf: bytes, pos: int, low: int) -> tuple[int, int]:
    """The unsigned varint whose first byte, `low`, is read already, and the position after it."""
    n = low & 0x7F
    for shift in (7, 14, 21, 28):
        byte = buf[pos]
        pos += 1
        n |= (byte & 0x7F) << shift
        if byte < 0x80:
            if n > 0xFFFF_FFFF:
                break
            return n, pos
    raise ValueError("varint")


def _length(buf: bytes, pos: int, low: int) -> tuple[int, int]:
    n, pos = _varint(buf, pos, low)
    if n == 0:
        raise ValueError("null in several bytes")
    return n, pos


def _text_length(buf: bytes, pos: int, low: int) -> tuple[int, int]:
    """The length + 1 of a string."""
    n, pos = _length(buf, pos, low)
    if n > MAX_STRING + 1:
        raise ValueError("length of a string")
    return n, pos


def _tagged_fields(buf: bytes, pos: int, count: int) -> tuple[tuple[tuple[int, bytes], ...], int]:
    if count > 127:
        count, pos = _varint(buf, pos, count)
    if count * 2 > len(buf) - pos:
        raise ValueError("count of tagged fields")
    found = []
    last = -1
    for _ in range(count):
        tag, pos = _varint(buf, pos + 1, buf[pos]) if buf[pos] > 127 else (buf[pos], pos + 1)
        size, pos = _varint(buf, pos + 1, buf[pos]) if buf[pos] > 127 else (buf[pos], pos + 1)
        stop = pos + size
        if tag <= last or stop > len(buf):
            raise ValueError("tagged field")
        found.append((tag, buf[pos:stop]))
        pos = stop
        last = tag
    return tuple(found), pos
