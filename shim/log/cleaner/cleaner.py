"""The cleaner: compacts the closed segments of partitions, in a thread of its own, while records are appended."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event
from typing import NamedTuple

from protocol.own.position import Producer
from protocol.topic_partition import TopicPartition
from shim.log.cleaner.cleaning import CleanerSettings, CleanerStats, CleaningRound
from shim.log.cleaner.compaction import Dirtiness, dirtiness
from shim.log.cleaner.throttler import CleaningStopped, Throttler
from shim.log.disk.checkpoint import CLEANER_OFFSET_CHECKPOINT, read_cleaned, write_checkpoint
from shim.log.disk.files import Files
from shim.log.errors import CorruptLog, LogError
from shim.log.partition.partition import PartitionLog
from shim.log.segments.segment import Segment

_logger = logging.getLogger(__name__)


class LogToClean(NamedTuple):
    partition: PartitionLog
    segments: list[Segment]
    first_dirty_offset: int
    dirtiness: Dirtiness


class Cleaner:
    """Cleans these partitions of a data directory: those of compacted topics.

    One thread calls :meth:`step`; any thread may call :meth:`stop`.
    """

    def __init__(
        self,
        notes_folder: Path,
        partitions: Sequence[PartitionLog],
        settings: CleanerSettings | None = None,
        *,
        files: Files | None = None,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], object] | None = None,
    ) -> None:
        """``notes_folder``: where it is noted up to where they are clean. ``clock`` gives seconds; ``wait`` waits that
        many seconds, or less when the cleaner is stopped."""
        self._partitions = partitions
        self._settings = settings or CleanerSettings()
        self._files = files or Files()
        self._clock = clock
        self._stopped = Event()
        bytes_per_second = self._settings.io_max_bytes_per_second
        self._throttler = Throttler(bytes_per_second, self._stopped, clock, wait or self._stopped.wait)
        self._notes_folder = notes_folder
        self._first_dirty: dict[TopicPartition, int] | None = None
        # Partitions of which the rest waits for the end of a transaction, and where their closed segments ended then.
        self._undecided: dict[TopicPartition, int] = {}
        self._told: dict[TopicPartition, tuple[Producer, int]] = {}
        self.broke_off: dict[TopicPartition, OSError] = {}
        """Partitions of which the newest attempt failed, and why; the next step tries them again."""
        self.uncleanable: dict[TopicPartition, LogError] = {}
        """Partitions that are not cleaned any more, and why: what is damaged is left as it is."""

    def step(self, now_ms: int) -> CleanerStats | None:
        """Cleans the dirtiest partition of those that are dirtier than ``min_cleanable_ratio``. None when none was.

        ``now_ms``: milliseconds since the epoch, for delete horizons. A partition that fails is logged, and left: for
        good when its log is damaged, until the next step when a call failed. The next dirtiest has its turn then.
        Raises CleaningStopped.
        """
        for filthy in self._filthiest_first():
            partition = filthy.partition.topic_partition
            try:
                stats = self._clean(filthy, now_ms)
                if stats.end_offset > stats.first_dirty_offset:
                    self._undecided.pop(partition, None)
                    return stats
                if partition in self._undecided:  # for longer than it took to fill a segment
                    self._tell_that_it_waits(stats)
                self._undecided[partition] = filthy.segments[-1].next_offset
            except CleaningStopped:
                if self._stopped.is_set():
                    raise
                _logger.info("%s: cleaning broke off, the partition is being recovered", partition)
            except LogError as error:
                self._leave(partition, error)
            except OSError as error:
                self._break_off(partition, error)
        return None

    def take_settings(self, settings: CleanerSettings) -> None:
        """From any thread, for the next round; the rate for the one that is under way, too."""
        self._settings = settings
        self._throttler.take_rate(settings.io_max_bytes_per_second)

    def stop(self) -> None:
        """Makes a step that is under way break off within a few batches, and every further one at once."""
        self._stopped.set()

    # --- what to clean -----------------------------------------------------------------------------------------------

    def _filthiest_first(self) -> list[LogToClean]:
        first_dirty_offsets = self._first_dirty_offsets()
        found: list[LogToClean] = []
        for partition in self._partitions:
            if partition.topic_partition in self.uncleanable:
                continue
            try:
                segments = self._closed_segments(partition)
            except CorruptLog as error:  # a swap that broke off, and cannot be completed
                self._leave(partition.topic_partition, error)
                continue
            except LogError:  # not recovered: its turn will come
                continue
            except OSError as error:
                self._break_off(partition.topic_partition, error)
                continue
            first_dirty = first_dirty_offsets.get(partition.topic_partition, 0)
            if segments and self._undecided.get(partition.topic_partition) == segments[-1].next_offset:
                continue
            if segments and first_dirty > segments[-1].next_offset:
                _logger.warning(
                    "%s: cleaned up to offset %d, and its closed segments end at %d; all of them count as dirty",
                    *(partition.topic_partition, first_dirty, segments[-1].next_offset),
                )
                first_dirty = 0
            found.append(LogToClean(partition, segments, first_dirty, dirtiness(segments, first_dirty)))
        found = [filthy for filthy in found if filthy.dirtiness.ratio > self._settings.min_cleanable_ratio]
        return sorted(found, key=lambda filthy: filthy.dirtiness.ratio, reverse=True)

    def _tell_that_it_waits(self, stats: CleanerStats) -> None:
        if stats.waits_for is None or self._told.get(stats.partition) == stats.waits_for:
            return
        self._told[stats.partition] = stats.waits_for
        producer, offset = stats.waits_for
        _logger.warning(
            "%s is not cleaned from offset %d on, and grows, until the transaction of producer %d that begins there is "
            "ended",
            *(stats.partition, offset, producer.producer_id),
        )

    def _leave(self, partition: TopicPartition, error: LogError) -> None:
        self.uncleanable[partition] = error
        self.broke_off.pop(partition, None)
        _logger.error("%s is not cleaned any more: %s", partition, error)

    def _break_off(self, partition: TopicPartition, error: OSError) -> None:
        self.broke_off[partition] = error
        _logger.warning("%s: cleaning failed, it will be tried again: %s", partition, error)

    def _closed_segments(self, partition: PartitionLog) -> list[Segment]:
        segments = partition.closed_segments()
        if partition.topic_partition in self.broke_off:
            # A swap may have broken off midway. It is completed now: were it only before the next swap, what is listed
            # could not be read until then, and what had been cleaned by then would be removed as a left-over.
            partition.swap_segments((), lambda: None)
            del self.broke_off[partition.topic_partition]
            segments = partition.closed_segments()
        return segments

    def _first_dirty_offsets(self) -> dict[TopicPartition, int]:
        if self._first_dirty is None:
            self._first_dirty = read_cleaned(self._files, self._notes_folder)
        return self._first_dirty

    # --- one round ---------------------------------------------------------------------------------------------------

    def _clean(self, filthy: LogToClean, now_ms: int) -> CleanerStats:
        partition, segments, first_dirty, dirty = filthy
        begun = self._clock()
        # A partition cleaned as often as it should be has as much dirty as clean, or what one segment holds.
        self._throttler.hurry(dirty.dirty_bytes / (dirty.clean_bytes + self._settings.segment_bytes))
        stats = CleanerStats(partition.topic_partition, first_dirty, first_dirty, dirty.ratio)
        cleaning = CleaningRound(self._files, partition, segments, self._settings, self._throttler, stats, now_ms)
        stats.end_offset = cleaning.run(first_dirty)
        first_dirty_offsets = {**self._first_dirty_offsets(), partition.topic_partition: stats.end_offset}
        write_checkpoint(self._files, self._notes_folder / CLEANER_OFFSET_CHECKPOINT, first_dirty_offsets)
        self._first_dirty = first_dirty_offsets
        stats.seconds = self._clock() - begun
        return stats
