"""`log backup`: a data directory like the one that it was made of, whatever goes on meanwhile."""

from __future__ import annotations

import errno
import threading
from functools import partial
from pathlib import Path

import pytest

from protocol.own.history_log import HISTORY_TOPIC
from protocol.partition import OFFSETS_TOPIC, partition_for
from shim.admin.at_rest.backing_up import back_up
from shim.admin.files_to_read import FilesToRead
from shim.log import LogSettings, OffsetsLog, PartitionWrite
from shim.log.cleaner.cleaner import Cleaner
from shim.log.cleaner.cleaning import CleanerSettings
from shim.log.disk.files import Files, _naming
from shim.log.disk.names import STAND_IN
from tests.admin.running import SILENT, TIMESTAMP, commit_record, log, log_in_a_process, served, write_log
from tests.log.faulty_files import FaultyFiles
from tests.log.mortal_files import Killed, MortalFiles
from tests.log.runs import may_wait
from tests.waiting import wait_until

SMALL = LogSettings(segment_bytes=1000)
ALWAYS = CleanerSettings(min_cleanable_ratio=0.0)


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    write_log(path, [("g", commit_record("g", f"topic-{n % 5}", 0, n)) for n in range(60)], settings=SMALL)
    return path


def contents(data_dir: Path) -> dict[Path, bytes]:
    return {path.relative_to(data_dir): path.read_bytes() for path in sorted(data_dir.rglob("*")) if path.is_file()}


def opened(data_dir: Path, files: Files | None = None) -> OffsetsLog:
    offsets_log = OffsetsLog.open(data_dir, 1, settings=SMALL, files=files)
    assert all(offsets_log.recover(0))
    return offsets_log


def commit(offsets_log: OffsetsLog, offset: int) -> bool:
    record = commit_record("g", f"topic-{offset % 5}", 0, offset)
    return not offsets_log.write([PartitionWrite(0, [[record]], TIMESTAMP)])


def test_it_holds_the_same_and_stays_as_it_is(data_dir: Path, tmp_path: Path) -> None:
    target = tmp_path / "backup"
    result = log("backup", "--data-dir", data_dir, target, "--json")
    assert result.status == 0, result.stderr
    (partition,) = result.json["partitions"]
    assert partition["linked"] > 3
    assert (partition["copied"], partition["records"], partition["end_offset"]) == (1, 60, 60)
    assert served(target) == served(data_dir)
    assert log("verify", "--data-dir", target, "--json").json["clean_shutdown"] is True

    before = contents(target)
    offsets_log = opened(data_dir)
    for offset in range(60, 90):
        assert commit(offsets_log, offset)
    assert Cleaner(data_dir, offsets_log.partition_logs(), ALWAYS).step(TIMESTAMP) is not None
    offsets_log.close()
    assert contents(target) == before
    before = contents(data_dir)
    offsets_log = opened(target)
    for offset in range(1000, 1030):
        assert commit(offsets_log, offset)
    assert Cleaner(target, offsets_log.partition_logs(), ALWAYS).step(TIMESTAMP) is not None
    offsets_log.close()
    assert contents(data_dir) == before


def test_where_there_is_something_nothing_is_done(data_dir: Path, tmp_path: Path) -> None:
    target = tmp_path / "backup"
    target.mkdir()
    result = log_in_a_process("backup", "--data-dir", data_dir, target)
    assert result.status == 2
    assert result.stderr == f"Error: {target} is there already: name a folder that is not, or take that one away\n"
    assert list(target.iterdir()) == []


@pytest.mark.parametrize("target", ["data/backup", "data/__consumer_offsets-0/backup", "link/backup", "data", "."])
def test_neither_is_inside_of_the_other(data_dir: Path, tmp_path: Path, target: str) -> None:
    (tmp_path / "link").symlink_to(data_dir)
    before = contents(tmp_path)
    result = log_in_a_process("backup", "--data-dir", data_dir, tmp_path / target)
    assert result.status == 2
    assert result.stderr == (
        f"Error: {tmp_path / target} and the data directory {data_dir} must be apart, neither inside of the other\n"
    )
    assert contents(tmp_path) == before


def test_beside_a_name_that_begins_likewise(data_dir: Path) -> None:
    assert log("backup", "--data-dir", data_dir, data_dir.with_name("data-backup")).status == 0


