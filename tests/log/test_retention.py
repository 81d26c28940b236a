"""The delete policy: whole segments go when they are too old, and the log that is left is a sound one."""

from __future__ import annotations

import errno
import random
from pathlib import Path

import pytest

from shim.log import CorruptLog, LogSettings, OffsetsLog, PartitionWrite
from shim.log.cleaner.retention import Retention
from shim.log.cleaner.throttler import CleaningStopped
from shim.log.directory.handover import CLEAN_SHUTDOWN
from shim.log.disk.checkpoint import RECOVERY_POINT_CHECKPOINT
from shim.log.disk.files import Files
from tests.log.faulty_files import FaultyFiles
from tests.log.lost_files import LostFiles, PowerFailure
from tests.log.rolled import NOW, SMALL, append, closed, folder_of, opened, segment_of

KEPT_MS = 1_000
OLD = NOW - KEPT_MS


def offsets(log: OffsetsLog) -> list[int]:
    return [record.offset for record in log.recover(0)]


def aged(data_dir: Path, timestamps: list[int], files: Files | None = None) -> OffsetsLog:
    """A closed segment of one record for each, and one record more in the active one."""
    log = opened(data_dir, LogSettings(segment_bytes=1), files=files)
    for timestamp in (*timestamps, NOW):
        append(log, (b"key", b"value"), timestamp_ms=timestamp)
    assert len(closed(log)) == len(timestamps)
    return log


def retention(log: OffsetsLog, files: Files | None = None) -> Retention:
    return Retention(log.partition_logs(), KEPT_MS, files=files)


@pytest.mark.parametrize(
    ("timestamps", "left"),
    [
        ([OLD - 1, OLD - 1, NOW], [2, 3]),
        ([OLD - 1, OLD, OLD - 1], [1, 2, 3]),
        ([OLD, OLD - 1], [0, 1, 2]),
        ([OLD - 5, OLD - 9], [2]),
        ([], [0]),
    ],
)
def test_segments_go_from_the_oldest_on_up_to_the_first_that_is_not_too_old(
    tmp_path: Path, timestamps: list[int], left: list[int]
) -> None:
    log = aged(tmp_path, timestamps)
    drops = retention(log)
    assert drops.step(NOW) == len(timestamps) + 1 - len(left)
    assert drops.step(NOW) == 0
    assert [batch.records[0].offset for batch in log.partition_log(0).read() if batch.records] == left
    assert offsets(log) == left
    append(log, (b"goes on", b""))
    log.close()
    log = opened(tmp_path)
    assert offsets(log) == [*left, len(timestamps) + 1]
    log.close()


def test_what_is_left_of_them_does_not_grow(tmp_path: Path) -> None:
    log = aged(tmp_path, [OLD - 1] * 5)
    drops = retention(log)
    assert drops.step(NOW) == 5
    for later in range(1, 5):
        append(log, (b"key", b"value"), timestamp_ms=NOW + later * KEPT_MS)
        assert drops.step(NOW + (later + 1) * KEPT_MS - 1) == 1
        first, *others = closed(log)
        assert (first.base_offset, first.size, others) == (0, 61, [])
    assert sorted(path.suffix for path in folder_of(tmp_path).iterdir()) == [".log", ".log"]
    log.close()


def test_a_segment_counts_by_its_newest_record_wherever_that_is(tmp_path: Path) -> None:
    log = opened(tmp_path, SMALL)
    append(log, (b"key", b"value"), timestamp_ms=NOW)
    while not closed(log):
        append(log, (b"key", b"value"), timestamp_ms=OLD - 1)  # the clock was set back
    drops = retention(log)
    assert drops.step(NOW) == 0
    assert drops.step(NOW + KEPT_MS) == 0
    assert drops.step(NOW + KEPT_MS + 1) == 1
    log.close()


def names(data_dir: Path) -> list[str]:
    return sorted(path.name for path in folder_of(data_dir).glob("*.log*"))


