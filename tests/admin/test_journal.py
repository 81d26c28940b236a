"""Commands on a directory whose process has died: what was acknowledged is there, also when only the journal has it."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from shim.admin.at_rest.backing_up import back_up
from shim.admin.at_rest.data_dir import data_dir_at_rest
from shim.log import LogSettings, OffsetsLog, PartitionWrite
from shim.log.data_dir import segment_name
from shim.log.files import Files
from shim.log.journal import JOURNAL_NAME, has_entries
from tests.admin.running import SILENT, TIMESTAMP, commit_record, log, served
from tests.log.lost_files import LostFiles

COMMITS = 5


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
    assert not (lost / JOURNAL_NAME).exists()


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


def test_what_a_repair_has_taken_out_stays_out(lost: Path) -> None:
    """A start that found the journal would put it back."""
    assert committed(lost) == list(range(COMMITS))
    content = bytearray(segment_of(lost).read_bytes())
    content[len(content) // 2] ^= 1
    segment_of(lost).write_bytes(content)
    assert log("repair", "--data-dir", lost, "--yes").status == 0
    left = committed(lost)
    assert left == list(range(len(left)))
    assert len(left) < COMMITS
    offsets_log = opened(lost)
    offsets_log.close()
    assert committed(lost) == left


def test_a_directory_in_good_order_is_only_read(tmp_path: Path) -> None:
    offsets_log = opened(tmp_path)
    commit(offsets_log, 0)
    offsets_log.close()
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    assert log("verify", "--data-dir", tmp_path).status == 0
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("seed", range(20))
def test_before_a_command_changes_anything_the_journal_is_in_the_segments_and_gone_for_good(seed: int) -> None:
    files = LostFiles(rng=random.Random(seed))
    files.mkdir(Path("/disk"))
    files.sync_directory(Path("/"))
    data_dir = Path("/disk/data")
    offsets_log = opened(data_dir, files)
    for offset in range(COMMITS):
        commit(offsets_log, offset)
    files = files.after_power_failure()
    with data_dir_at_rest(files, data_dir):
        files = files.after_power_failure()
    assert not has_entries(files, data_dir)
    offsets_log = OffsetsLog.open(data_dir, 1, files=files)
    assert len(list(offsets_log.recover(0))) == COMMITS
