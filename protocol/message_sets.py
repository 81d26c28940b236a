"""Message sets, magic 0 and 1: the formats of Kafka's logs, Produce and Fetch before record batches (Kafka 0.11).

A set is messages in a row, with no count and no length of its own. Layout of a message, big-endian; the CRC-32 covers
everything after itself::

     0  offset                 int64         magic 0                    magic 1 (KIP-32)
     8  size (bytes after)     int32     18  key length + key       18  timestamp, ms         int64
    12  crc                    uint32        value length + value   26  key length + key
    16  magic                  int8                                     value length + value
    17  attributes             int8      lengths are int32, -1 is null

Attributes: the codec in the lowest three bits, 8 for log append time (magic 1). Where a codec is named the message is a
wrapper: its value is a message set, compressed; its offset is that of the last message in it. Offsets inside are
absolute in magic 0. In magic 1 they are relative, to be shifted so that the last one is the wrapper's (KIP-31); a
wrapper at offset 0 shifts nothing, as some producers leave it 0. With log append time in the wrapper, its timestamp
is that of all messages inside. There is one level of wrapping only, and no zstd. As in Kafka 4.3's clients.

A Fetch response may end in the middle of a message; that is reported, not raised.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import Final, NamedTuple

from protocol.batch_errors import CorruptBatch, DecompressedTooLarge, UnsupportedBatch
from protocol.batches import MIN_OBJECT_SIZE, NO_TIMESTAMP, SKIM_ABOVE, Record
from protocol.compression import (
    MAX_DECOMPRESSED_SIZE,
    Compression,
    compress,
    decompress,
    with_kafka_checksum,
    with_right_checksum,
)

PREFIX_SIZE: Final = 12
"""Bytes of a message before those that its size counts: offset and size."""

_PREFIX: Final = struct.Struct(">qi")
_LENGTH: Final = struct.Struct(">i")
_CRC: Final = struct.Struct(">I")
_HEADERS: Final = (struct.Struct(">qiIBBi"), struct.Struct(">qiIBBqi"))  # by magic; to the key's length
_WRITTEN: Final = (struct.Struct(">BBi"), struct.Struct(">BBqi"))  # what the CRC covers of that
_MIN_SIZES: Final = (14, 22)  # what a message's size is with neither key nor value
_CHECKED_FROM: Final = 16
_MAGIC_POSITION: Final = 16
_MAX_INT64: Final = 2**63 - 1

_COMPRESSION: Final = 0x07
_LOG_APPEND_TIME: Final = 0x08
_CODECS: Final = (Compression.GZIP, Compression.SNAPPY, Compression.LZ4)
_NULL: Final = _LENGTH.pack(-1)

_crc32 = zlib.crc32
_new = tuple.__new__


class Message(NamedTuple):
    """One message as it stands there, a wrapper too. ``timestamp``: ms since the epoch, -1 in magic 0."""

    offset: int
    magic: int
    attributes: int
    timestamp: int
    key: bytes | None
    value: bytes | None

    @property
    def compression(self) -> int:
        """A :class:`Compression`, or a number that no Kafka uses; when it is not NONE, this is a wrapper."""
        return self.attributes & _COMPRESSION

    @property
    def is_log_append_time(self) -> bool:
        """The timestamp is the broker's, and that of all messages wrapped in this one (KIP-32)."""
        return self.magic > 0 and bool(self.attributes & _LOG_APPEND_TIME)


class MessageSet(NamedTuple):
    """What was read. ``end``: the position after the last whole message. ``needed``: 0 when the buffer ends there; else
    it ends in a message, which takes so many bytes from ``end`` on (12 when not even its size is there)."""

    records: list[Record]
    end: int
    needed: int


class Messages(NamedTuple):
    """As :class:`MessageSet`, with wrappers left closed."""

    messages: list[Message]
    end: int
    needed: int


# --- reading ---------------------------------------------------------------------------------------------------------


def read_messages(buf: bytes, pos: int = 0) -> Messages:
    """The messages from ``pos`` to the end of ``buf``, CRCs checked; nothing is decompressed. Raises CorruptBatch."""
    return Messages(*_read(buf, pos, len(buf)))


