"""What one process leaves to the next."""

from __future__ import annotations

import errno
import random
from pathlib import Path

import pytest

from protocol.own.history_log import HISTORY_TOPIC
from protocol.partition import OFFSETS_TOPIC
from shim.log import LogSettings, OffsetsLog, PartitionWrite
from shim.log.directory.handover import CLEAN_SHUTDOWN, LOOSE_FLUSH
from tests.log.lost_files import LostFiles, PowerFailure
from tests.log.rolled import NOW

LATE = LogSettings(flush_interval_messages=1_000)


def recovered(log: OffsetsLog, *partitions: int) -> None:
    for partition in partitions:
        for _ in log.recover(partition):
            pass


def commit(log: OffsetsLog, *partitions: int) -> None:
    assert log.write([PartitionWrite(partition, [[(b"key", b"value")]], NOW) for partition in partitions]) == {}


def test_that_flushes_came_late_is_known_until_every_partition_was_recovered(tmp_path: Path) -> None:
    """As long as one was not, several of its batches may have been on their way to the disk at once."""
    log = OffsetsLog.open(tmp_path, 2, settings=LATE)
    note = tmp_path / LOOSE_FLUSH
    assert note.exists()
    recovered(log, 0, 1)
    commit(log, 0, 1)
    log.close()
    now_ms = NOW
    for first, then in ((0, 1), (1, 0)):
        log = OffsetsLog.open(tmp_path, 2, settings=LATE)
        log.close()
        log = OffsetsLog.open(tmp_path, 2)
        recovered(log, first)
        commit(log, first)
        now_ms = log.maintain(now_ms).next_ms
        assert note.exists()
        recovered(log, then)
        log.maintain(now_ms)
        assert not note.exists()
        log.close()
    log = OffsetsLog.open(tmp_path, 2)
    assert not note.exists()
    log.close()


def two_topics(data_dir: Path, settings: LogSettings) -> None:
    log = OffsetsLog.open(data_dir, 1, topics=(OFFSETS_TOPIC, HISTORY_TOPIC), settings=settings)
    for topic in (OFFSETS_TOPIC, HISTORY_TOPIC):
        list(log.recover(0, topic=topic))
    log.close()


def test_that_flushes_came_late_stays_known_of_a_topic_that_was_not_opened(tmp_path: Path) -> None:
    two_topics(tmp_path, LATE)
    log = OffsetsLog.open(tmp_path, 1)
    recovered(log, 0)
    log.maintain(NOW)
    log.close()
    assert (tmp_path / LOOSE_FLUSH).exists()


@pytest.mark.parametrize("clean", [False, True])
def test_nothing_is_said_of_a_topic_that_was_not_opened(tmp_path: Path, clean: bool) -> None:
    two_topics(tmp_path, LogSettings())
    if not clean:
        (tmp_path / CLEAN_SHUTDOWN).unlink()
    log = OffsetsLog.open(tmp_path, 1)
    recovered(log, 0)
    commit(log, 0)
    log.close()
    assert (tmp_path / CLEAN_SHUTDOWN).exists() == clean


class NoSyncAtStart(LostFiles):
    fails = dies = False

    def unlink(self, path: Path) -> None:
        super().unlink(path)
        if self.fails and path.name == CLEAN_SHUTDOWN:
            self.error_in, self.errors = frozenset({"sync_directory"}), {self.calls: errno.EIO}

    def sync_directory(self, path: Path) -> None:
        try:
            super().sync_directory(path)
        except OSError:
            if self.dies:
                self.crash_at = self.calls
            raise


@pytest.mark.parametrize("dies", [False, True])
@pytest.mark.parametrize("settings", [None, LATE])
@pytest.mark.parametrize("seed", range(30))
def test_a_good_end_is_not_noted_any_more_where_a_start_could_not_sync_that(
    seed: int, settings: LogSettings | None, dies: bool
) -> None:
    """Beside that note the journal counts for nothing."""
    files = NoSyncAtStart(rng=random.Random(seed))
    data_dir = Path("/data")
    log = OffsetsLog.open(data_dir, 1, files=files)
    recovered(log, 0)
    commit(log, 0)
    log.close()
    assert log.ended_clean
    files.fails, files.dies = True, dies
    with pytest.raises(PowerFailure if dies else OSError):
        OffsetsLog.open(data_dir, 1, files=files, settings=settings)
    files = files.after_kill()
    assert files.exists(data_dir / LOOSE_FLUSH) == (dies and settings is LATE)
    log = OffsetsLog.open(data_dir, 1, files=files, settings=settings)
    recovered(log, 0)
    commit(log, 0)
    log = OffsetsLog.open(data_dir, 1, files=files.after_power_failure())
    assert log._handover._loose == (settings is LATE)
    assert len(list(log.recover(0))) == 2 or settings is LATE
    log.close()