def test_a_full_disk_is_named(data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")  # as the system does: it knows no name

    monkeypatch.setattr("shim.log.disk.files._pwrite", _naming(refuse))
    result = log("backup", "--data-dir", data_dir, tmp_path / "backup")
    assert result.status == 2
    copied = max(data_dir.glob("*/*.log")).relative_to(data_dir)
    assert result.stderr == f"Error: {tmp_path / 'backup.unfinished' / copied}: No space left on device\n"
    assert {path.name for path in tmp_path.iterdir()} == {"data"}


def test_empty_partitions_are_counted_alone(tmp_path: Path) -> None:
    data_dir, target = tmp_path / "data", tmp_path / "backup"
    write_log(data_dir, [("g", commit_record("g", "t", 0, 7))], partitions=5)
    heading, partition, empty, total = log("backup", "--data-dir", data_dir, target).stdout.splitlines()
    assert heading.startswith("PARTITION")
    assert partition.startswith(f"__consumer_offsets-{partition_for('g', 5)} ")
    assert empty == "4 empty partitions"
    assert total.startswith("5 partitions, ")
    document = log("backup", "--data-dir", data_dir, tmp_path / "another", "--json").json
    assert [each["records"] for each in document["partitions"]].count(0) == 4


def test_of_an_empty_log(tmp_path: Path) -> None:
    write_log(tmp_path / "data", [], partitions=3)
    empty, total = log("backup", "--data-dir", tmp_path / "data", tmp_path / "backup").stdout.splitlines()
    assert (empty, total.split(",")[0]) == ("3 empty partitions", "3 partitions")


def test_a_damaged_log_is_not_backed_up(data_dir: Path, tmp_path: Path) -> None:
    closed = sorted(data_dir.glob("*/*.log"))[1]
    raw = bytearray(closed.read_bytes())
    raw[100] ^= 1
    closed.write_bytes(raw)
    result = log("backup", "--data-dir", data_dir, tmp_path / "backup")
    assert result.status == 1
    assert f"{closed.name} is damaged at byte" in result.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"data"}


def test_a_disk_without_links(data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_self: Path, _target: Path) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    (partition,) = log("backup", "--data-dir", data_dir, tmp_path / "backup", "--json").json["partitions"]
    assert partition["linked"] == 0
    assert served(tmp_path / "backup") == served(data_dir)


def test_beside_commits_and_compaction(data_dir: Path, tmp_path: Path) -> None:
    """The newest offset of the topic that is committed to last is never older than what had been acknowledged."""
    offsets_log = opened(data_dir)
    acknowledged = 59
    stop = threading.Event()
    failures: list[BaseException] = []

    def write() -> None:
        nonlocal acknowledged
        try:
            while not stop.is_set():
                assert commit(offsets_log, acknowledged + 1)
                acknowledged += 1
        except BaseException as failure:
            failures.append(failure)

    def clean() -> None:
        try:
            cleaner = Cleaner(data_dir, offsets_log.partition_logs(), ALWAYS)
            while not stop.is_set():
                cleaner.step(TIMESTAMP)
                stop.wait(0.02)
        except BaseException as failure:
            failures.append(failure)

    def more_than(count: int) -> bool:
        return bool(failures) or acknowledged > count

    threads = [threading.Thread(target=write), threading.Thread(target=clean)]
    for thread in threads:
        thread.start()
    try:
        for number in range(8):
            before = acknowledged
            target = tmp_path / f"backup-{number}"
            done, examination = back_up(Files(), data_dir, target, SILENT)
            assert [one.partition.partition for one in done] == [0]
            assert examination.all_damages == []
            (committed,) = served(target).values()
            assert max(its.offset for its in committed.values()) >= before
            assert len(committed) == 5
            wait_until(partial(more_than, before + 5), "nothing is committed any more")
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        offsets_log.close()
    assert failures == []
    assert acknowledged > 100


def test_no_commit_is_in_the_history_alone(tmp_path: Path) -> None:
    """A commit is written to its offsets first: one that arrives between the two copies."""
    data_dir, target = tmp_path / "data", tmp_path / "backup"
    topics = (OFFSETS_TOPIC, HISTORY_TOPIC)
    offsets_log = OffsetsLog.open(data_dir, 1, topics=topics)
    for topic in topics:
        assert list(offsets_log.recover(0, topic=topic)) == []

    def commit_to_both(offset: int) -> None:
        at_once = [PartitionWrite(0, [[commit_record("g", "t", 0, offset)]], TIMESTAMP, topic) for topic in topics]
        assert offsets_log.write(at_once) == {}

    class Between(Files):
        folders = 0

        def mkdir(self, path: Path) -> None:
            super().mkdir(path)
            self.folders += path.parent.name == "backup.unfinished"
            if self.folders == 2:
                commit_to_both(2)

    commit_to_both(1)
    done, examination = back_up(Between(), data_dir, target, SILENT)
    offsets_log.close()
    assert [one.partition.topic for one in done] == list(topics)
    assert {each.partition.topic: each.records for each in examination.partitions} == {
        OFFSETS_TOPIC: 2,
        HISTORY_TOPIC: 1,
    }


