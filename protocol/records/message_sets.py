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

Offsets are read as they come, negative ones and ones that do not rise too, as those clients do: brokers assign them, so
producers send what they like (-1, some of them). Refused here, though those clients read it: a wrapper whose last
message is cut off (they leave it out), another magic than 0 in a wrapper that is not 1 either (1 to them), offsets in a
wrapper that lead beyond 64 bits (they go round), lengths below -1 (null to them), and bytes after the value.

A Fetch response may end in the middle of a message; that is reported, not raised. The log of a topic that was upgraded
has record batches (magic 2) after the messages; where the first one begins, reading messages ends. All that a response
may have is read by :mod:`protocol.records.fetched`.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Final, NamedTuple, TypeVar

from isal.isal_zlib import crc32

from protocol.records.batch_errors import CorruptBatch, DecompressedTooLarge, UnsupportedBatch
from protocol.records.batches import MAGIC, MAGIC_POSITION, MIN_OBJECT_SIZE, NO_TIMESTAMP, SKIM_ABOVE, Record
from protocol.records.compression import (
    MAX_DECOMPRESSED_SIZE,
    Compression,
    compress,
    decompress,
    with_kafka_checksum,
    with_right_checksum,
)
from protocol.records.message_layout import (
    CHECKED_FROM,
    COMPRESSION,
    CRC,
    HEADERS,
    HEADS,
    LENGTH,
    LOG_APPEND_TIME,
    NULL,
    PREFIX,
    PREFIX_SIZE,
)

_MIN_SIZES: Final = (14, 22)  # what a message's size is with neither key nor value
_MAX_INT64: Final = 2**63 - 1

_CODECS: Final = (Compression.GZIP, Compression.SNAPPY, Compression.LZ4)

T = TypeVar("T")

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
        return self.attributes & COMPRESSION

    @property
    def is_log_append_time(self) -> bool:
        """The timestamp is the broker's, and that of all messages wrapped in this one (KIP-32)."""
        return self.magic > 0 and bool(self.attributes & LOG_APPEND_TIME)


class MessageSet(NamedTuple):
    """What was read. ``end``: the position after the last whole message. ``needed``: 0 when the buffer ends there, or a
    record batch begins there; else the buffer ends in a message, which takes so many bytes from ``end`` on (12 when not
    even its size is there)."""

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
    """The messages from ``pos`` to the end of ``buf`` or to the first record batch, CRCs checked; nothing is
    decompressed. Raises CorruptBatch."""
    scan = MessageScan(buf, pos)
    return Messages(_all(lambda: iter(scan)), scan.at, scan.needed)


def decode_message_set(buf: bytes, pos: int = 0, max_size: int = MAX_DECOMPRESSED_SIZE) -> MessageSet:
    """The records from ``pos`` to the end of ``buf`` or to the first record batch, CRCs checked, wrappers opened,
    offsets absolute.

    ``max_size``: how many bytes the wrapped messages of the whole set may be once decompressed, where a message counts
    for MIN_OBJECT_SIZE at least. Raises CorruptBatch, DecompressedTooLarge, and UnsupportedBatch for a codec that
    message sets do not have. Errors inside of a wrapper have the wrapper's position. Of a large set, wrappers are
    decompressed twice, the first ones three times, one at a time.
    """
    scan = MessageScan(buf, pos)
    return MessageSet(_all(lambda: _records(scan, max_size)), scan.at, scan.needed)


def _all(make: Callable[[], Iterator[T]]) -> list[T]:
    """All that ``make`` gives; before more than SKIM_ABOVE of it are kept, all is gone through once and thrown away."""
    items = make()
    kept = list(islice(items, SKIM_ABOVE + 1))
    if len(kept) <= SKIM_ABOVE:
        return kept
    # What was decompressed for the first ones goes before it is decompressed again.
    del items, kept
    deque(make(), maxlen=0)
    return list(make())


