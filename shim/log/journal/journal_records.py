"""What a journal says, byte by byte: records of what was written, each to be believed or not.

::

    at 0       magic, id of this filling (random), CRC-32C of both
    from 4096  records: CRC-32C of what follows, length of the entries, position of the record, id, entries
    an entry   topic, partition, base offset of the segment, byte position in it, offset after it, the batches' bytes;
    or         topic, -1, and a flight's records that wait for a batch of their own (waiting.py), of all partitions of
               the topic: places where such batches begin; partitions, how many records each has, their lengths, they

A record is one of this filling when its id is the header's, it says where it stands, and its CRC is right.

What waits comes to the place that its partition was given last. Where records of the journal are missing in between,
nobody knows which that is, until it is given another.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import google_crc32c

from protocol.topic_partition import TopicPartition
from shim.log.errors import LogError

FIRST: Final = 4096
"""Where the first record is."""
_MAGIC: Final = b"OSJRNL\x00\x03"
_HEADER: Final = struct.Struct(">8s16sI")
_RECORD: Final = struct.Struct(">IIQ16s")
RECORD_HEADER_SIZE: Final = _RECORD.size
"""Of a record without its entries."""
_CHECKED_FROM: Final = 4
_TOPIC: Final = struct.Struct(">H")
_ENTRY: Final = struct.Struct(">iqqqI")
_WAITS: Final = -1  # instead of a partition
_WAITING: Final = struct.Struct(">iIII")  # that, and how many places, partitions and records
_PLACE: Final = struct.Struct(">iqqqq")
_PARTITION: Final = struct.Struct(">i")
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


class Place(NamedTuple):
    """Where a batch of records that wait belongs: at byte ``position`` of the segment of ``base_offset``, with the
    first of them at ``offset``. ``timestamp_ms``: the time of all."""

    partition: int
    base_offset: int
    position: int
    offset: int
    timestamp_ms: int


class WaitingRecord(NamedTuple):
    """A record that waits, or did; ``run``: from behind its offset delta on. In a partition those of one place follow
    each other."""

    partition: TopicPartition
    place: Place
    run: bytes


EncodedEntry: TypeAlias = tuple[bytes, bytes, bytes]
"""An entry as it stands in a record: topic, what comes before the data, and that."""


def encoded_entry(
    partition: TopicPartition, base_offset: int, position: int, next_offset: int, data: bytes
) -> EncodedEntry:
    """Of a :class:`JournalEntry`."""
    topic, number = partition
    return _name(topic), _ENTRY.pack(number, base_offset, position, next_offset, len(data)), data


def encoded_waiting(
    topic: str, begun: Sequence[Place], numbers: Sequence[int], runs: Sequence[Sequence[bytes]]
) -> EncodedEntry:
    """Of records that wait, those of each partition. ``begun``: the places of those partitions of which these are the
    first."""
    counts = list(map(len, runs))
    records = list(chain.from_iterable(runs))
    head = _WAITING.pack(_WAITS, len(begun), len(counts), len(records))
    places = [_PLACE.pack(*place) for place in begun]
    all_numbers = _numbers(2 * len(counts) + len(records)).pack(*numbers, *counts, *map(len, records))
    return _name(topic), b"".join((head, *places, all_numbers)), b"".join(records)


@lru_cache(1024)
def _numbers(count: int) -> struct.Struct:
    return struct.Struct(f">{count}I")


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


def read_waiting(path: Path, content: bytes) -> list[WaitingRecord]:
    """What waits in it, or did, in order. Raises LogError for a journal of another version."""
    return [entry for entry in read(path, content) if isinstance(entry, WaitingRecord)]


def read(path: Path, content: bytes) -> Iterator[JournalEntry | WaitingRecord]:
    """Both, in order. Raises LogError for a journal of another version."""
    return entries_of(path, content, records_of(path, content, id_of(path, content)))


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
            if magic != _MAGIC:
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


def entries_of(
    path: Path, content: bytes, records: Iterable[tuple[int, int]]
) -> Iterator[JournalEntry | WaitingRecord]:
    """What stands between these bytes, where :func:`records_of` has found entries."""
    places: dict[TopicPartition, Place] = {}
    expected = FIRST
    for position, end in records:
        if position - _RECORD.size != expected:
            places.clear()
        expected = end
        while position < end:
            (length,) = _TOPIC.unpack_from(content, position)
            position += _TOPIC.size
            topic = content[position : position + length].decode()
            position += length
            if _PARTITION.unpack_from(content, position)[0] == _WAITS:
                waiting, position = _waiting_at(content, position, topic, places)
                if None in waiting:
                    _logger.warning("%s: of what waited in %s some is in no sound record", path, topic)
                yield from filter(None, waiting)
                continue
            partition, base_offset, byte, next_offset, size = _ENTRY.unpack_from(content, position)
            position += _ENTRY.size
            data = content[position : position + size]
            yield JournalEntry(TopicPartition(topic, partition), base_offset, byte, next_offset, data)
            position += size


def _waiting_at(
    content: bytes, position: int, topic: str, places: dict[TopicPartition, Place]
) -> tuple[list[WaitingRecord | None], int]:
    """The records there, None for those of which nobody knows the place, and where the entry ends. ``places`` gets
    those that begin in it."""
    _, begun, partitions, count = _WAITING.unpack_from(content, position)
    position += _WAITING.size
    for _ in range(begun):
        place = Place(*_PLACE.unpack_from(content, position))
        places[TopicPartition(topic, place.partition)] = place
        position += _PLACE.size
    numbers = _numbers(2 * partitions + count)
    all_numbers = numbers.unpack_from(content, position)
    position += numbers.size
    sizes = iter(all_numbers[2 * partitions :])
    records: list[WaitingRecord | None] = []
    for number, how_many in zip(all_numbers[:partitions], all_numbers[partitions : 2 * partitions], strict=True):
        partition = TopicPartition(topic, number)
        its = places.get(partition)
        for size in islice(sizes, how_many):
            run = content[position : position + size]
            records.append(None if its is None else WaitingRecord(partition, its, run))
            position += size
    return records, position