@pytest.mark.parametrize("is_settled", [False, True])
def test_history_that_waits_in_the_journal_of_a_running_shim_is_in_it(tmp_path: Path, is_settled: bool) -> None:
    """``is_settled``: it comes to its segment, with more, while the backup is made."""
    data_dir, target = tmp_path / "data", tmp_path / "backup"
    offsets_log = OffsetsLog.open(data_dir, 1, topics=(OFFSETS_TOPIC, HISTORY_TOPIC))
    for topic in (OFFSETS_TOPIC, HISTORY_TOPIC):
        assert list(offsets_log.recover(0, topic=topic)) == []

    def commit_both(number: int) -> None:
        record = commit_record("g", "topic", 0, number)
        history = may_wait(HISTORY_TOPIC, TIMESTAMP, {0: [[record]]})
        assert offsets_log.write([PartitionWrite(0, [[record]], TIMESTAMP)], history) == {}

    for number in range(4):
        commit_both(number)

    class Meanwhile(Files):
        def mkdir(self, path: Path) -> None:
            if is_settled and path.name == f"{HISTORY_TOPIC}-0":
                commit_both(4)
                offsets_log.settle(0, topic=HISTORY_TOPIC)
            super().mkdir(path)

    back_up(Meanwhile(), data_dir, target, SILENT)
    copy = OffsetsLog.open(target, 1, topics=(OFFSETS_TOPIC, HISTORY_TOPIC))
    for topic in (HISTORY_TOPIC, OFFSETS_TOPIC):
        found = list(copy.recover(0, topic=topic))
        assert [record.offset for record in found] == list(range(5 if is_settled else 4))
    copy.close()
    offsets_log.close()


def test_a_segment_that_goes_between_listing_and_copying(data_dir: Path, tmp_path: Path) -> None:
    """Merged with the one before it, by a compaction: the partition is copied once more."""

    class Merging(FilesToRead):
        merged: Path | None = None

        def names(self, directory: Path) -> list[str]:
            found = super().names(directory)
            if self.merged is None and any(name.endswith(".log") for name in found):
                self.merged = directory / "00000000000000000001.log"
                return sorted([*found, self.merged.name])
            return found

    files = Merging()
    back_up(Files(), data_dir, tmp_path / "backup", SILENT, files)
    assert files.merged is not None
    assert served(tmp_path / "backup") == served(data_dir)


def test_a_roll_that_is_taken_back_does_not_change_a_backup(data_dir: Path, tmp_path: Path) -> None:
    """The segment that it closed is written to again."""
    files = FaultyFiles()
    offsets_log = opened(data_dir, files)
    offset = 60
    while len(offsets_log.partition_log(0).closed_segments()) < 8:
        assert commit(offsets_log, offset)
        offset += 1
    target = tmp_path / "backup"

    def back_up_and_fail(path: Path) -> None:
        if path.suffix != ".log":
            return
        files.heal()
        back_up(Files(), data_dir, target, SILENT)
        raise OSError(errno.EIO, "Input/output error", str(path))

    newest = max(data_dir.glob("*/*.log"))
    while max(data_dir.glob("*/*.log")) == newest:  # up to the write that rolls
        files.faults["create"] = lambda path: files.faults.update(
            {"pwrite": back_up_and_fail} if path.suffix == ".log" else {}
        )
        if not commit(offsets_log, offset):
            break
        offset += 1
    assert target.exists()
    before = contents(target)
    assert all(offsets_log.recover(0))
    assert max(data_dir.glob("*/*.log")) == newest
    assert commit(offsets_log, 10_000)
    offsets_log.close()
    assert contents(target) == before
    assert (target / "__consumer_offsets-0" / newest.name).stat().st_ino != newest.stat().st_ino
    assert log("verify", "--data-dir", target).status == 0


def test_a_compaction_that_broke_off_is_completed_in_the_copy(data_dir: Path, tmp_path: Path) -> None:
    before = served(data_dir)
    files = MortalFiles()
    offsets_log = opened(data_dir, files)
    files.dies_after_rename = True
    with pytest.raises(Killed):
        Cleaner(data_dir, offsets_log.partition_logs(), ALWAYS, files=files).step(TIMESTAMP)
    assert list(data_dir.glob("*/*.swap"))
    files.at = 1 << 30
    files.dies_after_rename = False
    assert log("backup", "--data-dir", data_dir, tmp_path / "backup").status == 0
    assert not list(tmp_path.glob("backup/*/*.swap"))
    assert served(tmp_path / "backup") == before
    offsets_log.close()


@pytest.mark.parametrize("gap", [0, 7])
def test_a_segment_that_the_next_start_takes_away_is_no_damage(data_dir: Path, tmp_path: Path, gap: int) -> None:
    """A process was killed while the name of one that a failed write had made was there again for a moment."""
    before = served(data_dir)
    taken_away = data_dir / "__consumer_offsets-0" / f"{60 + gap:020d}.log"
    taken_away.write_bytes(STAND_IN)
    for command in ("verify", "repair", "dump"):
        result = log(command, "--data-dir", data_dir)
        assert (result.status, taken_away.name in result.stdout + result.stderr) == (0, False)
    assert taken_away.exists()
    result = log("backup", "--data-dir", data_dir, tmp_path / "backup")
    assert result.status == 0, result.stderr
    assert not (tmp_path / "backup" / "__consumer_offsets-0" / taken_away.name).exists()
    assert served(tmp_path / "backup") == served(data_dir) == before