def decode_message_set(buf: bytes, pos: int = 0, max_size: int = MAX_DECOMPRESSED_SIZE) -> MessageSet:
    """The records from ``pos`` to the end of ``buf``, CRCs checked, wrappers opened, offsets absolute.

    ``max_size``: how many bytes the wrapped messages of the whole set may be once decompressed, where a message counts
    for MIN_OBJECT_SIZE at least. Raises CorruptBatch, DecompressedTooLarge, and UnsupportedBatch for a codec that
    message sets do not have.
    """
    messages, end, needed = _read(buf, pos, len(buf))
    records: list[Record] = []
    append = records.append
    for message in messages:
        offset, _, attributes, timestamp, key, value = message
        if attributes & _COMPRESSION:
            inner, used = _open(message, pos, max_size)
            records += inner
            max_size -= used
        else:
            append(_new(Record, (key, value, (), timestamp, offset)))
    return MessageSet(records, end, needed)


def _read(buf: bytes, pos: int, end: int, max_messages: int = _MAX_INT64) -> tuple[list[Message], int, int]:
    if pos < 0:
        raise CorruptBatch("negative position", pos)
    if end - pos > SKIM_ABOVE:
        _read_each(buf, pos, end, max_messages, keep=False)
    return _read_each(buf, pos, end, max_messages, keep=True)


def _read_each(buf: bytes, pos: int, end: int, max_messages: int, *, keep: bool) -> tuple[list[Message], int, int]:
    room = max_messages
    messages: list[Message] = []
    append = messages.append
    header_v0, header_v1 = _HEADERS[0].unpack_from, _HEADERS[1].unpack_from
    length_at = _LENGTH.unpack_from
    while pos < end:
        if end - pos < PREFIX_SIZE:
            return messages, pos, PREFIX_SIZE
        # What can be judged is judged at once: no bytes to come make a wrong size or magic right.
        magic = buf[pos + _MAGIC_POSITION] if end - pos > _MAGIC_POSITION else 0
        if magic > 1:
            raise CorruptBatch(f"magic {magic}, not 0 or 1", pos + _MAGIC_POSITION)
        min_size = _MIN_SIZES[magic]
        if end - pos < PREFIX_SIZE + min_size:
            (size,) = length_at(buf, pos + 8)
            if size < min_size:
                raise CorruptBatch(f"message of {size} bytes", pos + 8)
            return messages, pos, PREFIX_SIZE + size
        if magic:
            offset, size, crc, _, attributes, timestamp, length = header_v1(buf, pos)
            at = pos + 30
        else:
            offset, size, crc, _, attributes, length = header_v0(buf, pos)
            timestamp = NO_TIMESTAMP
            at = pos + 22
        if size < min_size:
            raise CorruptBatch(f"message of {size} bytes", pos + 8)
        message_end = pos + PREFIX_SIZE + size
        if message_end > end:
            return messages, pos, PREFIX_SIZE + size
        if _crc32(buf[pos + _CHECKED_FROM : message_end]) != crc:
            raise CorruptBatch("CRC mismatch", pos)
        if offset < 0:
            raise CorruptBatch(f"offset {offset}", pos)

        key: bytes | None = None
        if length >= 0:
            # The value's length comes after the key.
            if length > message_end - at - 4:
                raise CorruptBatch(f"key of {length} bytes, {message_end - at} left in the message", at)
            key = buf[at : at + length]
            at += length
        elif length != -1:
            raise CorruptBatch(f"key length {length}", at)
        (length,) = length_at(buf, at)
        at += 4
        value: bytes | None = None
        if length >= 0:
            value = buf[at : at + length]
            at += length
        elif length != -1:
            raise CorruptBatch(f"value length {length}", at)
        if at != message_end:
            raise CorruptBatch(f"message ends at {at}, its size says {message_end}", pos)

        room -= 1
        if room < 0:
            raise DecompressedTooLarge(f"more than {max_messages} messages", pos)
        if keep:
            append(_new(Message, (offset, magic, attributes, timestamp, key, value)))
        pos = message_end
    return messages, pos, 0


