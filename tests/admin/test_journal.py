"""Commands on a directory whose process has died: what was acknowledged is there, also when only the journal has it."""

from __future__ import annotations

import errno
import random
import shutil
from contextlib import nullcontext
from pathlib import Path

import pytest

from shim.admin.at_rest.backing_up import back_up
from shim.admin.at_rest.data_dir import data_dir_at_rest
from shim.admin.at_rest.examine import examine
from shim.admin.at_rest.journal import remove_journal
from shim.admin.at_rest.repair_plan import plan_repair
from shim.admin.at_rest.repairing import repair
from shim.admin.errors import BrokenOff
from shim.log import CorruptLog, LogError, LogSettings, OffsetsLog, PartitionWrite
from shim.log.directory.handover import LOOSE_FLUSH
from shim.log.disk.checkpoint import RECOVERY_POINT_CHECKPOINT
from shim.log.disk.files import Files
from shim.log.disk.layout import segment_name
from shim.log.journal.journal import JOURNAL_NAME
from shim.log.journal.journal_records import FIRST, encoded_entry, finish, header_of, id_of, parts_of, read_entries
from shim.workers_folder import share_folder
from tests.admin.running import SILENT, TIMESTAMP, commit_record, log, served
from tests.log.faulty_files import FaultyFiles
from tests.log.lost_files import LostFiles

COMMITS = 5
CRC_AT = 17


def opened(data_dir: Path, files: Files | None = None, settings: LogSettings | None = None) -> OffsetsLog:
    offsets_log = OffsetsLog.open(data_dir, 1, files=files, settings=settings)
    assert all(offsets_log.recover(0))
    return offsets_log


def commit(offsets_log: OffsetsLog, offset: int) -> None:
    record = commit_record("g", f"topic-{offset}", 0, offset)
    assert offsets_log.write([PartitionWrite(0, [[record]], TIMESTAMP)]) == {}


def committed(data_dir: Path) -> list[int]:
    return sorted(one.offset for one in served(data_dir).get("g", {}).values())


@pytest.fixture
def lost(tmp_path: Path) -> Path:
    """What a crash of the machine leaves at worst: the segment has nothing that was not synced."""
    offsets_log = opened(tmp_path / "data")
    for offset in range(COMMITS):
        commit(offsets_log, offset)
    shutil.copytree(tmp_path / "data", tmp_path / "lost")
    offsets_log.close()
    segment_of(tmp_path / "lost").write_bytes(b"")
    return tmp_path / "lost"


def segment_of(data_dir: Path) -> Path:
    return data_dir / "__consumer_offsets-0" / segment_name(0)


def test_verify_counts_what_only_the_journal_has(lost: Path) -> None:
    result = log("verify", "--data-dir", lost, "--json")
    assert result.status == 0
    (partition,) = result.json["partitions"]
    assert partition["records"] == COMMITS


@pytest.mark.parametrize("whose", ["of the directory", "of a worker"])
@pytest.mark.parametrize("lost", [0, 1, COMMITS - 1])
def test_verify_and_repair_judge_as_a_start_does(tmp_path: Path, whose: str, lost: int) -> None:
    """Of one who flushed later, whose first commits the disk has lost, and one who flushed first, and has no more than
    the last one in its journal: that one was told to be durable, so what is before it is no torn write."""
    offsets_log = opened(tmp_path / "data")
    for offset in range(COMMITS):
        commit(offsets_log, offset)
    data_dir = tmp_path / "killed"
    shutil.copytree(tmp_path / "data", data_dir)
    offsets_log.close()
    (data_dir / LOOSE_FLUSH).write_bytes(b"")
    journal = data_dir / JOURNAL_NAME
    content = journal.read_bytes()
    entries = list(read_entries(journal, content))
    identity, at = id_of(journal, content), entries[-1]
    assert identity is not None
    parts = parts_of([encoded_entry(at.partition, *at[1:])])
    finish(parts, sum(map(len, parts)), FIRST, identity)
    journal.unlink()
    if whose == "of a worker":
        journal = share_folder(data_dir, 0) / JOURNAL_NAME
        journal.parent.mkdir(parents=True)
    journal.write_bytes(header_of(identity).ljust(FIRST, b"\0") + b"".join(parts))
    segment = bytearray(segment_of(data_dir).read_bytes())
    segment[: entries[lost].position] = bytes(entries[lost].position)
    segment_of(data_dir).write_bytes(segment)

    verified = log("verify", "--data-dir", data_dir)
    planned = log("repair", "--data-dir", data_dir, "--dry-run")
    shutil.copytree(data_dir, tmp_path / "started")
    started = OffsetsLog.open(tmp_path / "started", 1)
    with pytest.raises(CorruptLog) if lost else nullcontext():
        assert len(list(started.recover(0))) == COMMITS
    started.close()
    assert verified.status == (1 if lost else 0), verified
    assert ("nothing is damaged" in planned.stdout) is (not lost)
    assert log("repair", "--data-dir", data_dir, "--skip").status == 0
    assert len(committed(data_dir)) == COMMITS - lost
    opened(data_dir).close()


