"""What of one write is to wait, until it is known whether it does."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from protocol.own.record_sets import Appended
from shim.log.journal.journal_records import EncodedEntry, encoded_waiting
from shim.log.partition.partition import PartitionLog


class Staged:
    """Records of partitions of one topic, staged in their logs: they wait from then on, unless they are dropped."""

    __slots__ = ("_all", "_begun", "timestamp_ms")

    def __init__(self) -> None:
        self.timestamp_ms = 0
        self._all: list[tuple[PartitionLog, Sequence[bytes]]] = []
        self._begun: list[PartitionLog] = []  # in which nothing waited before

    def __bool__(self) -> bool:
        return bool(self._all)

    def stage(
        self, logs: Sequence[PartitionLog], record_sets: Iterable[Sequence[Appended]], timestamp_ms: int
    ) -> list[tuple[PartitionLog, int, Sequence[Appended]]]:
        """Gives what cannot wait."""
        self.timestamp_ms = timestamp_ms
        self._begun = [log for log in logs if log.waiting is None]
        rest = []
        for log, its in zip(logs, record_sets, strict=True):
            runs = log.stage(its, timestamp_ms)
            if runs is not None:
                self._all.append((log, runs))
            else:
                rest.append((log, timestamp_ms, its))
        return rest

    def entry(self) -> EncodedEntry:
        """What the journal is to have of them, which are some."""
        logs, runs = zip(*self._all, strict=True)
        begun = [waiting.begun(log.number) for log in self._begun if (waiting := log.waiting) is not None]
        return encoded_waiting(logs[0].topic_partition.topic, begun, [log.number for log in logs], runs)

    def write(self, failed: dict[int, OSError]) -> list[PartitionLog]:
        """Where there is no journal to wait in. Gives where they are written, with all that waited; ``failed`` gets
        the others."""
        written = []
        for log, _ in self._all:
            try:
                log.write_staged()
            except OSError as error:
                failed[log.number] = error
            else:
                written.append(log)
        return written

    def drop(self, failed: Collection[int]) -> None:
        """Those of these partitions are not acknowledged."""
        if failed:
            for log, runs in self._all:
                if log.number in failed:
                    log.drop_staged(runs)
            self._all = [each for each in self._all if each[0].number not in failed]

    def drop_all(self) -> None:
        for log, runs in self._all:
            log.drop_staged(runs)
        self._all = []
