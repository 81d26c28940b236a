"""What is to wait, of one topic: on its way from a flight into the journal, and to the batches of its partitions.

::

    Staged          of one write: into the journal, and taken back where that fails
    TopicStaging    keeps what came, as it came; or has it taken at once (PartitionLog.stage), as what is the first to
                    wait in its partition is
    Waiting         of one partition: what was taken, and what is handed out, framed for the batch

What is kept for a partition comes behind all that its Waiting has. So whatever needs all of it (the batch, what is to
be taken back, what is taken next) has everything handed out first; and where a Waiting ends, or its partition takes no
writes any more, it says so (close), and nothing is kept for that before something was taken for it again.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence, Set
from typing import Final, NamedTuple

from protocol.own.record_sets import Appended, Runs
from protocol.records.record_runs import runs_size
from shim.log.errors import LogError
from shim.log.journal.journal_records import EncodedEntry, encoded_waiting
from shim.log.journal.waiting import MOST_KEPT, Waiting
from shim.log.partition.partition import PartitionLog


class RecordsToWait(NamedTuple):
    """Of one flight: each from behind its offset delta on, and of which partition it is."""

    numbers: Sequence[int]
    runs: Sequence[bytes]


class TopicStaging:
    """The way of one topic. ``logs``: of its partitions.

    Most flights have records of partitions where something waits already, and more may. What such a flight has is kept
    as it came, and handed out to the partitions when one of them is about to write its batch, or when there is much of
    it. So little is done for a commit before it is acknowledged, and the rest is done for many at once.

    For the thread that writes. Another one, which recovers a partition of which nothing is being written, may
    :meth:`hand_out` and :meth:`close` meanwhile, and so may a sync that fails :meth:`close`.
    """

    def __init__(self, topic: str, logs: Mapping[int, PartitionLog]) -> None:
        self.topic = topic
        self.logs = logs
        self._open: set[int] = set()
        """Where something waits, and more may."""
        self._kept: list[RecordsToWait] = []
        self._kept_size = 0
        self._is_half_done = False
        self._lock = threading.Lock()  # of what is kept

    def keep(self, records: RecordsToWait) -> bool:
        """Whether these wait from now on, and were kept."""
        size = runs_size(records.runs, len(records.runs))
        if self._kept_size + size > MOST_KEPT:
            self.hand_out()
        with self._lock:
            if size > MOST_KEPT or not self._open.issuperset(records.numbers):
                return False
            self._kept.append(records)
            self._kept_size += size
        return True

    def take(self, number: int, runs: Sequence[bytes], timestamp_ms: int) -> bool:
        """Whether these wait from now on in that partition, for which nothing is kept."""
        log = self.logs[number]
        if not log.stage(runs, timestamp_ms, self):
            return False
        if log.waiting is not None and log.waiting.has_room:
            self._open.add(number)
        else:
            self._open.discard(number)
        return True

    def hand_out(self) -> None:
        """Nothing is kept any more. Raises RuntimeError where that has broken off before (there was no memory): nothing
        that waits is written then, and a start makes it right from the journal."""
        with self._lock:
            if self._is_half_done:
                raise RuntimeError(f"what waits of {self.topic} was handed out by half")
            if not self._kept:
                return
            runs_of: defaultdict[int, list[bytes]] = defaultdict(list)
            for numbers, its in self._kept:
                for number, run in zip(numbers, its, strict=True):
                    runs_of[number].append(run)
            handed_out = []
            for number, runs in runs_of.items():
                waiting = self.logs[number].waiting
                if waiting is None:
                    raise LogError(f"{self.logs[number].folder}: records are kept for what does not wait")
                handed_out.append((waiting, waiting.framed(runs)))
            self._is_half_done = True
            for waiting, framed in handed_out:
                waiting.add(framed)
                if not waiting.has_room:
                    self._open.discard(waiting.partition)
            self._kept, self._kept_size = [], 0
            self._is_half_done = False

    def close(self, partition: int) -> None:
        """Nothing is kept for the partition before something was taken for it again."""
        self._open.discard(partition)


class Staged:
    """Records of one write that are to wait: once :meth:`stage` was called they do, unless they are dropped."""

    __slots__ = ("_begun", "_records", "_staging", "timestamp_ms")

    def __init__(self, staging: TopicStaging, timestamp_ms: int) -> None:
        self.timestamp_ms = timestamp_ms
        self._staging = staging
        self._records = _NO_RECORDS
        self._begun: list[Waiting] = []  # where nothing waited before

    def stage(self, records: RecordsToWait) -> list[tuple[PartitionLog, int, Sequence[Appended]]]:
        """Gives what cannot wait. Raises ValueError for a partition that there is not, and has changed nothing then."""
        if self._staging.keep(records):
            self._records = records
            return []
        self._staging.hand_out()
        runs_of: defaultdict[int, list[bytes]] = defaultdict(list)
        for number, run in zip(*records, strict=True):
            runs_of[number].append(run)
        if unknown := runs_of.keys() - self._staging.logs.keys():
            raise ValueError(f"there is no partition {self._staging.topic}-{min(unknown)}")
        rest: list[tuple[PartitionLog, int, Sequence[Appended]]] = []
        numbers: list[int] = []
        taken: list[bytes] = []
        self._records = RecordsToWait(numbers, taken)
        for number, its in runs_of.items():
            log = self._staging.logs[number]
            begins = log.waiting is None
            if self._staging.take(number, its, self.timestamp_ms):
                numbers += [number] * len(its)
                taken += its
                if begins and log.waiting is not None:
                    self._begun.append(log.waiting)
            else:  # each is right by itself, and none has to be in a batch with others
                rest.append((log, self.timestamp_ms, [Runs((run,), 1) for run in its]))
        return rest

    def __bool__(self) -> bool:
        return bool(self._records.numbers)

    def entry(self) -> EncodedEntry:
        """What the journal is to have of them."""
        return encoded_waiting(self._staging.topic, [waiting.begun for waiting in self._begun], *self._records)

    def write(self, failed: dict[int, OSError]) -> list[PartitionLog]:
        """Where there is no journal to wait in. Gives where they are written, with all that waited; ``failed`` gets
        the others."""
        written = []
        for number in dict.fromkeys(self._records.numbers):
            log = self._staging.logs[number]
            try:
                log.write_staged()
            except OSError as error:
                failed[number] = error
            else:
                written.append(log)
        return written

    def drop(self, failed: Set[int]) -> None:
        """Those of these partitions are not acknowledged."""
        if not failed or failed.isdisjoint(self._records.numbers):
            return
        self._staging.hand_out()
        numbers, runs = self._records
        for number, count in Counter(number for number in numbers if number in failed).items():
            self._staging.logs[number].drop_staged(count)
        left = [each for each in zip(numbers, runs, strict=True) if each[0] not in failed]
        self._records = RecordsToWait([number for number, _ in left], [run for _, run in left])
        self._begun = [waiting for waiting in self._begun if waiting.partition not in failed]

    def drop_all(self) -> None:
        self.drop({*self._records.numbers})


_NO_RECORDS: Final = RecordsToWait((), ())
