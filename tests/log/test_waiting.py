"""Records that wait in the journal for a batch of their own; crashes in between are in `test_crash.py`."""

from __future__ import annotations

import errno
import logging
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

import pytest

from protocol.records.batches import batches, decode_records
from shim.log import LogSettings, OffsetsLog, PartitionWrite, staging
from shim.log.journal import journal as journal_module
from shim.log.journal.journal import JOURNAL_NAME
from shim.log.journal.journal_records import read_entries
from shim.log.journal.waiting import MOST_BYTES, MOST_KEPT
from tests.log.faulty_files import FaultyFiles
from tests.log.runs import Pairs, may_wait
from tests.log.test_log import NOW, RecordSet, one, segment

PARTITIONS = 3


@pytest.fixture
def files() -> FaultyFiles:
    return FaultyFiles()


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def log(data_dir: Path, files: FaultyFiles) -> Iterator[OffsetsLog]:
    log = opened(data_dir, files)
    for partition in range(PARTITIONS):  # into an empty segment nothing waits
        assert wait(log, write(partition, one("first"))) == {}
        assert keys_in(data_dir, partition) == [b"first"]
    yield log
    files.heal()
    log.close()
    assert files.open_files == {}


def opened(data_dir: Path, files: FaultyFiles | None = None, settings: LogSettings | None = None) -> OffsetsLog:
    log = OffsetsLog.open(data_dir, PARTITIONS, files=files, settings=settings)
    for partition in range(PARTITIONS):
        list(log.recover(partition))
    return log


def write(partition: int, *record_sets: RecordSet, at_ms: int = NOW) -> PartitionWrite:
    return PartitionWrite(partition, list(record_sets), at_ms)


def wait(log: OffsetsLog, *writes: PartitionWrite, at_once: Sequence[PartitionWrite] = ()) -> dict[int, OSError]:
    """Of one topic and time."""
    ((topic, at_ms),) = {(write.topic, write.timestamp_ms) for write in writes}
    return log.write(
        at_once, may_wait(topic, at_ms, {write.partition: cast(list[Pairs], write.records) for write in writes})
    )


def keys_in(data_dir: Path, partition: int) -> list[bytes | None]:
    data = segment(data_dir, partition).read_bytes()
    return [record.key for position, _ in batches(data) for record in decode_records(data, position)]


def batches_in(data_dir: Path, partition: int) -> list[tuple[int, int, int]]:
    """Base offset, number of records and time."""
    found = batches(segment(data_dir, partition).read_bytes())
    return [(header.base_offset, header.record_count, header.base_timestamp) for _, header in found]


def recovered(data_dir: Path, partition: int = 0) -> list[bytes]:
    log = OffsetsLog.open(data_dir, PARTITIONS)
    try:
        return [record.key for record in log.recover(partition)]
    finally:
        log.close()


def after_a_crash(data_dir: Path, *, of_the_machine: bool) -> Path:
    """At worst: of the segments nothing but what the first write, which waited for nothing, has made durable."""
    target = data_dir.with_name(f"{data_dir.name}-crashed")
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(data_dir, target)
    if of_the_machine:
        for partition in range(PARTITIONS):
            segment(target, partition).write_bytes(b"")
    return target


def test_they_are_in_the_journal_and_become_one_batch(log: OffsetsLog, data_dir: Path, files: FaultyFiles) -> None:
    files.calls.clear()
    for number in range(3):
        assert wait(log, write(0, one(f"{number}"), one("more"), at_ms=NOW + number)) == {}
    journal = data_dir / JOURNAL_NAME
    assert files.calls == [("pwrite", journal), ("fdatasync", journal)] * 3, "no segment is touched"
    assert log.log_end_offset(0) == 1
    log.settle(0, topic="__consumer_offsets")
    assert log.log_end_offset(0) == 7
    assert batches_in(data_dir, 0) == [(0, 1, NOW), (1, 6, NOW)], "the time of the first of them is that of all"
    assert keys_in(data_dir, 0) == [b"first", b"0", b"more", b"1", b"more", b"2", b"more"]


