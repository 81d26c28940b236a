"""Records that wait: durable in the journal, and written to their segment later, many flights' in one batch.

The history of commits is as many batches as the offsets have, flight by flight, and nobody reads it back to serve
anything. So a flight's records of it go to the journal alone, those of all partitions in one piece; a partition's batch
is made of all that wait when some time has passed, when they are many, or when somebody wants to read them, and is
written to the place that was kept for it: where the log ended when the first of them came.

It follows from what the journal has, byte for byte: the place, the time of the first of them, and the records in order.
So a start makes the same batch again and writes it there, which does no harm where it stands already, as with any other
entry of the journal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, NamedTuple

from protocol.own.record_sets import Appended, Runs
from protocol.records.batches import HEADER_SIZE, encoded_size, framed_batch
from protocol.records.record_runs import RECORD_OVERHEAD, frame_runs, run_of, runs_size
from protocol.topic_partition import TopicPartition
from shim.log.journal.journal_records import Begun, WaitingEntry
from shim.log.segments.active import LogEnd
from shim.log.segments.batching import PreparedBatch

MOST_BYTES: Final = 32 << 10
"""Where more wait what comes is written to the segment, behind them, and no flight may add more than this: who looks
into the history for the newest decodes a batch."""


class Waiting:
    """Those of one partition, whose log ends at ``place`` without them. ``room``: how many bytes the batch may have
    there."""

    __slots__ = ("place", "room", "runs", "size", "timestamp_ms")

    def __init__(self, place: LogEnd, timestamp_ms: int, room: int) -> None:
        self.place = place
        self.timestamp_ms = timestamp_ms
        self.room = room
        self.runs: list[bytes] = []
        """The records, not framed yet."""
        self.size = HEADER_SIZE
        """Bytes of the batch, at most."""

    def begun(self, partition: int) -> Begun:
        """The batch, as the journal is told of it with the first of them."""
        return Begun(partition, *self.place, self.timestamp_ms)

    def take(self, record_sets: Sequence[Appended]) -> Sequence[bytes] | None:
        """The records of these, which wait from now on, too, unless :meth:`drop` follows. None where they cannot: they
        are many, or no plain records that are encoded each by itself, or none; or so many wait already that these are
        to be written first."""
        size = self.size
        if size > MOST_BYTES:
            return None
        each = record_sets[0] if len(record_sets) == 1 else None
        runs: Any = each[0] if each.__class__ is Runs else None
        if runs is not None and len(runs) == 1 and runs[0].__class__ is bytes:  # nearly always
            more = len(runs[0]) + RECORD_OVERHEAD  # as below, in a third of the time
        else:
            runs = _runs_of(record_sets)
            if not runs:
                return None
            more = runs_size(runs, len(runs))
        size += more
        if more > MOST_BYTES or size > self.room:
            return None
        self.runs += runs
        self.size = size
        taken: Sequence[bytes] = runs
        return taken

    def drop(self, runs: Sequence[bytes]) -> None:
        """These, which were taken last, are not to be written."""
        del self.runs[-len(runs) :]
        self.size -= runs_size(runs, len(runs))

    def is_all(self, runs: Sequence[bytes]) -> bool:
        """Whether nothing waits but these."""
        return len(self.runs) == len(runs)

    def batch(self) -> PreparedBatch:
        """Of all."""
        return _batch(self.place.offset, self.runs, self.timestamp_ms)


def _runs_of(record_sets: Sequence[Appended]) -> list[bytes] | None:
    """Of all of them; None where there are some that cannot wait."""
    runs: list[bytes] = []
    copied = 0
    for each in record_sets:
        if isinstance(each, Runs):
            for run in each.runs:
                if not isinstance(run, bytes):
                    return None
                runs.append(run)
        elif isinstance(each, list) and (copied := copied + encoded_size(each)) <= MOST_BYTES:
            # Of a group that is deleted there may be 16 MiB, and of many groups more: that is not copied in vain.
            runs += [run_of(key, value) for key, value in each]
        else:
            return None
    return runs


def _batch(offset: int, runs: Sequence[bytes], timestamp_ms: int) -> PreparedBatch:
    parts: list[bytes | bytearray] = []
    count = frame_runs(runs, parts, 0)
    data, crc = framed_batch(offset, count, parts, timestamp_ms)
    return PreparedBatch(data, offset, offset + count, timestamp_ms, crc)


class WaitedBatch(NamedTuple):
    """The batch of records that waited, as far as a journal has them, and its place."""

    partition: TopicPartition
    base_offset: int
    position: int
    batch: PreparedBatch


def batches_of(entries: Iterable[WaitingEntry]) -> Iterator[WaitedBatch]:
    """Of one partition, in the order of the journal."""
    for (partition, begun), its in groupby(entries, attrgetter("partition", "batch")):
        batch = _batch(begun.offset, [run for each in its for run in each.runs], begun.timestamp_ms)
        yield WaitedBatch(partition, begun.base_offset, begun.position, batch)
