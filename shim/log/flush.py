"""One flush for many partitions."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from shim.log.partition import PartitionLog

_SIDE_BY_SIDE_FROM: Final = 4
_THREADS: Final = 8


class Flusher:
    """Syncs several partitions, side by side where that is quicker: a journal commit then serves several of them.

    Measured on ext4: with one file a thread's hand-over costs more than it saves, with 16 or more files eight threads
    take about 40 % off the time. The threads only ever sync; all else stays with the one that writes.
    """

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None

    def sync(self, partitions: Sequence[PartitionLog]) -> list[OSError | None]:
        """Syncs each; gives the error of each that failed, None for those that are durable, in the order given."""
        if len(partitions) < _SIDE_BY_SIDE_FROM:
            return [_sync(partition) for partition in partitions]
        if self._pool is None:
            self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="log-flush")
        return list(self._pool.map(_sync, partitions))

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