class MessageScan:
    """The messages from ``start`` on, one at a time; each time it is gone through, from there anew. CRCs are checked;
    going through it raises CorruptBatch.

    ``at``: the position of the message that was given last; in the end, that after the last whole message, and
    ``needed`` is as in :class:`MessageSet`.
    """

    def __init__(self, buf: bytes, start: int = 0) -> None:
        if start < 0:
            raise CorruptBatch("negative position", start)
        self._buf = buf
        self._start = start
        self.at = start
        self.needed = 0

    def __iter__(self) -> Iterator[Message]:
        buf, pos, end = self._buf, self._start, len(self._buf)
        header_v0, header_v1 = HEADERS[0].unpack_from, HEADERS[1].unpack_from
        length_at = LENGTH.unpack_from
        while pos < end:
            self.at = pos
            if end - pos < PREFIX_SIZE:
                self.needed = PREFIX_SIZE
                return
            # What can be judged is judged at once: no bytes to come make a wrong size or magic right.
            magic = buf[pos + MAGIC_POSITION] if end - pos > MAGIC_POSITION else 0
            if magic == MAGIC:
                return
            if magic > MAGIC:
                raise CorruptBatch(f"magic {magic}", pos + MAGIC_POSITION)
            min_size = _MIN_SIZES[magic]
            (size,) = length_at(buf, pos + 8)
            if size < min_size:
                raise CorruptBatch(f"message of {size} bytes", pos + 8)
            message_end = pos + PREFIX_SIZE + size
            if message_end > end:
                self.needed = PREFIX_SIZE + size
                return
            if magic:
                offset, _, crc, _, attributes, timestamp, length = header_v1(buf, pos)
                at = pos + 30
            else:
                offset, _, crc, _, attributes, length = header_v0(buf, pos)
                timestamp = NO_TIMESTAMP
                at = pos + 22
            if crc32(buf[pos + CHECKED_FROM : message_end]) != crc:
                raise CorruptBatch("CRC mismatch", pos)

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
            if at + max(length, 0) != message_end:
                raise CorruptBatch(f"value of {length} bytes, {message_end - at} left in the message", at)
            if length < -1:
                raise CorruptBatch(f"value length {length}", at)
            value = buf[at:message_end] if length >= 0 else None
            yield _new(Message, (offset, magic, attributes, timestamp, key, value))
            pos = message_end
        self.at = pos


def _records(scan: MessageScan, max_size: int) -> Iterator[Record]:
    for message in scan:
        offset, _, attributes, timestamp, key, value = message
        if attributes & COMPRESSION:
            wrapped = _Wrapped(message, scan.at, max_size)
            max_size -= wrapped.size
            yield from wrapped
        else:
            yield _new(Record, (key, value, (), timestamp, offset))


class _Wrapped:
    """The records in a wrapper. ``size``: how much of the limit they use up."""

    def __init__(self, wrapper: Message, at: int, max_size: int) -> None:
        self._wrapper = wrapper
        self._at = at
        with self._errors():
            self._content = unwrapped(wrapper, at, max_size)
            if not self._content:
                raise CorruptBatch("no message", 0)
            count, self._last = _count_and_last_offset(self._content)
            self.size = max(len(self._content), count * MIN_OBJECT_SIZE)
            if self.size > max_size:
                raise DecompressedTooLarge(f"{count} messages where {max_size} bytes are allowed", 0)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Errors in the content say so, and have the wrapper's position."""
        offset = self._wrapper.offset
        try:
            yield
        except DecompressedTooLarge as error:
            raise DecompressedTooLarge(f"{error.reason} in the wrapper at offset {offset}", self._at) from None
        except CorruptBatch as corrupt:
            reason = f"{corrupt.reason} (at byte {corrupt.position} in the wrapper at offset {offset})"
            raise CorruptBatch(reason, self._at) from None

    def __iter__(self) -> Iterator[Record]:
        wrapper = self._wrapper
        append_time = wrapper.timestamp if wrapper.is_log_append_time else None
        with self._errors():
            shift = 0
            if wrapper.magic and wrapper.offset and self._last is not None:
                shift = wrapper.offset - self._last
            if shift < 0:
                raise CorruptBatch(f"last offset {self._last}", 0)
            scan = MessageScan(self._content, 0)
            for offset, magic, attributes, timestamp, key, value in scan:
                if attributes & COMPRESSION:
                    raise CorruptBatch("a wrapper", scan.at)
                if offset > _MAX_INT64 - shift:
                    raise CorruptBatch("offset beyond 64 bits", scan.at)
                if magic and append_time is not None:
                    timestamp = append_time
                yield _new(Record, (key, value, (), timestamp, offset + shift))
            if scan.needed:
                raise CorruptBatch("a message is cut off", scan.at)
            if scan.at != len(self._content):
                raise CorruptBatch(f"magic {MAGIC}", scan.at + MAGIC_POSITION)


