"""The delete policy: whole segments go when their newest record is too old.

They are replaced by what compaction leaves of a segment without records: the header of the last batch, 61 bytes that
say no more than up to which offset the log goes. So a log still begins at offset 0, and the swap is compaction's, with
all that it survives (segments/swap.py).

Only closed segments go. When the active one is all that is left, and too old, the thread that writes is asked to begin
another.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from protocol.records.batches import NO_TIMESTAMP, BatchHeader, rewrite_batch
from protocol.topic_partition import TopicPartition
from shim.log.cleaner.throttler import CleaningStopped
from shim.log.disk.files import Files
from shim.log.errors import CorruptLog, LogError
from shim.log.partition.partition import PartitionLog
from shim.log.segments.index import batches_from
from shim.log.segments.segment import Segment, SoundBatch
from shim.log.segments.swap import cleaned_path, remove_left_overs, swap

_logger = logging.getLogger(__name__)


class Retention:
    """Keeps the records of these partitions for ``retention_ms`` by their own timestamps, each as long as the newest of
    its segment.

    One thread calls :meth:`step`.
    """

    def __init__(
        self,
        partitions: Sequence[PartitionLog],
        retention_ms: int,
        *,
        files: Files | None = None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self._partitions = partitions
        self._retention_ms = retention_ms
        self._files = files or Files()
        self._stopped = stopped
        self._newest: dict[Segment, int] = {}
        self._broke_off: set[TopicPartition] = set()
        self.damaged: dict[TopicPartition, LogError] = {}
        """Partitions that are left alone, and why."""

    def step(self, now_ms: int) -> int:
        """Drops what is too old, from every partition; how many segments. Never fails: a partition that does is logged,
        and left, for good when it is damaged, until the next step when a call failed. Raises CleaningStopped at the
        next batch once it is ``stopped``, and nothing is half done then.
        """
        dropped = 0
        for partition in self._partitions:
            at = partition.topic_partition
            if self._stopped():
                raise CleaningStopped
            if at in self.damaged:
                continue
            try:
                dropped += self._drop(partition, now_ms - self._retention_ms)
            except CorruptLog as error:
                self.damaged[at] = error
                _logger.error("%s: no old segments are dropped any more: %s", at, error)
            except LogError:  # not recovered: its turn will come
                continue
            except OSError as error:
                self._broke_off.add(at)
                _logger.warning("%s: old segments were not dropped, it will be tried again: %s", at, error)
        return dropped

    def _drop(self, partition: PartitionLog, oldest_ms: int) -> int:
        if partition.topic_partition in self._broke_off:
            partition.swap_segments((), lambda: None)  # completes a swap that broke off
            self._broke_off.discard(partition.topic_partition)
        old: list[Segment] = []
        for segment in partition.closed_segments():
            if not self._is_old(segment, oldest_ms):
                break
            old.append(segment)
        else:
            partition.roll_older_than(oldest_ms)
        # What an earlier step left, at the beginning, is old, too.
        dropped = sum(self._newest[segment] != NO_TIMESTAMP for segment in old)
        if not dropped:
            return 0
        folder, bases = partition.folder, [segment.base_offset for segment in old]
        self._write_empty(folder, old)
        if not partition.swap_segments(old, lambda: swap(self._files, folder, bases)):
            return 0
        remove_left_overs(self._files, folder)
        for segment in old:
            del self._newest[segment]
        _logger.info(
            "%s: old segments dropped, up to offset %d (%d)", partition.topic_partition, old[-1].next_offset, dropped
        )
        return dropped

    def _is_old(self, segment: Segment, oldest_ms: int) -> bool:
        newest = self._newest.get(segment)
        if newest is None:
            # The last batch says enough of most. Otherwise all are looked at: the clock by which they were written may
            # have been set back meanwhile.
            newest = self._last_batch(segment).max_timestamp
            if newest < oldest_ms:
                with self._batches(segment) as batches:
                    newest = max(self._unless_stopped(batch).header.max_timestamp for batch in batches)
                self._newest[segment] = newest
        return newest < oldest_ms

    def _unless_stopped(self, batch: SoundBatch) -> SoundBatch:
        if self._stopped():
            raise CleaningStopped
        return batch

    def _last_batch(self, segment: Segment) -> BatchHeader:
        with self._batches(segment, segment.next_offset - 1) as batches:
            *_, last = batches
        return last.header

    @contextmanager
    def _batches(self, segment: Segment, offset: int = 0) -> Iterator[Iterator[SoundBatch]]:
        """From ``offset`` on at the latest; their records are not read."""
        fd = self._files.open(segment.path)
        try:
            yield batches_from(self._files, fd, segment, offset, unread_below=segment.next_offset)
        finally:
            self._files.close(fd)

    def _write_empty(self, folder: Path, old: Sequence[Segment]) -> None:
        remove_left_overs(self._files, folder)
        last = self._last_batch(old[-1])
        empty = rewrite_batch(last._replace(base_timestamp=NO_TIMESTAMP, max_timestamp=NO_TIMESTAMP), ())
        fd = self._files.create(cleaned_path(folder, old[0].base_offset))
        try:
            self._files.write_at(fd, empty, 0)
            self._files.fdatasync(fd)
        finally:
            self._files.close(fd)
