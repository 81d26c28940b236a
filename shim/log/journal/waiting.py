"""Records that wait: durable in the journal, and written to their segment later, many flights' in one batch.

The history of commits is as many batches as the offsets have, flight by flight, and nobody reads it back to serve
anything. So a flight's records of it go to the journal alone, those of all partitions in one piece, which is all that
is kept of them at first (log/staging.py); a partition's batch is made of all that wait when some time has passed, when
they are many, or when somebody wants to read them, and is written to the place that was kept for it: where the log
ended when the first of them came.

It follows from what the journal has, byte for byte: the place, the time of the first of them, and the records in order.
So a start makes the same batch again and writes it there, which does no harm where it stands already, as with any other
entry of the journal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final, NamedTuple, Protocol

from protocol.records.batches import HEADER_SIZE, framed_batch
from protocol.records.record_runs import frame_runs, runs_size, unframed
from protocol.topic_partition import TopicPartition
from shim.log.journal.journal_records import Begun, WaitingEntry
from shim.log.segments.active import LogEnd
from shim.log.segments.batching import PreparedBatch

MOST_BYTES: Final = 64 << 10
"""Where more of a partition wait what comes is written to the segment, behind them; and no more than this is taken at
once, but for what is kept back: who looks into the history for the newest decodes a batch."""

MOST_KEPT: Final = 256 << 10
"""So much of a topic may be kept back from its partitions, be it all of one: so a batch may have both."""


class Staging(Protocol):
    """Through whom records come that are to wait."""

    def hand_out(self) -> None:
        """Every :class:`Waiting` gets what there is of it, by :meth:`Waiting.add`."""

    def close(self, partition: int) -> None:
        """What comes of the partition is not to be kept back from it."""


class Framed(NamedTuple):
    """Records as a batch has them; ``total``: how many that has with these."""

    data: bytes
    total: int


class Waiting:
    """Those of one partition, whose log ends at ``place`` without them. ``room``: how many bytes the batch may have
    there."""

    __slots__ = ("_framed", "_staging", "count", "partition", "place", "room", "size", "timestamp_ms")

    def __init__(self, partition: int, place: LogEnd, timestamp_ms: int, room: int, staging: Staging) -> None:
        self.partition = partition
        self.place = place
        self.timestamp_ms = timestamp_ms
        self.room = room
        self.count = 0
        """Of the records that were handed out."""
        self.size = HEADER_SIZE
        """Bytes of a batch of these, without what is kept back."""
        self._framed: list[bytes] = []
        self._staging = staging

    @property
    def begun(self) -> Begun:
        """The batch, as the journal is told of it with the first of them."""
        return Begun(self.partition, *self.place, self.timestamp_ms)

    def take(self, runs: Sequence[bytes]) -> bool:
        """Whether these records wait from now on, too, unless :meth:`drop` follows; of what came before them nothing is
        kept back any more. They cannot where they are many, or none, or so many wait already that these are to be
        written first."""
        more = runs_size(runs, len(runs))
        if not runs or self.size > MOST_BYTES or more > MOST_BYTES or self.size + more > self.room:
            return False
        self.add(self.framed(runs))
        return True

    def framed(self, runs: Sequence[bytes]) -> Framed:
        """These, as they come behind what waits."""
        return _framed(runs, self.count)

    def add(self, framed: Framed) -> None:
        """These wait, too."""
        self._framed.append(framed.data)
        self.size += len(framed.data)
        self.count = framed.total

    @property
    def has_room(self) -> bool:
        """Whether MOST_KEPT may be added before it has to be asked again."""
        return self.size <= MOST_BYTES and self.size + MOST_KEPT <= self.room

    def drop(self, count: int) -> None:
        """So many, which came last, are not to be written. Nothing is kept back."""
        left = _framed(self.runs()[:-count], 0)
        self._framed, self.count, self.size = [left.data], left.total, HEADER_SIZE + len(left.data)

    def runs(self) -> list[bytes]:
        """All of them, not framed."""
        self._staging.hand_out()
        return unframed(b"".join(self._framed))

    def batch(self) -> PreparedBatch:
        """Of all."""
        self._staging.hand_out()
        return _batch(self.place.offset, [*self._framed], self.count, self.timestamp_ms)

    def close(self) -> None:
        """Nothing may be added, until it has been asked whether it may."""
        self._staging.close(self.partition)


def _framed(runs: Sequence[bytes], first: int) -> Framed:
    """From that offset delta on."""
    parts: list[bytes | bytearray] = []
    count = frame_runs(runs, parts, first)
    return Framed(b"".join(parts), count)


def _batch(offset: int, framed: list[bytes | bytearray], count: int, timestamp_ms: int) -> PreparedBatch:
    data, crc = framed_batch(offset, count, framed, timestamp_ms)
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
        parts: list[bytes | bytearray] = []
        count = frame_runs([run for each in its for run in each.runs], parts, 0)
        batch = _batch(begun.offset, parts, count, begun.timestamp_ms)
        yield WaitedBatch(partition, begun.base_offset, begun.position, batch)