@pytest.mark.parametrize("of_the_machine", [False, True])
@pytest.mark.parametrize("settled", [0, 1, 3, 4])
def test_a_crash_loses_none_and_doubles_none(
    log: OffsetsLog, data_dir: Path, settled: int, of_the_machine: bool
) -> None:
    """``settled``: after so many writes what waits is written."""
    for number in range(4):
        if number == settled:
            log.settle(0, topic="__consumer_offsets")
        assert wait(log, write(0, one(f"{number}")), write(1, one(f"{number}"))) == {}
    if settled == 4:
        log.settle(0, topic="__consumer_offsets")
    crashed = after_a_crash(data_dir, of_the_machine=of_the_machine)
    for partition in (0, 1, 0):  # a start more changes nothing
        assert recovered(crashed, partition) == [b"first", b"0", b"1", b"2", b"3"]


def test_what_is_written_at_once_comes_behind_what_waits(log: OffsetsLog, data_dir: Path) -> None:
    assert wait(log, write(0, one("waits"))) == {}
    assert log.write([write(0, one("at once"))]) == {}
    assert wait(log, write(0, one("waits again"))) == {}
    assert keys_in(data_dir, 0) == [b"first", b"waits", b"at once"]
    crashed = after_a_crash(data_dir, of_the_machine=True)
    assert recovered(crashed) == [b"first", b"waits", b"at once", b"waits again"]


