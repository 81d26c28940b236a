"""One flush for many partitions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Final

from shim.log.partition.partition import PartitionLog

_SIDE_BY_SIDE_FROM: Final = 2
_THREADS: Final = 8


class Flusher:
    """Syncs several partitions, side by side where that is quicker: a journal commit then serves several of them.

    Measured on ext4: with one file a thread's hand-over costs more than it saves; two, as a commit has with its history
    where there is no journal, take little longer side by side than one, and one after the other twice as long and more
    on a busy disk; with 16 or more files eight threads take about 40 % off the time. The threads only ever sync; all
    else stays with the one that writes.
    """

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None

    def sync(self, logs: Sequence[PartitionLog]) -> dict[int, OSError]:
        """Syncs each, after a write. Gives the errors by the partition's number; the others are durable."""
        return self._all(_sync, logs)

    def flush(self, logs: Sequence[PartitionLog]) -> dict[int, OSError]:
        """Likewise between writes."""
        return self._all(_flush, logs)

    def _all(self, call: Callable[[PartitionLog], OSError | None], logs: Sequence[PartitionLog]) -> dict[int, OSError]:
        if len(logs) < _SIDE_BY_SIDE_FROM:
            errors = [call(log) for log in logs]
        else:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="log-flush")
            # The last one here, while the others are at work: one hand-over less.
            others = [self._pool.submit(call, log) for log in logs[:-1]]
            try:
                last = call(logs[-1])
            finally:
                wait(others)
            errors = [*(other.result() for other in others), last]
        return {log.number: error for log, error in zip(logs, errors, strict=True) if error is not None}

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None


def _sync(partition: PartitionLog) -> OSError | None:
    try:
        partition.sync()
    except OSError as error:
        return error
    return None


def _flush(partition: PartitionLog) -> OSError | None:
    try:
        partition.flush()
    except OSError as error:
        return error
    return None
