"""Message sets (magic 0 and 1) into record batches (magic 2), and back.

On the way up a set becomes one batch, as in a broker's log: keys, values and timestamps stay, and so does the codec;
its offsets are the broker's to give. On the way down each batch becomes a message set of its own, or one message where
it is compressed: absolute offsets stay, gaps too; headers go, and in magic 0 timestamps; control records are left out.
zstd, which old clients do not know, becomes gzip.

Source: KIP-31, KIP-32, KIP-98; Kafka 3.9 for what is refused and with which error.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from protocol.errors import ErrorCode
from protocol.records.batch_messages import BatchMessages, batch_messages
from protocol.records.batches import (
    MAGIC,
    MAGIC_POSITION,
    BatchError,
    Compression,
    CorruptBatch,
    DecompressedTooLarge,
    Record,
    TruncatedBatch,
    check_crc,
    encode_framed,
    read_header,
)
from protocol.records.message_layout import COMPRESSION, PREFIX_SIZE
from protocol.records.message_records import frame_messages
from protocol.records.message_sets import (
    Message,
    MessageScan,
    decode_message_set,
    encode_message_set,
    unwrapped,
)

MAX_DECOMPRESSED: Final = 64 << 20
"""Bytes of what is converted at once, decompressed; a record counts for 64 at least."""

_LOOKED_INTO: Final = 16 << 10
_LOOKED_AT: Final = 1000
"""Messages or batches."""
_FAST_BYTES: Final = 256
_RECORD_COST: Final = 12
"""Of a batch on its way down: its bytes take little, and a record as much as so many bytes on the way up."""
_RECORD_COUNT_AT: Final = 57
_SIZE_FIELD: Final = 4
_COUNT: Final = struct.Struct(">I").unpack_from
_COMPRESSED: Final = 1000
_SIZE: Final = struct.Struct(">i").unpack_from
_SIZE_AT: Final = 8
_ATTRIBUTES_AT: Final = 17
_BATCH_ATTRIBUTES_AT: Final = 22
_ZSTD: Final = 4
_GZIP_LEVEL: Final = 1
"""Of what goes to an old client: three times as fast as what producers have by default, and a fifth larger."""
_NO_TIMESTAMP: Final = -1
_LARGEST: Final = 2**31 - 1
_AT_ONCE: Final = 4096
"""Records whose parts are kept apart at one time."""

_new: Final[Any] = tuple.__new__


class Refused(ValueError):
    """A message set that a broker does not take; ``code`` is what it answers."""

    def __init__(self, code: ErrorCode, reason: str) -> None:
        super().__init__(reason)
        self.code = code


def cost(records: bytes | None) -> int:
    """What converting them takes, in bytes of small messages, uncompressed, on their way up. Of a few KiB that are
    compressed nobody knows before what they become: they count for the most that gzip makes of them. Many bytes take
    long anyway, and are not looked into; but for few batches on their way down, which say how many records they have.
    Of these the last one may be cut off, and is left out then.
    """
    if records is None:
        return 0
    pos, end, total = 0, len(records), 0
    for _ in range(_LOOKED_AT):
        if pos + _RECORD_COUNT_AT + _SIZE_FIELD > end:
            break
        is_batch = records[pos + MAGIC_POSITION] == MAGIC
        size = PREFIX_SIZE + max(0, _SIZE(records, pos + _SIZE_AT)[0])
        if is_batch and pos + size > end:
            return total
        if records[pos + (_BATCH_ATTRIBUTES_AT if is_batch else _ATTRIBUTES_AT)] & COMPRESSION:
            return end if end > _LOOKED_INTO else _COMPRESSED * end
        if not is_batch and end > _LOOKED_INTO:
            return end
        total += size // _FAST_BYTES + _RECORD_COST * _COUNT(records, pos + _RECORD_COUNT_AT)[0] if is_batch else size
        pos += size
    return max(0, total) + max(0, end - pos)


# --- up --------------------------------------------------------------------------------------------------------------


def to_batch(message_set: bytes) -> bytes | None:
    """The set as one record batch from offset 0 on; None where there is no message. One that is cut off at the end is
    left out, as a broker does. Raises :class:`Refused`.
    """
    if len(message_set) > MAGIC_POSITION and message_set[MAGIC_POSITION] == MAGIC:
        return message_set  # the broker says what is to be said of that
    outer = MessageScan(message_set)
    try:
        messages = iter(outer)
        first = next(messages, None)
        if first is None:
            if outer.needed > _LARGEST:
                raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, f"a message of {outer.needed} bytes")
            return None
        if not first.compression:
            magic = first.magic
            del first, messages  # it may be large, and is read again
            return _batch(message_set, magic)
        if next(messages, None) is not None or (outer.at != len(message_set) and not outer.needed):
            raise Refused(ErrorCode.INVALID_RECORD, "more than one message, the first one of them compressed")
    except CorruptBatch as error:
        raise Refused(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
    return _batch_of_wrapped(first)


def _batch_of_wrapped(wrapper: Message) -> bytes:
    if wrapper.compression == _ZSTD or wrapper.value is None:
        raise Refused(ErrorCode.INVALID_RECORD, "zstd, or nothing, in a message")
    try:
        content = unwrapped(wrapper, max_size=MAX_DECOMPRESSED)
    except DecompressedTooLarge as error:
        raise Refused(ErrorCode.MESSAGE_TOO_LARGE, str(error)) from error
    except BatchError as error:  # no codec, or not its bytes
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error
    try:
        return _batch(content, wrapper.magic, wrapper)
    except CorruptBatch as error:
        raise Refused(ErrorCode.CORRUPT_MESSAGE, str(error)) from error


def _batch(content: bytes, magic: int, wrapper: Message | None = None) -> bytes:
    """Of the messages in ``content``, none of which is compressed. ``wrapper``: what they were in."""
    append_time = wrapper.timestamp if wrapper is not None and wrapper.is_log_append_time else None
    parts: list[bytes | bytearray] = []
    count = pos = 0
    newest = last = _NO_TIMESTAMP
    base_timestamp: int | None = None
    while True:
        before = len(parts)
        run = frame_messages(content, pos, _AT_ONCE, magic, count, base_timestamp, append_time, parts)
        if not run.size:
            break
        if run.size == _AT_ONCE:
            parts[before:] = (b"".join(parts[before:]),)
        count += run.size
        newest = max(newest, run.newest)
        pos, last, base_timestamp = run.end, run.last_offset, run.base_timestamp
    _check_end(MessageScan(content, pos), len(content), magic, append_time)
    if base_timestamp is None or (wrapper is not None and magic and wrapper.offset and wrapper.offset < last):
        raise Refused(ErrorCode.INVALID_RECORD, "a wrapper of nothing, or an offset below those in it")
    codec = Compression.NONE if wrapper is None else Compression(wrapper.compression)
    return encode_framed(0, count, parts, base_timestamp, max_timestamp=newest, compression=codec)


def _check_end(rest: MessageScan, end: int, magic: int, append_time: int | None) -> None:
    """Raises what is wrong with the first message that is no record; one that is cut off is none. That a timestamp is
    too far from the first one is said only where all else is right: it is found where a batch is made of them."""
    too_far = None
    for _, message_magic, attributes, timestamp, _, _ in rest:
        if message_magic != magic or attributes & COMPRESSION:
            raise Refused(ErrorCode.INVALID_RECORD, f"magic {message_magic}, attributes {attributes} in magic {magic}")
        if append_time is not None:
            timestamp = append_time
        if timestamp < _NO_TIMESTAMP:
            raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, f"timestamp {timestamp}")
        if too_far is None:
            too_far = timestamp
    if rest.at != end and not rest.needed:
        raise Refused(ErrorCode.INVALID_RECORD, f"magic {MAGIC} behind magic {magic}")
    if too_far is not None:  # in a batch they are differences, of 64 bits too
        raise Refused(ErrorCode.INVALID_TIMESTAMP, f"timestamp {too_far}")


# --- down ------------------------------------------------------------------------------------------------------------


_Encode = Callable[[int], bytes]
"""Gives so many messages, the first ones, as a set."""


class Fetched(NamedTuple):
    """What an old client is given. ``next_offset``: where ``data`` is empty, the client goes on from there, behind all
    that was looked at, as it learns of nothing by itself."""

    data: bytes
    next_offset: int


def to_message_sets(fetched: bytes, magic: int, offset: int, max_bytes: int, *, whole: bool) -> Fetched:
    """What a broker has fetched from ``offset`` on, in messages of magic 0 or 1, as much as fits into ``max_bytes``.

    The first message is given even if it does not fit: ``whole``, or else cut off, by which old clients know that they
    have to ask for more (before KIP-74). Raises BatchError for what is no batch, or too large to be converted, where
    that comes first; what is before it is given first.
    """
    data = _Output(max_bytes, whole=whole)
    next_offset = offset
    try:
        for last, count, encode in _pieces(fetched, magic, offset):
            data.add(count, encode)
            if data.is_full:
                break
            next_offset = max(next_offset, last + 1)
    except BatchError:
        if data.is_empty:
            raise
    # Where the first message has no room, not even a byte of it, it is still to be fetched.
    return Fetched(data.joined(), offset if data.is_full else next_offset)


def _pieces(fetched: bytes, magic: int, offset: int) -> Iterator[tuple[int, int, _Encode]]:
    """Of each batch, and of each message of the formats before, the last offset, how many messages it is from
    ``offset`` on, and what makes them."""
    pos, end = 0, len(fetched)
    while end - pos > MAGIC_POSITION:
        if fetched[pos + MAGIC_POSITION] != MAGIC:
            scan = MessageScan(fetched, pos)
            for message in scan:
                pos = scan.at + PREFIX_SIZE + _SIZE(fetched, scan.at + _SIZE_AT)[0]
                if message.offset >= offset:  # of a wrapper it is the last one's
                    yield message.offset, *_piece(fetched[scan.at : pos], message, magic, offset)
            if scan.needed:
                return
            continue
        try:
            header = read_header(fetched, pos)
        except TruncatedBatch:
            return
        check_crc(fetched, pos, header)
        if header.is_control or not header.record_count:
            yield header.last_offset, 0, _nothing
        else:
            messages = batch_messages(fetched, pos, header, magic, offset, MAX_DECOMPRESSED)
            yield header.last_offset, messages.size, partial(_converted, messages)
        pos += header.size


def _piece(raw: bytes, message: Message, magic: int, offset: int) -> tuple[int, _Encode]:
    """A message as it is; rewritten where it is a wrapper, as some of that may be before ``offset`` or not fit, or of a
    newer format than the client's."""
    if message.magic <= magic and not message.compression:
        return 1, lambda _: raw
    records = [each for each in decode_message_set(raw, 0, MAX_DECOMPRESSED).records if each.offset >= offset]
    return len(records), partial(_rewritten, records, message, min(message.magic, magic))