@pytest.mark.parametrize("is_clean", [False, True])
def test_a_malformed_note_of_a_worker_is_a_damage_as_a_start_refuses_it(lost: Path, *, is_clean: bool) -> None:
    if is_clean:
        opened(lost).close()
    malformed, sound = (share_folder(lost, number) / RECOVERY_POINT_CHECKPOINT for number in range(2))
    for note, content in ((malformed, b"no checkpoint"), (sound, b"0\n0\n")):
        note.parent.mkdir(parents=True)
        note.write_bytes(content)
    with pytest.raises(LogError, match=str(malformed)):
        OffsetsLog.open(lost, 1)
    for looking in (("verify",), ("repair", "--dry-run")):
        told = log(*looking, "--data-dir", lost)
        assert f"damage: {malformed} at byte 0: " in told.stdout, told
    assert log("verify", "--data-dir", lost).status == 1
    repaired = log("repair", "--data-dir", lost)
    kept = lost / f"{RECOVERY_POINT_CHECKPOINT}.damaged"
    assert (repaired.status, f"kept: {kept}" in repaired.stdout) == (0, True), repaired
    assert kept.read_bytes() == b"no checkpoint"
    assert log("verify", "--data-dir", lost).status == 0
    opened(lost).close()
    assert committed(lost) == list(range(COMMITS))


def test_dump_tells_what_only_the_journal_has(lost: Path) -> None:
    result = log("dump", "--data-dir", lost, "--state")
    assert all(f"topic-{offset}" in result.stdout for offset in range(COMMITS))


def test_a_backup_carries_what_only_the_journal_has(lost: Path, tmp_path: Path) -> None:
    assert log("backup", "--data-dir", lost, tmp_path / "backup").status == 0
    assert committed(tmp_path / "backup") == list(range(COMMITS))
    assert not (tmp_path / "backup" / JOURNAL_NAME).exists()
    offsets_log = opened(lost)
    commit(offsets_log, COMMITS)
    offsets_log.close()
    assert committed(lost) == list(range(COMMITS + 1))


def test_a_backup_leaves_the_journal_of_a_running_shim_alone(tmp_path: Path) -> None:
    offsets_log = opened(tmp_path / "data")
    for offset in range(COMMITS):
        commit(offsets_log, offset)
    before = (tmp_path / "data" / JOURNAL_NAME).read_bytes()
    back_up(Files(), tmp_path / "data", tmp_path / "backup", SILENT)
    assert (tmp_path / "data" / JOURNAL_NAME).read_bytes() == before
    assert committed(tmp_path / "backup") == list(range(COMMITS))
    commit(offsets_log, COMMITS)
    offsets_log.close()
    assert committed(tmp_path / "data") == list(range(COMMITS + 1))


def test_no_backup_is_made_while_a_shim_has_something_in_its_journal_only(lost: Path, tmp_path: Path) -> None:
    files = FaultyFiles()
    files.fail("pwrite", errno.ENOSPC, "__consumer_offsets-0/")
    offsets_log = OffsetsLog.open(lost, 1, files=files)
    with pytest.raises(OSError, match="No space left"):
        all(offsets_log.recover(0))
    with pytest.raises(BrokenOff, match="in the journal only"):
        back_up(Files(), lost, tmp_path / "backup", SILENT)
    assert not list(tmp_path.glob("backup*"))
    files.heal()
    assert all(offsets_log.recover(0))
    back_up(Files(), lost, tmp_path / "backup", SILENT)
    offsets_log.close()
    assert committed(tmp_path / "backup") == list(range(COMMITS))


