"""What a journal says, byte by byte: records of what was written, each to be believed or not.

::

    at 0       magic, id of this filling (random), CRC-32C of both
    from 4096  records: CRC-32C of what follows, length of the entries, position of the record, id, entries
    an entry   topic, partition, base offset of the segment, byte position in it, offset after it, the batches' bytes;
    or         topic, -1, how many batches, partitions and records follow; of each batch of records that wait of which
               these are the first, its partition and place; the partitions; how many records each of them has (by now
               a record has its own, and these are all 1); the length of each record; the records (waiting.py)

A record is one of this filling when its id is the header's, it says where it stands, and its CRC is right.

What waits comes into the batch that was begun last in its partition. Where records of the journal are missing in
between, nobody knows which that is, until the next one begins.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Generator, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import chain, islice, repeat
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
_WAITS: Final = b"\xff\xff\xff\xff"  # instead of a partition
_WAITING: Final = struct.Struct(">4sIII")  # that, and how many batches begin, partitions and records
_BEGUN: Final = struct.Struct(">iqqqq")
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


class Begun(NamedTuple):
    """A batch of records that wait has begun. It belongs at byte ``position`` of the segment of ``base_offset``, with
    the first of them at ``offset``. ``timestamp_ms``: the time of all."""

    partition: int
    base_offset: int
    position: int
    offset: int
    timestamp_ms: int


class WaitingEntry(NamedTuple):
    """Records of one flight that wait, or did, and the batch that they come into; ``runs``: each from behind its offset
    delta on. In a partition those of one batch follow each other."""

    partition: TopicPartition
    batch: Begun
    runs: list[bytes]


EncodedEntry: TypeAlias = tuple[bytes, bytes, bytes]
"""An entry as it stands in a record: topic, what comes before the data, and that."""


def encoded_entry(
    partition: TopicPartition, base_offset: int, position: int, next_offset: int, data: bytes
) -> EncodedEntry:
    """Of a :class:`JournalEntry`."""
    topic, number = partition
    return _name(topic), _ENTRY.pack(number, base_offset, position, next_offset, len(data)), data


def encoded_waiting(topic: str, begun: Sequence[Begun], numbers: Sequence[int], runs: Sequence[bytes]) -> EncodedEntry:
    """Of records that wait, and the partition of each. ``begun``: the batches of which these are the first ones."""
    count = len(runs)
    head = _WAITING.pack(_WAITS, len(begun), count, count)
    batches = [_BEGUN.pack(*each) for each in begun]
    all_numbers = _numbers(3 * count).pack(*numbers, *repeat(1, count), *map(len, runs))
    return _name(topic), b"".join((head, *batches, all_numbers)), b"".join(runs)


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


def read_waiting(path: Path, content: bytes) -> list[WaitingEntry]:
    """What waits in it, or did, in order. Raises LogError for a journal of another version."""
    return [entry for entry in read(path, content) if isinstance(entry, WaitingEntry)]


def read(path: Path, content: bytes) -> Iterator[JournalEntry | WaitingEntry]:
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


def entries_of(path: Path, content: bytes, records: Iterable[tuple[int, int]]) -> Iterator[JournalEntry | WaitingEntry]:
    """What is in these records of the journal, as :func:`records_of` gives them, in order."""
    begun: dict[TopicPartition, Begun] = {}
    expected = FIRST
    for position, end in records:
        if position - _RECORD.size != expected:  # what is missing may have begun another batch
            begun.clear()
        expected = end
        while position < end:
            (length,) = _TOPIC.unpack_from(content, position)
            position += _TOPIC.size
            topic = content[position : position + length].decode()
            position += length
            if content.startswith(_WAITS, position):
                position = yield from _waiting_at(path, content, position, topic, begun)
                continue
            partition, base_offset, byte, next_offset, size = _ENTRY.unpack_from(content, position)
            position += _ENTRY.size
            data = content[position : position + size]
            yield JournalEntry(TopicPartition(topic, partition), base_offset, byte, next_offset, data)
            position += size


def _waiting_at(
    path: Path, content: bytes, position: int, topic: str, begun: dict[TopicPartition, Begun]
) -> Generator[WaitingEntry, None, int]:
    """What stands there, but for records of which nobody knows the batch; returns where it ends. ``begun`` gets the
    batches that begin with it."""
    _, batches, partitions, count = _WAITING.unpack_from(content, position)
    position += _WAITING.size
    for _ in range(batches):
        batch = Begun(*_BEGUN.unpack_from(content, position))
        begun[TopicPartition(topic, batch.partition)] = batch
        position += _BEGUN.size
    numbers = _numbers(2 * partitions + count)
    all_numbers = numbers.unpack_from(content, position)
    position += numbers.size
    sizes = iter(all_numbers[2 * partitions :])
    for number, how_many in zip(all_numbers[:partitions], all_numbers[partitions : 2 * partitions], strict=True):
        runs = []
        for size in islice(sizes, how_many):
            runs.append(content[position : position + size])
            position += size
        partition = TopicPartition(topic, number)
        its = begun.get(partition)
        if its is None:
            _logger.warning("%s: of what waited in %s some is in no sound record", path, partition)
        else:
            yield WaitingEntry(partition, its, runs)
    return position
