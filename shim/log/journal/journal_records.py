"""What a journal says, byte by byte: records of what was written, each to be believed or not.

::

    at 0       magic, id of this filling (random), CRC-32C of both
    from 4096  records: CRC-32C of what follows, length of the entries, position of the record, id, entries
    an entry   topic, partition, base offset of the segment, byte position in it, offset after it, the batches' bytes;
               or, where a bit of the length says so, records that wait for a batch of their own (waiting.py)

A record is one of this filling when its id is the header's, it says where it stands, and its CRC is right.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import google_crc32c

from protocol.topic_partition import TopicPartition
from shim.log.errors import LogError

FIRST: Final = 4096
"""Where the first record is."""
_MAGIC: Final = b"OSJRNL\x00\x02"
_MAGICS: Final = (b"OSJRNL\x00\x01", _MAGIC)
"""Those that can be read: in the first there is nothing that waits."""
_HEADER: Final = struct.Struct(">8s16sI")
_RECORD: Final = struct.Struct(">IIQ16s")
RECORD_HEADER_SIZE: Final = _RECORD.size
"""Of a record without its entries."""
_CHECKED_FROM: Final = 4
_TOPIC: Final = struct.Struct(">H")
_ENTRY: Final = struct.Struct(">iqqqI")
_WAITING: Final = struct.Struct(">qqi")  # first offset, timestamp, offset delta: before the bytes of what waits
_WAITING_ENTRY: Final = struct.Struct(">iqqqIqqi")  # both
_WAITS: Final = 1 << 31  # the bit of the length
_WAITING_SIZE: Final = _WAITING.size | _WAITS
_ID_AT: Final = _RECORD.size - 16

_TOGETHER: Final = 24
"""Of so many parts, those of eight entries, the checksum goes on at once."""

_logger = logging.getLogger(__name__)


class JournalEntry(NamedTuple):
    """Batches as they stand in an active segment, that of ``base_offset``, from byte ``position`` on. After them comes
    ``next_offset``."""

    partition: TopicPartition
    base_offset: int
    position: int
    next_offset: int
    data: bytes


class WaitingEntry(NamedTuple):
    """What the journal has of records that wait: ``data``, framed, the first at offset delta ``delta`` of the batch
    that they come into. Its place is byte ``position`` of the segment of ``base_offset``, its first offset is
    ``first_offset``, its time ``timestamp_ms``. After these records comes ``next_offset``."""

    partition: TopicPartition
    base_offset: int
    position: int
    next_offset: int
    first_offset: int
    timestamp_ms: int
    delta: int
    data: bytes


EncodedEntry: TypeAlias = tuple[bytes, bytes, bytes]
"""An entry as it stands in a record: topic, what comes before the data, and that."""


def encoded_entry(
    partition: TopicPartition, base_offset: int, position: int, next_offset: int, data: bytes
) -> EncodedEntry:
    """Of a :class:`JournalEntry`."""
    topic, number = partition
    return _name(topic), _ENTRY.pack(number, base_offset, position, next_offset, len(data)), data


def encoded_waiting(
    partition: TopicPartition,
    base_offset: int,
    position: int,
    next_offset: int,
    first_offset: int,
    timestamp_ms: int,
    delta: int,
    data: bytes,
) -> EncodedEntry:
    """Of a :class:`WaitingEntry`."""
    topic, number = partition
    size = len(data) + _WAITING_SIZE
    head = _WAITING_ENTRY.pack(number, base_offset, position, next_offset, size, first_offset, timestamp_ms, delta)
    return _name(topic), head, data


def parts_of(entries: Iterable[EncodedEntry]) -> list[bytes]:
    """Of a record: room for what comes first, and the entries."""
    return [b"", *chain.from_iterable(entries)]


def finish(parts: list[bytes], size: int, position: int, identity: bytes) -> None:
    """Puts into their place what comes before these entries, of so many bytes, where the record is to stand there in
    this filling."""
    parts[0] = checked = _RECORD.pack(0, size, position, identity)[_CHECKED_FROM:]
    # A call for each part takes longer, and so does a copy of all, whose memory is new to the process.
    crc = 0
    for first in range(0, len(parts), _TOGETHER):
        crc = google_crc32c.extend(crc, b"".join(parts[first : first + _TOGETHER]))
    parts[0] = crc.to_bytes(4, "big") + checked


def header_of(identity: bytes) -> bytes:
    """Of the filling with this id."""
    checked = _MAGIC + identity
    return _HEADER.pack(_MAGIC, identity, google_crc32c.value(checked))


@cache
def _name(topic: str) -> bytes:
    name = topic.encode()
    return _TOPIC.pack(len(name)) + name


def read_entries(path: Path, content: bytes) -> Iterator[JournalEntry]:
    """What is in a journal, in order, but for what waits. Raises LogError for one of another version."""
    return (entry for entry in read(path, content) if isinstance(entry, JournalEntry))


def read_waiting(path: Path, content: bytes) -> list[WaitingEntry]:
    """What waits in it, or did, in order. Raises LogError for a journal of another version."""
    return [entry for entry in read(path, content) if isinstance(entry, WaitingEntry)]


def read(path: Path, content: bytes) -> Iterator[JournalEntry | WaitingEntry]:
    """Both, in order. Raises LogError for a journal of another version."""
    for record in records_of(path, content, id_of(path, content)):
        yield from entries_of(content, *record)


def records_of(path: Path, content: bytes, identity: bytes | None) -> Iterator[tuple[int, int]]:
    """Where the entries of each record of this filling begin and end."""
    if identity is None:
        if any(content):
            _logger.warning("%s holds no record, and no sound header", path)
        return
    position = FIRST
    while position < len(content):
        end = _end_of_record(content, position, identity)
        if end is None:
            after = _next_record(content, position, identity)
            if after is None:
                return
            # No torn write: the next one was only written when this one was durable. (Or what is left of the last
            # filling, under the first record of this one.) A partition that misses what was in here is found to be
            # damaged when it is read, if there is more of it in what follows.
            _logger.warning("%s: no sound record at byte %d, and one at byte %d", path, position, after)
            position = after
            continue
        yield position + _RECORD.size, end
        position = end


def id_of(path: Path, content: bytes) -> bytes | None:
    """Of the filling; where the header is torn, that of the first record. It can only be torn while the journal begins
    anew, when everything in it is synced. Then, and where it is damaged, what is found is as good as before.

    Raises LogError for a sound header of another version: nobody knows what its records would do to the segments.
    """
    if len(content) >= _HEADER.size:
        magic, identity, crc = _HEADER.unpack_from(content)
        if google_crc32c.value(content[: _HEADER.size - 4]) == crc:
            if magic not in _MAGICS:
                raise LogError(f"{path} is of another version of the program: have that one end in good order first")
            return bytes(identity)
    if len(content) >= FIRST + _RECORD.size:
        identity = content[FIRST + _ID_AT : FIRST + _RECORD.size]
        return identity if _end_of_record(content, FIRST, identity) is not None else None
    return None


def _end_of_record(content: bytes, position: int, identity: bytes) -> int | None:
    if position + _RECORD.size > len(content):
        return None
    crc, size, stands_at, of = _RECORD.unpack_from(content, position)
    end: int = position + _RECORD.size + size
    if of != identity or stands_at != position or end > len(content):
        return None
    return end if google_crc32c.value(content[position + _CHECKED_FROM : end]) == crc else None


def _next_record(content: bytes, position: int, identity: bytes) -> int | None:
    at = content.find(identity, position + _ID_AT + 1)
    while at >= 0:
        if _end_of_record(content, at - _ID_AT, identity) is not None:
            return at - _ID_AT
        at = content.find(identity, at + 1)
    return None


def entries_of(content: bytes, position: int, end: int) -> Iterator[JournalEntry | WaitingEntry]:
    """What stands between these bytes, where :func:`records_of` has found entries."""
    while position < end:
        (length,) = _TOPIC.unpack_from(content, position)
        position += _TOPIC.size
        topic = content[position : position + length].decode()
        position += length
        partition, base_offset, byte, next_offset, size = _ENTRY.unpack_from(content, position)
        position += _ENTRY.size
        at, behind = TopicPartition(topic, partition), position + (size & ~_WAITS)
        if size & _WAITS:
            first, time_ms, delta = _WAITING.unpack_from(content, position)
            data = content[position + _WAITING.size : behind]
            yield WaitingEntry(at, base_offset, byte, next_offset, first, time_ms, delta, data)
        else:
            yield JournalEntry(at, base_offset, byte, next_offset, content[position:behind])
        position = behind