def test_the_active_segment_goes_too_once_all_of_it_is_too_old(tmp_path: Path) -> None:
    log = opened(tmp_path, SMALL)
    append(log, (b"key", b"value"), timestamp_ms=NOW)
    append(log, (b"key", b"value"), timestamp_ms=OLD)
    drops = retention(log)

    def kept(now: int) -> int:
        drops.step(now)
        assert log.maintain(now).failed == {}
        drops.step(now)
        return sum(len(batch.records) for batch in log.partition_log(0).read())

    assert kept(NOW) == kept(NOW + KEPT_MS) == 2
    assert len(closed(log)) == 0
    assert kept(NOW + KEPT_MS + 1) == 0
    left = names(tmp_path)
    assert left == [f"{0:020}.log", f"{2:020}.log"]
    assert kept(NOW + 9 * KEPT_MS) == 0
    assert names(tmp_path) == left, "an empty one is not rolled"
    append(log, (b"key", b"value"), timestamp_ms=NOW + 9 * KEPT_MS)
    assert kept(NOW + 9 * KEPT_MS) == 1
    assert offsets(log) == [2]
    log.close()
    log = opened(tmp_path)
    assert offsets(log) == [2]
    log.close()


@pytest.mark.parametrize("timestamps", [[NOW], [OLD - 1, NOW]])
def test_nothing_is_rolled_behind_what_is_kept(tmp_path: Path, timestamps: list[int]) -> None:
    log = opened(tmp_path, LogSettings(segment_bytes=1))
    for timestamp in (*timestamps, OLD - 1):
        append(log, (b"key", b"value"), timestamp_ms=timestamp)
    drops = retention(log)
    for _ in range(2):
        drops.step(NOW)
        log.maintain(NOW)
    assert offsets(log)[-2:] == [len(timestamps) - 1, len(timestamps)]
    assert len(closed(log)) == len(timestamps)
    log.close()


def test_partitions_are_rolled_one_by_one(tmp_path: Path) -> None:
    log = OffsetsLog.open(tmp_path, 3)
    for number in range(3):
        assert list(log.recover(number)) == []
        assert log.write([PartitionWrite(number, [[(b"key", b"value")]], OLD - 1)]) == {}
    retention(log).step(NOW)
    now, waits = NOW, []
    for _ in range(4):
        done = log.maintain(now)
        waits.append(done.next_ms - now)
        now = done.next_ms
    assert waits[:2] == [100, 100]
    assert min(waits[2:]) > 10_000
    assert [len(log.partition_log(number).closed_segments()) for number in range(3)] == [1, 1, 1]
    log.close()


@pytest.mark.parametrize("method", ["create", "sync_directory"])
def test_a_roll_that_fails_is_not_repeated_before_the_next_write(tmp_path: Path, method: str) -> None:
    files = FaultyFiles()
    log = opened(tmp_path, SMALL, files=files)
    append(log, (b"key", b"value"), timestamp_ms=OLD - 1)
    drops = retention(log, files)
    drops.step(NOW)
    files.fail(method, errno.EIO)
    assert set(log.maintain(NOW).failed) == {0}
    files.heal()
    assert offsets(log) == [0]
    drops.step(NOW)
    assert log.maintain(NOW).failed == {}
    assert closed(log) == []
    append(log, (b"key", b"value"), timestamp_ms=OLD - 1)
    assert log.maintain(NOW).failed == {}
    assert drops.step(NOW) == 1
    assert offsets(log) == []
    log.close()
    assert not files.open_files


def test_a_segment_that_vanishes_with_the_first_write_in_it_is_missed(tmp_path: Path) -> None:
    log = opened(tmp_path, SMALL)
    append(log, (b"key", b"value"), timestamp_ms=OLD - 1)
    retention(log).step(NOW)
    log.maintain(NOW)
    append(log, (b"key", b"value"))
    noted = (tmp_path / RECOVERY_POINT_CHECKPOINT).read_bytes()
    log.close()
    (tmp_path / CLEAN_SHUTDOWN).unlink()
    (tmp_path / RECOVERY_POINT_CHECKPOINT).write_bytes(noted)
    segment_of(tmp_path, 1).unlink()
    with pytest.raises(CorruptLog, match="synced were 2"):
        opened(tmp_path)


def test_a_partition_that_is_not_recovered_has_its_turn_later(tmp_path: Path) -> None:
    aged(tmp_path, [OLD - 1]).close()
    log = OffsetsLog.open(tmp_path, 1)
    drops = retention(log)
    assert drops.step(NOW) == 0
    assert offsets(log) == [0, 1]
    assert drops.step(NOW) == 1
    log.close()