def _converted(messages: BatchMessages, count: int) -> bytes:
    codec = Compression.GZIP if messages.codec == _ZSTD else messages.codec
    return messages.joined(count, codec, _GZIP_LEVEL if codec == Compression.GZIP else None)


def _rewritten(records: Sequence[Record], message: Message, magic: int, count: int) -> bytes:
    plain = [
        _new(Record, (key, value, (), time if magic else _NO_TIMESTAMP, offset))
        for key, value, _, time, offset in records[:count]
    ]
    codec = Compression(message.compression)
    try:
        return encode_message_set(
            plain,
            magic,
            compression=codec,
            level=_GZIP_LEVEL if codec == Compression.GZIP else None,
            log_append_time=message.timestamp if magic and message.is_log_append_time else None,
        )
    except ValueError as error:  # offsets that do not rise: brokers take them from producers
        raise CorruptBatch(str(error), 0) from None


def _nothing(_: int) -> bytes:
    return b""


class _Output:
    """Message sets, until no more fit."""

    def __init__(self, max_bytes: int, *, whole: bool) -> None:
        self._left = max_bytes
        self._whole = whole
        self._parts: list[bytes] = []
        self.is_full = False

    def add(self, count: int, encode: _Encode) -> None:
        """As many of so many messages as fit, from the first one on."""
        if not count:
            return
        data = encode(count)
        while len(data) > self._left:
            self.is_full = True
            if count == 1:
                if self._parts:
                    return
                data = data if self._whole else data[: max(0, self._left)]
                break
            # A little less than would fit if all were of one size.
            count = max(1, min(count - 1, count * max(0, self._left) * 15 // (len(data) * 16)))
            data = encode(count)
        self._parts.append(data)
        self._left -= len(data)

    @property
    def is_empty(self) -> bool:
        return not self._parts and not self.is_full

    def joined(self) -> bytes:
        return b"".join(self._parts)