def unwrapped(wrapper: Message, at: int = 0, max_size: int = MAX_DECOMPRESSED_SIZE) -> bytes:
    """The message set in ``wrapper``, which stands at byte ``at``, decompressed. Raises as
    :func:`decode_message_set` does."""
    codec = wrapper.attributes & COMPRESSION
    if codec not in _CODECS:
        raise UnsupportedBatch(f"a message set compressed with codec {codec}", at)
    data = wrapper.value
    if data is None:
        raise CorruptBatch("null", 0)
    if codec == Compression.LZ4 and wrapper.magic == 0:
        data = with_right_checksum(data)
    return decompress(codec, data, max_size)


def _count_and_last_offset(content: bytes) -> tuple[int, int | None]:
    """By the messages' sizes alone, so reading them may still find that they are none; no offset where the sizes do not
    add up, which reading them will find."""
    count = at = last = 0
    end = len(content) - PREFIX_SIZE
    prefix_at = PREFIX.unpack_from
    while at <= end:
        last, size = prefix_at(content, at)
        if size < _MIN_SIZES[0]:
            break
        count += 1
        at += PREFIX_SIZE + size
    return count, last if at == len(content) else None


# --- writing ---------------------------------------------------------------------------------------------------------


def encode_message_set(
    records: Sequence[Record],
    magic: int,
    *,
    compression: Compression = Compression.NONE,
    level: int | None = None,
    log_append_time: int | None = None,
) -> bytes:
    """The records as a message set of magic 0 or 1; compressed, in one wrapper, at the codec's ``level``.

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
    attributes = 0 if whole is None else LOG_APPEND_TIME
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
    time = max(record.timestamp for record in records) if log_append_time is None else log_append_time
    has_append_time = log_append_time is not None
    return wrapped(inner_set, last, magic, compression, time, level=level, log_append_time=has_append_time)


def wrapped(
    inner_set: bytes,
    last_offset: int,
    magic: int,
    compression: Compression,
    timestamp: int | None,
    *,
    level: int | None = None,
    log_append_time: bool = False,
) -> bytes:
    """A message set in one message, whose offset is that of the last one in there. ``timestamp`` is for magic 1."""
    data = compress(compression, inner_set, level)
    if compression == Compression.LZ4 and not magic:
        data = with_kafka_checksum(data)
    attributes = compression | (LOG_APPEND_TIME if log_append_time else 0)
    time = timestamp if magic and timestamp is not None else NO_TIMESTAMP
    return b"".join(_message(last_offset, magic, attributes, time, None, data))


def _message(
    offset: int, magic: int, attributes: int, timestamp: int, key: bytes | None, value: bytes | None
) -> tuple[bytes, bytes]:
    key_length = -1 if key is None else len(key)
    try:
        if magic:
            start = HEADS[1].pack(1, attributes, timestamp, key_length)
        elif timestamp != NO_TIMESTAMP:
            raise ValueError("timestamps in magic 0")
        else:
            start = HEADS[0].pack(0, attributes, key_length)
        value_length = NULL if value is None else LENGTH.pack(len(value))
        checked = b"".join((start, key or b"", value_length, value or b""))
        return PREFIX.pack(offset, len(checked) + CRC.size) + CRC.pack(crc32(checked)), checked
    except struct.error as error:
        raise ValueError(f"a message field that cannot be written: {error}") from None
