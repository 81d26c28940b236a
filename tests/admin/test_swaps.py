"""A compaction that broke off before its segment had taken the place of others: what only looks leaves it so."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from protocol.records.batches import encode_batch
from shim.log import LogSettings
from shim.log.disk.files import Files
from shim.log.segments.swap import finish_swap
from tests.admin.running import TIMESTAMP, commit_record, log, plainly, served, write_log

SWAPPED = slice(1, 4)
"""Of the closed segments, those that the swap file stands for."""


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """A log of many segments."""
    path = tmp_path / "whole"
    records = [("g", commit_record("g", f"topic-{n % 5}", 0, n)) for n in range(60)]
    write_log(path, records, settings=LogSettings(segment_bytes=600))
    assert len(segments(path)) > 6
    return path


@pytest.fixture
def data_dir(whole: Path, tmp_path: Path) -> Path:
    """The same log, with a swap file and everything that it stands for."""
    path = tmp_path / "data"
    shutil.copytree(whole, path)
    swapped = segments(path)[SWAPPED]
    swap_in(path).write_bytes(b"".join(segment.read_bytes() for segment in swapped))
    swapped[0].with_suffix(".index").write_bytes(b"not the swap file's")
    return path


def segments(data_dir: Path) -> list[Path]:
    return sorted(data_dir.glob("__consumer_offsets-0/*.log"))


def swap_in(data_dir: Path) -> Path:
    first = segments(data_dir)[SWAPPED][0]
    return first.with_name(f"{first.name}.swap")


def begin_replacing(data_dir: Path) -> None:
    """As far as it comes before the swap file gets the segment's name."""
    first, second, third = segments(data_dir)[SWAPPED]
    second.rename(second.with_name(f"{second.name}.deleted"))
    third.unlink()
    first.with_suffix(".index").unlink(missing_ok=True)


def contents(data_dir: Path) -> dict[str, bytes]:
    found = {str(path.relative_to(data_dir)): path.read_bytes() for path in data_dir.rglob("*") if path.is_file()}
    found.pop(".lock", None)
    return found


def finished(data_dir: Path) -> Path:
    """A copy in which the swap was completed, as by a start."""
    copy = data_dir.with_name("finished")
    shutil.copytree(data_dir, copy)
    finish_swap(Files(), copy / "__consumer_offsets-0")
    return copy


def damage(path: Path, at: int = 100) -> None:
    raw = bytearray(path.read_bytes())
    raw[at] ^= 1
    path.write_bytes(raw)


def verified(data_dir: Path) -> Any:
    return log("verify", "--data-dir", data_dir, "--json").json["partitions"][0]


@pytest.mark.parametrize("replacing", [False, True], ids=["before", "midway"])
def test_what_only_looks_changes_nothing_and_sees_what_a_start_would(
    data_dir: Path, whole: Path, tmp_path: Path, replacing: bool
) -> None:
    exported = tmp_path / "exported"
    assert log("export", "--data-dir", whole, "--to-folder", exported).status == 0
    if replacing:
        begin_replacing(data_dir)
    swap = swap_in(data_dir)
    before = contents(data_dir)
    found = verified(data_dir)
    (note,) = found["notes"]
    assert note.startswith(f"{swap}: a compaction broke off; ")
    at = ("--data-dir", data_dir)
    for command in (
        ("verify", *at),
        ("repair", *at, "--dry-run"),
        ("import", *at, "--from-folder", exported, "--dry-run"),
        ("export", *at, "--to-folder", tmp_path / "again"),
    ):
        result = log(*command)
        assert result.status == 0, result.stderr
        assert contents(data_dir) == before, command
    dumped = log("dump", *at)
    assert dumped.status == 0
    assert f"{swap.name}@0 " in dumped.stdout
    assert contents(data_dir) == before

    assert served(data_dir) == served(whole)
    after = finished(data_dir)
    expected = verified(after)
    assert {**found, "notes": expected["notes"]} == expected
    assert dumped.stdout.replace(".swap", "") == log("dump", "--data-dir", after).stdout


def test_a_repair_has_it_take_its_place_first(data_dir: Path) -> None:
    begin_replacing(data_dir)
    damage(segments(data_dir)[-2])
    after = finished(data_dir)
    swap = swap_in(data_dir)
    assert log("repair", "--data-dir", after, "--yes").status == 0
    before = contents(data_dir)
    assert log("repair", "--data-dir", data_dir, "--dry-run").status == 0
    assert contents(data_dir) == before
    assert log("repair", "--data-dir", data_dir, "--yes").status == 0
    assert not swap.exists()
    assert contents(data_dir) == contents(after)


def test_a_repair_that_cuts_before_it_takes_it_away_whole(data_dir: Path) -> None:
    begin_replacing(data_dir)
    damage(segments(data_dir)[0])
    swap = swap_in(data_dir)
    raw = swap.read_bytes()
    after = finished(data_dir)
    assert log("repair", "--data-dir", after, "--yes").status == 0
    looked = log("repair", "--data-dir", data_dir, "--dry-run", "--json").json["partitions"][0]
    assert str(swap) in looked["taken_away"]
    assert log("repair", "--data-dir", data_dir, "--yes").status == 0
    assert contents(data_dir) == contents(after)
    assert swap.with_name(f"{swap.stem}.cut-0").read_bytes() == raw


@pytest.mark.parametrize("skip", [[], ["--skip"]], ids=["cut", "skip"])
def test_damage_in_it_that_a_start_does_not_see(data_dir: Path, skip: list[str]) -> None:
    """A record that nobody can decode, under a right CRC: the swap file counts all the same."""
    first, second, third = segments(data_dir)[SWAPPED]
    next_base = int(segments(data_dir)[SWAPPED.stop].stem)
    bad = encode_batch(int(third.stem), [(b"\x00\x01\x00\x09g", b"")] * (next_base - int(third.stem)), TIMESTAMP)
    swap = swap_in(data_dir)
    sound = first.read_bytes() + second.read_bytes()
    swap.write_bytes(sound + bad)
    begin_replacing(data_dir)
    after = finished(data_dir)
    assert log("repair", "--data-dir", after, "--yes", *skip).status == 0
    result = log("verify", "--data-dir", data_dir)
    assert result.status == 1
    assert (
        f"{swap} at byte {len(sound)}: the record at offset {third.stem.lstrip('0')} cannot be decoded" in result.stdout
    )
    result = log("repair", "--data-dir", data_dir, "--yes", *skip)
    assert result.status == 0, result.stderr
    assert log("verify", "--data-dir", data_dir).status == 0
    assert plainly(served(data_dir)) == plainly(served(after))
    assert first.with_name(f"{first.name}.cut-{len(sound)}").read_bytes() == bad


def test_one_that_is_damaged_is_told_and_put_aside(data_dir: Path, whole: Path) -> None:
    swap = swap_in(data_dir)
    damage(swap)
    before = contents(data_dir)
    result = log("verify", "--data-dir", data_dir)
    assert result.status == 1
    assert f"damage: {swap} at byte 0: CRC mismatch" in result.stdout
    plan = log("repair", "--data-dir", data_dir, "--dry-run", "--json").json["partitions"][0]
    assert contents(data_dir) == before
    assert plan["taken_away"] == [str(swap)]
    assert (plan["unknown_offsets"], plan["maybe_older"]) == ([], []), "what it was made of is still there"
    assert log("repair", "--data-dir", data_dir, "--yes").status == 0
    assert swap.with_name(f"{swap.name}.cut-0").exists()
    assert log("verify", "--data-dir", data_dir).status == 0
    assert served(data_dir) == served(whole)
