"""The thread that keeps the log small: compaction of offsets and state, and an end for the history that is too old."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from protocol.own.history_log import HISTORY_TOPIC
from protocol.own.state_log import STATE_TOPIC
from protocol.partition import OFFSETS_TOPIC
from shim.config import Settings
from shim.counted import counted
from shim.log import OffsetsLog
from shim.log.cleaner.cleaner import Cleaner
from shim.log.cleaner.cleaning import CleanerSettings, CleanerStats
from shim.log.cleaner.retention import Retention
from shim.log.cleaner.throttler import CleaningStopped
from shim.log.disk.files import Files
from shim.metrics import CleaningCounts
from shim.runtime.clock import Clock

log = logging.getLogger(__name__)

_MINUTE_MS: Final = 60_000
_MOST_SECONDS: Final = 7 * 24 * 3600.0  # what a wait may be given


class CleaningThread:
    """Whatever goes wrong in it is logged, and tried again after ``log.cleaner.backoff.ms``; nobody else notices."""

    def __init__(
        self,
        offsets_log: OffsetsLog,
        settings: Settings,
        clock: Clock,
        files: Files,
        cleaned: Callable[[CleanerStats], None],
    ) -> None:
        """``cleaned`` is called from the thread, after each round of compaction."""
        self.counts = CleaningCounts()
        partitions = offsets_log.partition_logs()
        self._cleaner = None
        if settings.log_cleaner_enable:
            self._cleaner = Cleaner(
                offsets_log.notes_folder,
                [
                    partition
                    for partition in partitions
                    if partition.topic_partition.topic in (OFFSETS_TOPIC, STATE_TOPIC)
                ],
                CleanerSettings.of(settings),
                files=files,
            )
        self._stopped = threading.Event()
        self._retention = Retention(
            [partition for partition in partitions if partition.topic_partition.topic == HISTORY_TOPIC],
            settings.offsets_history_retention_minutes * _MINUTE_MS,
            files=files,
            stopped=self._stopped.is_set,
        )
        self._backoff_s = _backoff_s(settings)
        self._woken = threading.Event()
        self._clock = clock
        self._cleaned = cleaned
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        if not self._stopped.is_set():
            self._thread = threading.Thread(target=self._run, name="log-cleaner")
            self._thread.start()

    def take_settings(self, settings: Settings) -> None:
        """From the event loop. Whether there is anything to clean is looked at at once."""
        if self._cleaner is not None:
            self._cleaner.take_settings(CleanerSettings.of(settings))
        self._backoff_s = _backoff_s(settings)
        self._woken.set()

    def stop(self) -> None:
        """It ends at the next batch."""
        self._stopped.set()
        self._woken.set()
        if self._cleaner is not None:
            self._cleaner.stop()

    def join(self) -> None:
        """Wait, after :meth:`stop`, until it has ended."""
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            self._clean()
        except CleaningStopped:
            return

    def _clean(self) -> None:
        retention_due = time.monotonic()
        while not self._stopped.is_set():
            compacted = self._tried(self._compact)
            # However much there is to compact: the history has to end somewhere, too.
            if not compacted or time.monotonic() >= retention_due:
                self._tried(self._drop_old)
                retention_due = time.monotonic() + self._backoff_s
            if not compacted:
                self._woken.wait(self._backoff_s)
                if not self._stopped.is_set():
                    self._woken.clear()

    def _tried(self, work: Callable[[], bool]) -> bool:
        """Raises CleaningStopped."""
        try:
            return work()
        except CleaningStopped:
            raise
        except Exception as error:
            unforeseen = None if isinstance(error, OSError) else error
            log.error("cleaning failed, it will be tried again: %s", error, exc_info=unforeseen)
            return False

    def _compact(self) -> bool:
        stats = self._cleaner.step(self._clock.now()) if self._cleaner is not None else None
        if stats is not None:
            _tell(stats)
            self._count(stats)
            self._cleaned(stats)
        return stats is not None

    def _count(self, stats: CleanerStats) -> None:
        counts = self.counts
        counts.rounds += 1
        counts.seconds += stats.seconds
        counts.records_read += stats.records_read
        counts.records_written += stats.records_written
        counts.bytes_read += stats.bytes_read
        counts.bytes_written += stats.bytes_written

    def _drop_old(self) -> bool:
        return self._retention.step(self._clock.surely_past()) > 0


def _backoff_s(settings: Settings) -> float:
    return min(settings.log_cleaner_backoff_ms / 1000, _MOST_SECONDS)


def _tell(stats: CleanerStats) -> None:
    log.info(
        "%s: compacted offsets %d to %d in %.1f s, %d of %s left, %d MiB read, %d MiB written",
        *(stats.partition, stats.first_dirty_offset, stats.end_offset, stats.seconds),
        *(
            stats.records_written,
            counted(stats.records_read, "record"),
            stats.bytes_read >> 20,
            stats.bytes_written >> 20,
        ),
    )