@pytest.mark.parametrize("method", ["create", "pwrite", "fdatasync", "rename", "sync_directory", "unlink"])
def test_what_fails_is_tried_again(tmp_path: Path, method: str, caplog: pytest.LogCaptureFixture) -> None:
    files = FaultyFiles()
    log = aged(tmp_path, [OLD - 1, OLD - 1], files)
    drops = retention(log, files)
    files.fail(method, errno.EIO)
    assert drops.step(NOW) == 0
    assert drops.step(NOW) == 0
    assert "it will be tried again" in caplog.text
    files.heal()
    drops.step(NOW)
    assert offsets(log) == [2]
    log.close()
    assert not files.open_files


def test_a_damaged_partition_is_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = aged(tmp_path, [OLD - 1, OLD - 1])
    path = closed(log)[0].path
    raw = bytearray(path.read_bytes())
    raw[40] ^= 1
    path.write_bytes(raw)
    drops = retention(log)
    assert [drops.step(NOW) for _ in range(3)] == [0, 0, 0]
    (line,) = caplog.messages
    assert "no old segments are dropped any more" in line
    assert path.read_bytes() == raw
    log.close()


def test_a_crash_at_any_call_leaves_the_log_before_or_after() -> None:
    data_dir = Path("/disk/data")
    crashes = 0
    for crash_at in range(400):
        for seed in range(8):
            files = LostFiles(rng=random.Random(seed))
            files.mkdir(Path("/disk"))
            files.sync_directory(Path("/"))
            log = OffsetsLog.open(data_dir, 1, settings=LogSettings(segment_bytes=1), files=files)
            list(log.recover(0))
            for timestamp in (OLD - 1, OLD - 1, OLD - 1, NOW, NOW):
                assert log.write([PartitionWrite(0, [[(b"key", b"value")]], timestamp)]) == {}
            begun = files.calls
            files.crash_at = begun + crash_at
            try:
                Retention(log.partition_logs(), KEPT_MS, files=files).step(NOW)
            except PowerFailure:
                crashes += 1
            else:
                assert crashes > 30
                return
            after = files.after_kill() if seed % 2 else files.after_power_failure()
            log = OffsetsLog.open(data_dir, 1, files=after)
            found = offsets(log)
            assert found in ([0, 1, 2, 3, 4], [3, 4])
            Retention(log.partition_logs(), KEPT_MS, files=after).step(NOW)
            assert offsets(log) == [3, 4]
            log.close()
    raise AssertionError("it never came to its end")


def test_a_crash_at_any_call_of_a_roll_and_what_follows_loses_nothing_new() -> None:
    """A loose flush policy: nothing has been synced when the segment is rolled."""
    data_dir = Path("/disk/data")
    settings = LogSettings(flush_interval_messages=100)
    for crash_at in range(400):
        for seed in range(8):
            files = LostFiles(rng=random.Random(seed))
            files.mkdir(Path("/disk"))
            files.sync_directory(Path("/"))
            log = OffsetsLog.open(data_dir, 1, settings=settings, files=files)
            list(log.recover(0))
            log.maintain(NOW)  # the checkpoint is not due again
            for _ in range(3):
                assert log.write([PartitionWrite(0, [[(b"key", b"value")]], OLD - 1)]) == {}
            drops = Retention(log.partition_logs(), KEPT_MS, files=files)
            drops.step(NOW)
            files.crash_at = files.calls + crash_at
            rolled = False
            try:
                log.maintain(NOW)
                rolled = True
                assert log.write([PartitionWrite(0, [[(b"key", b"value")]], NOW)]) == {}
                drops.step(NOW)
            except PowerFailure:
                pass
            else:
                assert crash_at > 15
                return
            killed = bool(seed % 2)
            after = files.after_kill() if killed else files.after_power_failure()
            log = OffsetsLog.open(data_dir, 1, files=after)
            found = offsets(log)
            assert found in ([], [0], [0, 1], [0, 1, 2], [0, 1, 2, 3], [3])
            assert log.log_end_offset(0) >= (3 if rolled or killed else 0)
            log.close()
    raise AssertionError("it never came to its end")


@pytest.mark.parametrize("batches", range(4))
def test_once_it_is_stopped_it_looks_at_no_further_batch(tmp_path: Path, batches: int) -> None:
    log = aged(tmp_path, [OLD - 1] * 3)
    before = closed(log)
    asked = 0

    def stopped() -> bool:
        nonlocal asked
        asked += 1
        return asked > batches

    with pytest.raises(CleaningStopped):
        Retention(log.partition_logs(), KEPT_MS, stopped=stopped).step(NOW)
    assert asked == batches + 1
    assert closed(log) == before
    assert retention(log).step(NOW) == 3
    log.close()