def test_many_do_not_wait_for_long(log: OffsetsLog, data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "MOST_KEPT", 0)
    value = "v" * (MOST_BYTES // 4)
    for number in range(5):
        assert wait(log, write(0, one(f"{number}", value))) == {}
    assert batches_in(data_dir, 0) == [(0, 1, NOW), (1, 4, NOW), (5, 1, NOW)], "what comes then waits no more"
    assert wait(log, write(0, one("large", "v" * MOST_BYTES))) == {}
    assert batches_in(data_dir, 0) == [(0, 1, NOW), (1, 4, NOW), (5, 1, NOW), (6, 1, NOW)]
    assert wait(log, write(0, one("waits"))) == {}
    assert batches_in(data_dir, 0)[-1] == (6, 1, NOW)


def test_no_more_is_kept_back_of_one_partition_than_of_all(log: OffsetsLog, data_dir: Path) -> None:
    value = "v" * 1000
    for number in range(2 * (MOST_BYTES + MOST_KEPT) // 1000):
        assert wait(log, write(0, one(f"{number}", value))) == {}
    (_, first, *_) = batches_in(data_dir, 0)
    size = 1000 * first[1]
    assert MOST_BYTES < size < MOST_BYTES + MOST_KEPT
    log.settle(0, topic="__consumer_offsets")
    assert keys_in(data_dir, 0)[1:] == [b"%d" % number for number in range(2 * (MOST_BYTES + MOST_KEPT) // 1000)]


def test_they_are_written_after_a_second(log: OffsetsLog, data_dir: Path) -> None:
    assert settle_due_ms(log) is None
    log.maintain(NOW)
    assert wait(log, write(0, one("a"))) == {}
    assert wait(log, write(1, one("b"), at_ms=NOW + 700)) == {}
    assert wait(log, write(2, one("c"), at_ms=NOW + 400)) == {}
    assert settle_due_ms(log) == NOW + 1000
    assert log.maintain(NOW + 499).next_ms == NOW + 1000
    assert keys_in(data_dir, 0) == [b"first"]
    assert log.maintain(NOW + 1000).next_ms == NOW + 1700
    assert (keys_in(data_dir, 0), keys_in(data_dir, 1)) == ([b"first", b"a"], [b"first"])
    assert keys_in(data_dir, 2) == [b"first", b"c"], "it would be due soon"
    log.maintain(NOW + 1700)
    assert keys_in(data_dir, 1) == [b"first", b"b"]
    assert settle_due_ms(log) is None


def settle_due_ms(log: OffsetsLog) -> int | None:
    return log.settle_due_ms


def test_a_segment_that_is_to_be_rolled_is(data_dir: Path) -> None:
    log = opened(data_dir, settings=LogSettings(segment_bytes=200, roll_ms=1_000))
    wait(log, write(0, one("first")))
    for number in range(40):
        assert wait(log, write(0, one(f"{number}"), at_ms=NOW + number)) == {}
    log.settle(0, topic="__consumer_offsets")
    segments = log.partition_log(0).closed_segments()
    assert len(segments) > 1
    assert all(closed.size <= 200 for closed in segments)
    wait(log, write(1, one("first")))
    assert wait(log, write(1, one("late"), at_ms=NOW + 2_000)) == {}
    assert len(log.partition_log(1).closed_segments()) == 1, "too old"
    wait(log, write(1, one("more"), at_ms=NOW + 2_001))
    log.partition_log(1).roll(NOW + 2_002)
    log.close()
    assert recovered(data_dir) == [b"first", *(b"%d" % number for number in range(40))]
    assert recovered(data_dir, 1) == [b"first", b"late", b"more"]


def test_a_partition_that_is_read_back_has_them(log: OffsetsLog) -> None:
    assert wait(log, write(0, one("a"))) == {}
    assert [record.key for record in log.recover(0)] == [b"first", b"a"]
    assert wait(log, write(0, one("b"))) == {}
    assert [record.key for record in log.recover(0)] == [b"first", b"a", b"b"]


# --- the disk --------------------------------------------------------------------------------------------------------


def test_a_full_disk_takes_nothing_that_waits(
    log: OffsetsLog, data_dir: Path, files: FaultyFiles, caplog: pytest.LogCaptureFixture
) -> None:
    assert wait(log, write(0, one("a"))) == {}
    files.fail("pwrite", errno.ENOSPC, "__consumer_offsets-0")
    for late in (2_000, 4_000):
        assert log.maintain(NOW + late).failed == {}, "a chore throws no partition away"
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert len(told) == 1
    assert "__consumer_offsets-0: what waits cannot be written" in told[0]
    with pytest.raises(OSError, match="No space left"):
        log.settle(0, topic="__consumer_offsets")
    assert wait(log, write(0, one("b")), write(1, one("b"))) == {}, "the journal takes it"
    assert [record.key for record in log.recover(0)] == [b"first"]
    failed = log.write([write(0, one("at once"))])
    assert list(failed) == [0]
    assert recovered(after_a_crash(data_dir, of_the_machine=False)) == [b"first", b"a", b"b"]
    files.heal()
    list(log.recover(0))
    log.maintain(NOW + 6_000)
    assert keys_in(data_dir, 0) == [b"first", b"a", b"b"]


def test_a_journal_that_begins_anew_has_what_still_waits(
    log: OffsetsLog, data_dir: Path, files: FaultyFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert wait(log, write(0, one("a")), write(1, one("a"))) == {}
    files.fail("pwrite", errno.ENOSPC, "__consumer_offsets-0")
    monkeypatch.setattr(journal_module, "FULL_BYTES", 1)
    assert log.maintain(NOW).failed == {}
    journal = data_dir / JOURNAL_NAME
    assert list(read_entries(journal, journal.read_bytes())) == []
    crashed = after_a_crash(data_dir, of_the_machine=False)
    assert recovered(crashed) == [b"first", b"a"]
    assert recovered(crashed, 1) == [b"first", b"a"]
    assert wait(log, write(0, one("b"))) == {}
    assert recovered(after_a_crash(data_dir, of_the_machine=False)) == [b"first", b"a", b"b"]


def test_a_stop_that_cannot_write_them_leaves_them_to_the_next_start(
    log: OffsetsLog, data_dir: Path, files: FaultyFiles
) -> None:
    assert wait(log, write(0, one("a"))) == {}
    files.fail("pwrite", errno.ENOSPC, "__consumer_offsets-0")
    log.close()
    assert not log.ended_clean
    assert recovered(data_dir) == [b"first", b"a"]


@pytest.mark.parametrize("is_found", [False, True])
def test_where_the_journal_fails_they_are_written_to_the_segments(
    log: OffsetsLog, data_dir: Path, files: FaultyFiles, is_found: bool
) -> None:
    """``is_found``: whether the record of the journal that has failed is there after all."""
    assert wait(log, write(0, one("a"))) == {}
    before = (data_dir / JOURNAL_NAME).read_bytes()
    files.fail("fdatasync", errno.EIO, JOURNAL_NAME)
    assert wait(log, write(0, one("b"))) == {}
    assert keys_in(data_dir, 0) == [b"first", b"a", b"b"]
    crashed = after_a_crash(data_dir, of_the_machine=False)
    if not is_found:
        (crashed / JOURNAL_NAME).write_bytes(before)
    assert recovered(crashed) == [b"first", b"a", b"b"]


@pytest.mark.parametrize("unreadable", ["batch", "behind it"])
@pytest.mark.parametrize("is_journaled", [True, False], ids=["the journal goes on", "nothing was journaled since"])
def test_what_cannot_be_read_for_now_and_has_more_than_the_journal_is_left(
    log: OffsetsLog, data_dir: Path, files: FaultyFiles, unreadable: str, is_journaled: bool
) -> None:
    """Less in its place would leave bytes of it in front of what follows."""
    assert wait(log, write(0, one("a"))) == {}
    before = (data_dir / JOURNAL_NAME).read_bytes()
    files.fail("fdatasync", errno.EIO, JOURNAL_NAME)
    assert wait(log, write(0, one("b"))) == {}
    if is_journaled:
        files.heal()
    end = segment(data_dir, 0).stat().st_size
    assert wait(log, write(0, one("c"))) == {}
    files.heal()
    crashed = after_a_crash(data_dir, of_the_machine=False)
    if not is_journaled:
        (crashed / JOURNAL_NAME).write_bytes(before)
    with segment(crashed, 0).open("ab") as file:
        file.write(bytes(200))  # as a size may come to the disk before the data
    unreadable_files = BadSector(segment(crashed, 0), end - 10 if unreadable == "batch" else end + 10)
    log_again = OffsetsLog.open(crashed, PARTITIONS, files=unreadable_files)
    assert unreadable_files.was_met == (unreadable == "batch" or is_journaled)
    unreadable_files.at = None
    assert [record.key for record in log_again.recover(0)] == [b"first", b"a", b"b", b"c"]
    log_again.close()


def test_nor_is_it_written_over_while_the_log_is_known_to_be_longer(
    log: OffsetsLog, data_dir: Path, files: FaultyFiles
) -> None:
    """A partition is read back, as a sync has failed, and nothing came behind what the journal did not take."""
    assert wait(log, write(0, one("a"))) == {}
    files.fail("fdatasync", errno.EIO, JOURNAL_NAME)
    assert wait(log, write(0, one("b"))) == {}
    files.heal()
    partition = log.partition_log(0)
    files.fail("fdatasync", errno.EIO, segment(data_dir, 0).name)
    with pytest.raises(OSError, match="Input/output"):
        partition.sync()
    files.heal()
    files.fail("pread", errno.EIO, segment(data_dir, 0).name)
    with pytest.raises(OSError, match="Input/output"):
        list(log.recover(0))
    files.heal()
    assert [record.key for record in log.recover(0)] == [b"first", b"a", b"b"]


class BadSector(FaultyFiles):
    """The byte ``at`` of a file cannot be read."""

    def __init__(self, path: Path, at: int) -> None:
        super().__init__()
        self.path = path
        self.at: int | None = at
        self.was_met = False

    def pread(self, fd: int, size: int, position: int) -> bytes:
        if self.at is not None and self.open_files[fd] == self.path and position <= self.at < position + size:
            self.was_met = True
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(self.path))
        return super().pread(fd, size, position)


@pytest.mark.parametrize("method", ["pwrite", "fdatasync"])
def test_where_nothing_takes_them_they_are_refused(
    log: OffsetsLog, data_dir: Path, files: FaultyFiles, method: str
) -> None:
    assert wait(log, write(0, one("a"))) == {}
    files.fail(method, errno.EIO)
    assert list(wait(log, write(0, one("b")))) == [0]
    files.heal()
    assert [record.key for record in log.recover(0)] in ([b"first"], [b"first", b"a"])
    assert wait(log, write(0, one("c"))) == {}
    assert recovered(after_a_crash(data_dir, of_the_machine=True)) == [b"first", b"a", b"c"]


def test_another_topic_that_fails_takes_what_was_staged_with_it(data_dir: Path, files: FaultyFiles) -> None:
    log = OffsetsLog.open(data_dir, 1, topics=("__consumer_offsets", "history"), files=files)
    for topic in ("history", "__consumer_offsets"):
        list(log.recover(0, topic=topic))
    assert wait(log, write(0, one("1"))._replace(topic="history"), at_once=[write(0, one("1"))]) == {}
    files.fail("pwrite", errno.EIO, "__consumer_offsets-0")
    assert list(wait(log, write(0, one("2"))._replace(topic="history"), at_once=[write(0, one("2"))])) == [0]
    files.heal()
    for topic in ("history", "__consumer_offsets"):
        assert [record.key for record in log.recover(0, topic=topic)] == [b"1"]
    log.close()
