"""Records that wait: durable in the journal, and written to their segment later, many flights' in one batch.

The history of commits is as many batches as the offsets have, flight by flight, and nobody reads it back to serve
anything. So a flight's records of it go to the journal alone, framed as they will stand in their batch; that is made
of all that wait when some time has passed, when they are many, or when somebody wants to read them, and is written to
the place that was kept for it: where the log ended when the first of them came.

It follows from what the journal has, byte for byte: the place, the time of the first of them, and the records in order.
So a start makes the same batch again and writes it there, which does no harm where it stands already, as with any other
entry of the journal.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from protocol.own.record_sets import Appended, Runs
from protocol.records.batches import HEADER_SIZE, encoded_size, frame_records, framed_batch
from protocol.records.record_runs import frame_runs
from protocol.topic_partition import TopicPartition
from shim.log.journal.journal_records import EncodedEntry, WaitingEntry, encoded_waiting
from shim.log.segments.active import LogEnd
from shim.log.segments.batching import PreparedBatch

MOST_BYTES: Final = 32 << 10
"""From here on they are written to the segment, and no flight may add more than this: who looks into the history for
the newest decodes a batch."""

_FEW_SETS: Final = 8
"""Commits of one partition that came together. So few of them are framed without being asked how large they are."""

_logger = logging.getLogger(__name__)


class Waiting:
    """Those of one partition, whose log ends at ``place`` without them. ``room``: how many bytes the batch may have
    there."""

    __slots__ = ("_count", "_partition", "_parts", "_staged", "_staged_count", "place", "room", "size", "timestamp_ms")

    def __init__(self, partition: TopicPartition, place: LogEnd, timestamp_ms: int, room: int) -> None:
        self._partition = partition
        self.place = place
        self.timestamp_ms = timestamp_ms
        self.room = room
        self.size = HEADER_SIZE
        """Bytes of the batch, without what is staged."""
        self._parts: list[bytes] = []
        self._count = 0
        self._staged = b""
        self._staged_count = 0

    @property
    def is_empty(self) -> bool:
        return not self._count

    def stage(self, record_sets: Sequence[Appended]) -> EncodedEntry | None:
        """What the journal is to have of these, which are to wait, too, once :meth:`keep` says so. None where they
        cannot: they are many, or in a transaction, or none; or so many wait already, since they cannot be written."""
        if self.size > MOST_BYTES or (len(record_sets) > _FEW_SETS and _size(record_sets) > MOST_BYTES):
            return None
        parts: list[bytes | bytearray] = []
        delta = first = self._count
        for each in record_sets:
            if each.__class__ is Runs:
                delta = frame_runs(each[0], parts, delta)
            elif isinstance(each, list) and encoded_size(each) <= MOST_BYTES:
                # Of a group that is deleted there may be 16 MiB: that is not framed in vain.
                frame_records(each, parts, delta)
                delta += len(each)
            else:
                return None
        data = b"".join(parts)
        size = len(data)
        if not 0 < size <= MOST_BYTES or self.size + size > self.room:
            return None
        self._staged = data
        self._staged_count = delta - first
        base_offset, position, offset = self.place
        return encoded_waiting(
            self._partition, base_offset, position, offset + delta, offset, self.timestamp_ms, first, data
        )

    def keep(self) -> bool:
        """The journal has what was staged. Gives whether so many wait that they should be written."""
        self._parts.append(self._staged)
        self._count += self._staged_count
        self.size += len(self._staged)
        self._staged, self._staged_count = b"", 0
        return self.size > MOST_BYTES

    def drop(self) -> None:
        """The journal has not got what was staged."""
        self._staged, self._staged_count = b"", 0

    def batch(self) -> PreparedBatch:
        """Of all, with what is staged."""
        count = self._count + self._staged_count
        return _batch(self.place.offset, count, [*self._parts, self._staged], self.timestamp_ms)

    def entry(self) -> WaitingEntry:
        """All that wait, for a journal that begins anew."""
        base_offset, position, offset = self.place
        data, after = b"".join(self._parts), offset + self._count
        return WaitingEntry(self._partition, base_offset, position, after, offset, self.timestamp_ms, 0, data)


def _size(record_sets: Sequence[Appended]) -> int:
    """Of those that are framed many at once, unframed."""
    return sum(sum(map(len, each.runs)) for each in record_sets if isinstance(each, Runs))


def _batch(offset: int, count: int, parts: Iterable[bytes], timestamp_ms: int) -> PreparedBatch:
    data, crc = framed_batch(offset, count, list(parts), timestamp_ms)
    return PreparedBatch(data, offset, offset + count, timestamp_ms, crc)


class WaitedBatch(NamedTuple):
    """The batch of records that waited, as far as a journal has them, and its place."""

    partition: TopicPartition
    base_offset: int
    position: int
    batch: PreparedBatch


def batches_of(entries: Sequence[WaitingEntry]) -> Iterator[WaitedBatch]:
    """Of one partition, in the order of the journal: a batch for each place. What comes behind a gap is left out, which
    the log is told: part of a damaged journal, or left of an earlier filling, of which all is in the segments."""
    of_place: dict[LogEnd, list[WaitingEntry]] = {}
    for entry in entries:
        its = of_place.setdefault(LogEnd(entry.base_offset, entry.position, entry.first_offset), [])
        if entry.delta == (its[-1].next_offset - entry.first_offset if its else 0):
            its.append(entry)
        else:
            at, first = entry.partition, entry.first_offset
            _logger.warning("%s: of the records from offset %d on some are not in the journal", at, first)
    for place, its in of_place.items():
        if its:
            data = [entry.data for entry in its]
            batch = _batch(place.offset, its[-1].next_offset - place.offset, data, its[0].timestamp_ms)
            yield WaitedBatch(its[0].partition, place.base_offset, place.position, batch)
