"""The messages of a set one after the other, as the records of a batch: the way back of
:mod:`protocol.records.record_messages`.

Only what is right is read here, and at once: what is not is left to :class:`protocol.records.message_sets.MessageScan`,
which says what is wrong with it.
"""

from __future__ import annotations

from struct import error
from typing import Final, NamedTuple

from isal.isal_zlib import crc32

from protocol.records.batch_layout import MAX_INT64
from protocol.records.message_layout import CHECKED_FROM, COMPRESSION, HEADERS, LENGTH, PREFIX_SIZE
from protocol.records.varints import SMALL, ZIGZAG, zigzag

_NO_TIMESTAMP: Final = -1
_NULL: Final = zigzag(-1)
_NO_ATTRIBUTES: Final = b"\x00"
_NO_HEADERS: Final = b"\x00"


class FramedMessages(NamedTuple):
    """``end``: the position after the last of them; ``size``: how many; ``newest``: the largest timestamp, ms since the
    epoch; ``last_offset``: that of the last one, as it stands there; both are -1 of none. ``base_timestamp``: as given,
    or the first one's."""

    end: int
    size: int
    newest: int
    last_offset: int
    base_timestamp: int | None


def frame_messages(
    buf: bytes,
    pos: int,
    most: int,
    magic: int,
    delta: int,
    base_timestamp: int | None,
    append_time: int | None,
    parts: list[bytes | bytearray],
) -> FramedMessages:
    """Append the messages from ``pos`` on to ``parts`` as records of a batch, the first of them at that offset delta,
    ``most`` of them, or up to the first one that is not whole, of ``magic`` (0 or 1), uncompressed, with the right CRC
    and a timestamp that a record can have.

    ``base_timestamp``: the batch's, ms since the epoch, at least -1; None: the first message's. ``append_time``: the
    timestamp of all of them.
    """
    small = ZIGZAG
    header, length_at = HEADERS[magic].unpack_from, LENGTH.unpack_from
    header_size = HEADERS[magic].size
    last_offset = newest = timestamp = _NO_TIMESTAMP
    first, stop_delta = delta, delta + most
    try:
        while delta < stop_delta:
            if magic:
                offset, size, crc, its_magic, attributes, timestamp, length = header(buf, pos)
            else:
                offset, size, crc, its_magic, attributes, length = header(buf, pos)
            if its_magic != magic or attributes & COMPRESSION:
                break
            end = pos + PREFIX_SIZE + size
            at = pos + header_size
            if length >= 0:
                key = buf[at : at + length]
                key_length = small[length] if length < SMALL else zigzag(length)
                at += length
            elif length == -1:
                key = b""
                key_length = _NULL
            else:
                break
            (length,) = length_at(buf, at)
            at += 4
            if length >= 0:
                value = buf[at:end]
                value_length = small[length] if length < SMALL else zigzag(length)
                if len(value) != length or at + length != end:
                    break
            elif length == -1 and at == end:
                value = b""
                value_length = _NULL
            else:
                break
            if crc32(value, crc32(buf[pos + CHECKED_FROM : at])) != crc:
                break
            if append_time is not None:
                timestamp = append_time
            if timestamp < _NO_TIMESTAMP:
                break
            if base_timestamp is None:
                base_timestamp = timestamp
            since = timestamp - base_timestamp
            if since > MAX_INT64:
                break
            if timestamp > newest:
                newest = timestamp
            body = b"".join(
                (
                    _NO_ATTRIBUTES,
                    small[since] if 0 <= since < SMALL else zigzag(since),
                    small[delta] if delta < SMALL else zigzag(delta),
                    key_length,
                    key,
                    value_length,
                )
            )
            size = len(body) + len(value) + 1
            parts += (small[size] if size < SMALL else zigzag(size), body, value, _NO_HEADERS)
            last_offset = offset
            pos = end
            delta += 1
    except error:
        pass  # it is cut off
    return FramedMessages(pos, delta - first, newest, last_offset, base_timestamp)
