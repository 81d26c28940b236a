"""`log compact`: small, and the same offsets."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from shim.log import LogSettings, OffsetsLog, PartitionWrite
from tests.admin.running import TIMESTAMP, commit_record, log, plainly, served, write_log
from tests.log.faulty_files import FaultyFiles

SMALL = LogSettings(segment_bytes=1000)


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    records = [
        ("one", commit_record("one", "deleted", partition, offset)) for partition in (0, 1) for offset in (1, None)
    ]
    records += [("one", commit_record("one", f"topic-{n % 3}", 0, n)) for n in range(100)]
    records += [("another", commit_record("another", "t", 0, n)) for n in range(30)]
    write_log(path, records, partitions=2, settings=SMALL)
    return path


def size(data_dir: Path) -> int:
    return sum(path.stat().st_size for path in data_dir.glob("*/*.log"))


def tombstones(data_dir: Path) -> int:
    return sum(each["tombstones"] for each in log("verify", "--data-dir", data_dir, "--json").json["partitions"])


def test_of_each_key_the_newest_is_left(data_dir: Path) -> None:
    before = served(data_dir)
    whole = size(data_dir)
    result = log("compact", "--data-dir", data_dir, "--json")
    assert result.status == 0
    found = {each["partition"]: each for each in result.json["rounds"]}
    assert sorted(found) == ["__consumer_offsets-0", "__consumer_offsets-1"]
    for each in found.values():
        assert each["segments_written"] == 1
        assert each["records_after"] <= 5 < each["records_before"]
    assert result.json["not_compacted"] == {}
    assert served(data_dir) == before
    assert size(data_dir) < whole / 4
    assert log("verify", "--data-dir", data_dir).status == 0
    again = log("compact", "--data-dir", data_dir)
    assert again.stdout.endswith("0 rounds, 0 B written\n")


def test_tombstones_stay_for_as_long_as_is_asked(data_dir: Path) -> None:
    before = served(data_dir)
    assert log("compact", "--data-dir", data_dir, "--delete-retention-ms", "0").status == 0
    assert tombstones(data_dir) == 2, "they are marked first"
    offsets_log = OffsetsLog.open(data_dir, 2, settings=LogSettings(segment_bytes=1))
    for partition in range(2):
        assert all(offsets_log.recover(partition))
    for offset in range(3):
        record = commit_record("one", "topic-0", 1, offset)
        assert offsets_log.write([PartitionWrite(0, [[record]], TIMESTAMP)]) == {}
    offsets_log.close()
    assert log("compact", "--data-dir", data_dir, "--delete-retention-ms", "0").status == 0
    assert tombstones(data_dir) == 0
    left = plainly(served(data_dir))
    assert left.pop(("one", "topic-0", 1)) == (2, -1, "")
    assert left == plainly(before)


def test_other_topics_are_left_alone(data_dir: Path) -> None:
    offsets_log = OffsetsLog.open(data_dir, 2, topics=("__offset_shim_state",), settings=LogSettings(segment_bytes=1))
    for partition in range(2):
        assert not list(offsets_log.recover(partition, topic="__offset_shim_state"))
    for _ in range(3):
        assert offsets_log.write([PartitionWrite(0, [[(b"k", b"v")]], TIMESTAMP, "__offset_shim_state")]) == {}
    offsets_log.close()
    before = {path: path.read_bytes() for path in data_dir.glob("__offset_shim_state-*/*")}
    assert len(before) > 3
    assert log("compact", "--data-dir", data_dir).status == 0
    assert {path: path.read_bytes() for path in data_dir.glob("__offset_shim_state-*/*")} == before
    document = log("verify", "--data-dir", data_dir, "--json").json
    assert document["clean_shutdown"] is True
    assert len(document["partitions"]) == 4


def test_a_damaged_log_is_not_compacted(data_dir: Path) -> None:
    first = min(data_dir.glob("__consumer_offsets-0/*.log"))
    raw = bytearray(first.read_bytes())
    raw[100] ^= 1
    first.write_bytes(raw)
    before = {path: path.read_bytes() for path in data_dir.glob("*/*.log")}
    result = log("compact", "--data-dir", data_dir)
    assert result.status == 1
    assert f"{first} is damaged at byte" in result.stderr
    assert {path: path.read_bytes() for path in data_dir.glob("*/*.log")} == before


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> FaultyFiles:
    """What the command reaches the disk by."""
    files = FaultyFiles()
    monkeypatch.setattr("shim.admin.commands.log_compact.Files", lambda: files)
    return files


def test_a_full_disk_is_told(data_dir: Path, files: FaultyFiles) -> None:
    before, whole = served(data_dir), size(data_dir)
    files.fail("create", errno.ENOSPC, "__consumer_offsets-0/00000000000000000000.log.cleaned")
    result = log("compact", "--data-dir", data_dir, "--json")
    assert result.status == 1
    assert [each["partition"] for each in result.json["rounds"]] == ["__consumer_offsets-1"]
    assert list(result.json["not_compacted"]) == ["__consumer_offsets-0"]
    assert "No space left on device" in result.json["not_compacted"]["__consumer_offsets-0"]
    result = log("compact", "--data-dir", data_dir)
    assert result.status == 1
    assert "__consumer_offsets-0 was not compacted: [Errno 28] No space left on device" in result.stderr
    assert served(data_dir) == before
    assert size(data_dir) < whole
    files.heal()
    result = log("compact", "--data-dir", data_dir, "--json")
    assert (result.status, result.json["not_compacted"]) == (0, {})
    assert served(data_dir) == before


def test_what_succeeds_in_the_end_is_not_told(data_dir: Path, files: FaultyFiles) -> None:
    """The first one tried, so that the other one's round comes between."""
    failed: list[Path] = []

    def once(path: Path) -> None:
        if path.suffix == ".cleaned" and not failed:
            failed.append(path)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    files.faults["create"] = once
    result = log("compact", "--data-dir", data_dir, "--json")
    assert failed
    assert (result.status, result.json["not_compacted"]) == (0, {})
    assert len(result.json["rounds"]) == 2


def test_a_swap_that_broke_off_and_cannot_be_completed_is_told(data_dir: Path, files: FaultyFiles) -> None:
    before = served(data_dir)
    files.fail("rename", errno.EIO, "__consumer_offsets-0/00000000000000000000.log")
    result = log("compact", "--data-dir", data_dir)
    assert result.status == 1
    assert "__consumer_offsets-0 was not compacted: [Errno 5]" in result.stderr
    assert served(data_dir) == before


def test_a_dry_run_says_what_there_is_to_do_and_leaves_all_as_it_is(data_dir: Path) -> None:
    def every_byte() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in data_dir.rglob("*") if path.is_file()}

    before = every_byte()
    result = log("compact", "--data-dir", data_dir, "--dry-run", "--json")
    assert result.status == 0
    assert every_byte() == before
    announced = {each.pop("partition"): each for each in result.json["to_compact"]}
    assert sorted(announced) == ["__consumer_offsets-0", "__consumer_offsets-1"]
    done = log("compact", "--data-dir", data_dir, "--json").json["rounds"]
    for each in done:
        said = announced[each["partition"]]
        # Read once to know the newest of each key, and again to keep it.
        assert said["closed_bytes"] == said["never_compacted_bytes"] <= each["bytes_read"] <= 2 * said["closed_bytes"]
    again = log("compact", "--data-dir", data_dir, "--dry-run")
    assert again.stdout.endswith("0 partitions to compact, 0 B in closed segments; nothing was done\n")