def test_what_a_repair_has_taken_out_stays_out(tmp_path: Path) -> None:
    """A start that found the journal would put it back."""
    offsets_log = opened(tmp_path / "data")
    commit(offsets_log, 0)
    commit(offsets_log, 1)
    assert offsets_log.maintain(TIMESTAMP).failed == {}
    for offset in range(2, COMMITS):
        commit(offsets_log, offset)
    killed = tmp_path / "killed"
    shutil.copytree(tmp_path / "data", killed)
    offsets_log.close()
    content = bytearray(segment_of(killed).read_bytes())
    content[len(content) // COMMITS + 30] ^= 1
    segment_of(killed).write_bytes(content)
    assert log("repair", "--data-dir", killed, "--yes").status == 0
    assert committed(killed) == [0]
    opened(killed).close()
    assert committed(killed) == [0]


def test_a_directory_in_good_order_is_only_read(tmp_path: Path) -> None:
    offsets_log = opened(tmp_path)
    commit(offsets_log, 0)
    offsets_log.close()
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    assert log("verify", "--data-dir", tmp_path).status == 0
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("command", [("verify",), ("dump", "--state"), ("repair", "--dry-run"), ("backup",)])
def test_a_folder_that_comes_back_gets_what_the_journal_has(tmp_path: Path, command: tuple[str, ...]) -> None:
    """A command that was tried without it has left the journal."""
    offsets_log = OffsetsLog.open(tmp_path / "data", 3)
    for partition in range(3):
        assert all(offsets_log.recover(partition))
        assert offsets_log.write([PartitionWrite(partition, [[commit_record("g", "t", 0, 5)]], TIMESTAMP)]) == {}
    shutil.copytree(tmp_path / "data", tmp_path / "lost")
    offsets_log.close()
    folder, aside = tmp_path / "lost" / "__consumer_offsets-1", tmp_path / "aside"
    (folder / segment_name(0)).write_bytes(b"")
    folder.rename(aside)
    name, *options = command
    log(name, "--data-dir", tmp_path / "lost", *options, *([tmp_path / "b"] if name == "backup" else ()))
    aside.rename(folder)
    offsets_log = OffsetsLog.open(tmp_path / "lost", 3)
    assert [len(list(offsets_log.recover(partition))) for partition in range(3)] == [1, 1, 1]
    offsets_log.close()


@pytest.mark.parametrize("last", ["closed in good order", "killed"])
def test_what_a_repair_has_taken_out_stays_out_when_the_power_fails(last: str) -> None:
    """Also where the journal looks empty: that it begins anew is flushed with its next record only."""
    for seed in range(60):
        files = LostFiles(rng=random.Random(seed))
        files.mkdir(Path("/disk"))
        files.sync_directory(Path("/"))
        data_dir = Path("/disk/data")
        offsets_log = opened(data_dir, files)
        for offset in range(COMMITS):
            commit(offsets_log, offset)
        if last == "killed":
            assert offsets_log.maintain(TIMESTAMP).failed == {}
            files = files.after_kill()
        else:
            offsets_log.close()
        with data_dir_at_rest(files, data_dir) as held:
            fd = files.open(data_dir / "__consumer_offsets-0" / segment_name(0))
            files.write_at(fd, bytes(4), files.size(fd) // COMMITS + CRC_AT)
            files.fsync(fd)
            before = examine(files, held, "", SILENT)
            assert before.all_damages
            repair(files, held, plan_repair(files, held, before, skip=False), TIMESTAMP)
        if last == "killed":
            files = files.after_power_failure()
        for _ in range(2):
            assert len(list(OffsetsLog.open(data_dir, 1, files=files).recover(0))) == 1, seed
            files = files.after_power_failure()


@pytest.mark.parametrize("seed", range(20))
def test_a_journal_that_a_command_could_not_remove_for_good_is_removed_by_the_next_one(seed: int) -> None:
    files, data_dir = LostFiles(rng=random.Random(seed)), Path("/data")
    files.mkdir(data_dir)
    files.sync_directory(Path("/"))
    fd = files.create(data_dir / JOURNAL_NAME)
    files.close(fd)
    files.sync_directory(data_dir)
    files.errors = {files.calls + 1: errno.EIO}
    with pytest.raises(OSError, match="Input/output"):
        remove_journal(files, data_dir)
    files = files.after_kill()
    remove_journal(files, data_dir)
    assert data_dir / JOURNAL_NAME not in files.after_power_failure().content()
