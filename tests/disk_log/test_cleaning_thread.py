"""The cleaning thread: both kinds of cleaning have their turn."""

from __future__ import annotations

import errno
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from protocol.partition import OFFSETS_TOPIC
from protocol.topic_partition import TopicPartition
from shim.config import Settings
from shim.disk_log import open_log
from shim.disk_log.cleaning_thread import CleaningThread
from shim.log.cleaner.cleaner import Cleaner
from shim.log.cleaner.cleaning import CleanerStats
from shim.log.cleaner.retention import Retention
from shim.log.cleaner.throttler import CleaningStopped
from shim.log.disk.files import Files
from shim.runtime import Clock
from tests.runtime.test_offsets_retention import YEAR_MS, SetForward

WAIT_SECONDS = 60.0
STATS = CleanerStats(TopicPartition(OFFSETS_TOPIC, 0), 0, 1, 1.0)


@pytest.mark.parametrize("failing", [False, True], ids=["never at an end", "failing"])
def test_history_ends_whatever_there_is_to_compact(
    tmp_path: Path, failing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    compacted = 0
    dropped = threading.Semaphore(0)

    def step(cleaner: Cleaner, now_ms: int) -> CleanerStats:
        nonlocal compacted
        compacted += 1
        if failing:
            raise OSError(errno.EIO, "Input/output error")
        return STATS

    def drop(retention: Retention, now_ms: int) -> int:
        dropped.release()
        return 0

    monkeypatch.setattr(Cleaner, "step", step)
    monkeypatch.setattr(Retention, "step", drop)
    settings = Settings(offsets_topic_num_partitions=1, log_cleaner_backoff_ms=5)
    log = open_log(tmp_path, settings)
    thread = CleaningThread(log, settings, Clock(), Files(), lambda stats: None)
    thread.start()
    try:
        for _ in range(3):
            assert dropped.acquire(timeout=WAIT_SECONDS)
    finally:
        thread.stop()
        thread.join()
        log.close()
    assert compacted > 1


def test_a_stop_amid_compaction_looks_at_no_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compacting = threading.Event()
    dropped = 0

    def step(cleaner: Cleaner, now_ms: int) -> CleanerStats:
        compacting.set()
        assert cleaner._stopped.wait(WAIT_SECONDS)
        raise CleaningStopped

    def drop(retention: Retention, now_ms: int) -> int:
        nonlocal dropped
        dropped += 1
        return 0

    monkeypatch.setattr(Cleaner, "step", step)
    monkeypatch.setattr(Retention, "step", drop)
    settings = Settings(offsets_topic_num_partitions=1)
    log = open_log(tmp_path, settings)
    thread = CleaningThread(log, settings, Clock(), Files(), lambda stats: None)
    thread.start()
    assert compacting.wait(WAIT_SECONDS)
    thread.stop()
    thread.join()
    log.close()
    assert dropped == 0


def test_a_clock_that_was_wrong_at_the_start_ends_no_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine may ask for the time only when the shim has been started."""
    looked_at: list[int] = []
    looked = threading.Event()

    def drop(retention: Retention, now_ms: int) -> int:
        looked_at.append(now_ms)
        looked.set()
        return 0

    monkeypatch.setattr(Retention, "step", drop)
    settings = Settings(offsets_topic_num_partitions=1)
    log = open_log(tmp_path, settings)
    thread = CleaningThread(log, settings, SetForward(YEAR_MS), Files(), lambda stats: None)
    thread.start()
    try:
        assert looked.wait(WAIT_SECONDS)
    finally:
        thread.stop()
        thread.join()
        log.close()
    assert looked_at[0] <= Clock().surely_past()


def test_other_settings_wake_it_and_hold_for_the_next_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked = threading.Semaphore(0)
    ratios: list[float] = []

    def step(cleaner: Cleaner, now_ms: int) -> None:
        ratios.append(cleaner._settings.min_cleanable_ratio)
        looked.release()

    monkeypatch.setattr(Cleaner, "step", step)
    settings = Settings(offsets_topic_num_partitions=1, log_cleaner_backoff_ms=2**62)
    log = open_log(tmp_path, settings)
    thread = CleaningThread(log, settings, Clock(), Files(), lambda stats: None)
    thread.start()
    try:
        assert looked.acquire(timeout=WAIT_SECONDS)
        thread.take_settings(replace(settings, log_cleaner_min_cleanable_ratio=0.25))
        assert looked.acquire(timeout=WAIT_SECONDS)
    finally:
        thread.stop()
        thread.join()
        log.close()
    assert ratios == [0.5, 0.25]
