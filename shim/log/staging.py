"""What is to wait, of one topic: on its way from a flight into the journal, and to the batches of its partitions."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain, repeat
from typing import NamedTuple, TypeAlias

from protocol.own.record_sets import Appended, Runs
from protocol.records.record_runs import runs_size
from shim.log.errors import LogError
from shim.log.journal.journal_records import EncodedEntry, encoded_waiting
from shim.log.journal.waiting import MOST_BYTES, Waiting
from shim.log.partition.partition import PartitionLog

Records: TypeAlias = Sequence[tuple[int, Sequence[bytes]]]
"""Partitions, any of them several times, and records of each, from behind their offset delta on: those of one decision,
which share a batch where they do not wait."""


class _Piece(NamedTuple):
    """Records of one flight, of any partitions: ``counts`` of the ``runs`` are of each of these ``numbers``.
    ``framed_size``: their bytes in batches, at most."""

    numbers: Sequence[int]
    counts: Sequence[int]
    runs: Sequence[bytes]
    framed_size: int

    @classmethod
    def of(cls, records: Records) -> _Piece:
        numbers = [number for number, _ in records]
        runs = [run for _, its in records for run in its]
        # Of a commit there is one for each topic: nearly always one.
        counts = [1] * len(runs) if len(runs) == len(numbers) else [len(its) for _, its in records]
        return cls(numbers, counts, runs, runs_size(runs, len(runs)))

    @property
    def owners(self) -> Iterable[int]:
        """Of each of the runs its partition."""
        if len(self.numbers) == len(self.runs):
            return self.numbers
        return chain.from_iterable(map(repeat, self.numbers, self.counts))


class TopicStaging:
    """The way of one topic. ``logs``: of its partitions.

    Most flights have records of partitions where something waits already, and more may. What such a flight has is kept
    in one piece, as the journal gets it, and handed out to the partitions when one of them is about to write its batch,
    or when there is much of it. So of a commit almost nothing is done before it is acknowledged, and what is done
    later is done for many at once.

    For the thread that writes. Another one, which recovers a partition of which nothing is being written, may
    :meth:`hand_out` and :meth:`close` meanwhile.
    """

    def __init__(self, topic: str, logs: Mapping[int, PartitionLog]) -> None:
        self.topic = topic
        self.logs = logs
        self._open: set[int] = set()
        """Where something waits, and more may."""
        self._kept: list[_Piece] = []
        self._kept_size = 0
        self._lock = threading.Lock()  # of what is kept

    def keep(self, piece: _Piece) -> bool:
        """Whether that waits from now on, and was kept."""
        size = piece.framed_size
        if self._kept_size + size > MOST_BYTES:
            self.hand_out()
        with self._lock:
            if size > MOST_BYTES or not self._open.issuperset(piece.numbers):
                return False
            self._kept.append(piece)
            self._kept_size += size
        return True

    def take(self, number: int, runs: Sequence[bytes], timestamp_ms: int) -> bool:
        """Whether these wait from now on in that partition, for which nothing is kept."""
        log = self.logs[number]
        if not log.stage(runs, timestamp_ms, self):
            return False
        if log.waiting is not None and log.waiting.has_room:
            self._open.add(number)
        return True

    def hand_out(self) -> None:
        """Nothing is kept any more."""
        with self._lock:
            if not self._kept:
                return
            runs_of: defaultdict[int, list[bytes]] = defaultdict(list)
            for piece in self._kept:
                for number, run in zip(piece.owners, piece.runs, strict=True):
                    runs_of[number].append(run)
            for number, runs in runs_of.items():
                waiting = self.logs[number].waiting
                if waiting is None:
                    raise LogError(f"{self.logs[number].folder}: records are kept for what does not wait")
                waiting.add(runs)
                if not waiting.has_room:
                    self._open.discard(number)
            self._kept, self._kept_size = [], 0

    def close(self, partition: int) -> None:
        """Nothing is kept for the partition before something was taken for it again."""
        self._open.discard(partition)


class Staged:
    """Records of one write that are to wait: once :meth:`stage` was called they do, unless they are dropped."""

    __slots__ = ("_begun", "_piece", "_records", "_staging", "timestamp_ms")

    def __init__(self, staging: TopicStaging, records: Records, timestamp_ms: int) -> None:
        self.timestamp_ms = timestamp_ms
        self._staging = staging
        self._records: Records = []
        self._piece = _Piece.of(records)
        self._begun: list[Waiting] = []  # where nothing waited before

    def stage(self, records: Records) -> list[tuple[PartitionLog, int, Sequence[Appended]]]:
        """Those that it was made of. Gives what cannot wait. Raises ValueError for a partition that there is not."""
        if self._staging.keep(self._piece):
            self._records = records
            return []
        self._staging.hand_out()
        runs_of: defaultdict[int, list[bytes]] = defaultdict(list)
        for number, runs in records:
            runs_of[number] += runs
        if unknown := runs_of.keys() - self._staging.logs.keys():
            raise ValueError(f"there is no partition {self._staging.topic}-{min(unknown)}")
        rest: list[tuple[PartitionLog, int, Sequence[Appended]]] = []
        self._records = taken = []
        for number, runs in runs_of.items():
            log = self._staging.logs[number]
            begins = log.waiting is None
            if self._staging.take(number, runs, self.timestamp_ms):
                taken.append((number, runs))
                if begins and log.waiting is not None:
                    self._begun.append(log.waiting)
            else:
                sets = [Runs(its, len(its)) for of, its in records if of == number]
                rest.append((log, self.timestamp_ms, sets))
        self._piece = _Piece.of(taken)
        return rest

    def __bool__(self) -> bool:
        return bool(self._records)

    def entry(self) -> EncodedEntry:
        """What the journal is to have of them."""
        numbers, counts, runs, _ = self._piece
        return encoded_waiting(self._staging.topic, [waiting.begun for waiting in self._begun], numbers, counts, runs)

    def write(self, failed: dict[int, OSError]) -> list[PartitionLog]:
        """Where there is no journal to wait in. Gives where they are written, with all that waited; ``failed`` gets
        the others."""
        written = []
        for number in dict.fromkeys(self._piece.numbers):
            log = self._staging.logs[number]
            try:
                log.write_staged()
            except OSError as error:
                failed[number] = error
            else:
                written.append(log)
        return written

    def drop(self, failed: Collection[int]) -> None:
        """Those of these partitions are not acknowledged."""
        counts: Counter[int] = Counter()
        if failed:
            for number, runs in self._records:
                if number in failed:
                    counts[number] += len(runs)
        if counts:
            self._staging.hand_out()
            for number, count in counts.items():
                self._staging.logs[number].drop_staged(count)
            self._records = [each for each in self._records if each[0] not in counts]
            self._begun = [waiting for waiting in self._begun if waiting.partition not in counts]
            self._piece = _Piece.of(self._records)

    def drop_all(self) -> None:
        self.drop({number for number, _ in self._records})