def _open(wrapper: Message, pos: int, max_size: int) -> tuple[list[Record], int]:
    """The records in a wrapper, and how much of ``max_size`` they use up."""
    codec = wrapper.attributes & _COMPRESSION
    if codec not in _CODECS:
        raise UnsupportedBatch(f"a message set compressed with codec {codec}", pos)
    data = wrapper.value
    if data is None:
        raise CorruptBatch(f"null in the wrapper at offset {wrapper.offset}", pos)
    if codec == Compression.LZ4 and wrapper.magic == 0:
        data = with_right_checksum(data)
    try:
        inner_set = decompress(codec, data, max_size)
        messages, _, needed = _read(inner_set, 0, len(inner_set), max_size // MIN_OBJECT_SIZE)
    except DecompressedTooLarge as error:
        raise DecompressedTooLarge(f"{error.reason} in the wrapper at offset {wrapper.offset}", pos) from None
    except CorruptBatch as corrupt:
        reason = f"{corrupt.reason} (at byte {corrupt.position} in the wrapper at offset {wrapper.offset})"
        raise CorruptBatch(reason, pos) from None
    if needed or not messages:
        reason = "a message is cut off" if needed else "no message"
        raise CorruptBatch(f"{reason} in the wrapper at offset {wrapper.offset}", pos)

    shift, last = 0, _MAX_INT64
    if wrapper.magic and wrapper.offset:
        last = messages[-1].offset
        shift = wrapper.offset - last
        if shift < 0:
            raise CorruptBatch(f"wrapper at offset {wrapper.offset}, its last message at {last}", pos)
    append_time = wrapper.timestamp if wrapper.is_log_append_time else None
    records: list[Record] = []
    append = records.append
    for offset, magic, attributes, timestamp, key, value in messages:
        if attributes & _COMPRESSION:
            raise CorruptBatch(f"a wrapper in the wrapper at offset {wrapper.offset}", pos)
        if offset > last:
            raise CorruptBatch(f"offset {offset} before {last} in the wrapper at offset {wrapper.offset}", pos)
        if magic and append_time is not None:
            timestamp = append_time
        append(_new(Record, (key, value, (), timestamp, offset + shift)))
    return records, max(len(inner_set), len(messages) * MIN_OBJECT_SIZE)


# --- writing ---------------------------------------------------------------------------------------------------------


def encode_message_set(
    records: Sequence[Record],
    magic: int,
    *,
    compression: Compression = Compression.NONE,
    log_append_time: int | None = None,
) -> bytes:
    """The records as a message set of magic 0 or 1; compressed, in one wrapper.

    ``log_append_time``, milliseconds since the epoch (magic 1): the time of all records for those who read the set
    (KIP-32). Raises ValueError for what the format does not have (headers; in magic 0 timestamps other than -1), for
    offsets that do not rise, a number beyond its field, no records at all, and a codec that message sets do not have.
    """
    if magic not in (0, 1):
        raise ValueError(f"message sets of magic {magic}")
    if not records:
        raise ValueError("a message set without records")
    if log_append_time is not None and not magic:
        raise ValueError("timestamps in magic 0")
    base_offset = records[0].offset if compression and magic else 0
    whole = log_append_time if not compression else None
    attributes = 0 if whole is None else _LOG_APPEND_TIME
    parts: list[bytes] = []
    last = -1
    for key, value, headers, timestamp, offset in records:
        if headers:
            raise ValueError("headers in a message set")
        if offset <= last:
            raise ValueError(f"offset {offset} after {last}")
        last = offset
        time = timestamp if whole is None else whole
        parts += _message(offset - base_offset, magic, attributes, time, key, value)
    inner_set = b"".join(parts)
    if not compression:
        return inner_set
    if compression not in _CODECS:
        raise ValueError(f"message sets with {compression!r}")
    data = compress(compression, inner_set)
    if compression == Compression.LZ4 and not magic:
        data = with_kafka_checksum(data)
    attributes = compression | (0 if log_append_time is None else _LOG_APPEND_TIME)
    time = max(record.timestamp for record in records) if log_append_time is None else log_append_time
    return b"".join(_message(last, magic, attributes, time, None, data))


def _message(
    offset: int, magic: int, attributes: int, timestamp: int, key: bytes | None, value: bytes | None
) -> tuple[bytes, bytes]:
    key_length = -1 if key is None else len(key)
    try:
        if magic:
            start = _WRITTEN[1].pack(1, attributes, timestamp, key_length)
        elif timestamp != NO_TIMESTAMP:
            raise ValueError("timestamps in magic 0")
        else:
            start = _WRITTEN[0].pack(0, attributes, key_length)
        value_length = _NULL if value is None else _LENGTH.pack(len(value))
        checked = b"".join((start, key or b"", value_length, value or b""))
        return _PREFIX.pack(offset, len(checked) + _CRC.size) + _CRC.pack(_crc32(checked)), checked
    except struct.error as error:
        raise ValueError(f"a message field that cannot be written: {error}") from None
