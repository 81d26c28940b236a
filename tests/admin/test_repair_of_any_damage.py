"""Any byte of the log, changed: `verify` names the batch, and `repair` takes out that batch, or all from there on."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shim.admin.at_rest
from shim.log import LogError
from shim.log.directory.handover import CLEAN_SHUTDOWN
from shim.log.disk.checkpoint import RECOVERY_POINT_CHECKPOINT
from shim.log.disk.layout import segment_base_offsets, segment_name
from tests.admin.damaging import (
    DATA_DIR,
    FOLDER,
    Place,
    compact,
    examined,
    log_of,
    opens,
    overwrite,
    places,
    records,
    repaired,
)
from tests.examples import examples
from tests.log.lost_files import LostFiles, PowerFailure
from tests.log.sync_sites import CallPath, Site, sites, watching

FOLDER_OF_AT_REST = Path(shim.admin.at_rest.__file__).parent
LEADER_EPOCH = range(12, 16)  # of a batch: no CRC covers it, and nobody reads it

commits = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 999)), min_size=1, max_size=20)


def keys_without(before: list[Place], taken: list[Place]) -> set[bytes | None]:
    """The keys whose newest record is among those taken."""
    newest = {key: offset for place in before for offset, key, _ in place.records}
    return {key for place in taken for offset, key, _ in place.records if newest[key] == offset}


@settings(max_examples=examples(50), deadline=None)
@given(commits, st.data(), st.booleans(), st.booleans())
def test_one_byte(done: list[tuple[int, int]], data: st.DataObject, compacted: bool, skip: bool) -> None:
    files = log_of(done)
    if compacted:
        compact(files)
    before = places(files)
    hit = data.draw(st.integers(0, len(before) - 1))
    place = before[hit]
    # In a gap that compaction left, a lower base offset could be the right one: no CRC covers it.
    first = place.position + (8 if compacted else 0)
    at = data.draw(st.integers(first, place.end - 1))
    byte = files.content()[place.path][at]
    overwrite(files, place.path, at, bytes((byte ^ data.draw(st.integers(1, 255)),)))

    damages = examined(files).all_damages
    if at - place.position in LEADER_EPOCH:
        assert damages == []
        return
    (damage,) = damages
    assert damage.path == place.path
    assert damage.position == place.position

    broken = files.content()[place.path]
    (plan,) = repaired(files, skip=skip)
    taken = before[hit : hit + 1] if skip else before[hit:]
    left = [record for other in before if other not in taken for record in other.records]
    assert records(files) == left
    copies = [content for path, content in files.content().items() if ".log.cut-" in path.name]
    assert broken[place.position : place.end] in [copy[: place.end - place.position] for copy in copies]
    assert keys_without(before, taken) <= {doubt.key for doubt in plan.doubts} or plan.unknown
    assert opens(files) == left


@settings(max_examples=examples(20), deadline=None)
@given(commits.filter(lambda done: len(done) > 6), st.data(), st.booleans())
def test_a_missing_segment(done: list[tuple[int, int]], data: st.DataObject, skip: bool) -> None:
    files = log_of(done)
    before = places(files)
    bases = segment_base_offsets(files, FOLDER)
    missing = FOLDER / segment_name(data.draw(st.sampled_from(bases)))
    files.unlink(missing)
    (damage,) = examined(files).all_damages
    gone = next((at for at, place in enumerate(before) if place.path == missing), len(before))
    assert damage.offset == int(missing.stem)
    (plan,) = repaired(files, skip=skip)
    left = [
        record
        for at, place in enumerate(before)
        if (place.path != missing if skip else at < gone)
        for record in place.records
    ]
    assert records(files) == opens(files) == left
    assert plan.unknown


@pytest.mark.parametrize("skip", [False, True], ids=["cut", "skip"])
@pytest.mark.parametrize("power_fails", [False, True], ids=["killed", "without power"])
def test_a_repair_that_breaks_off_can_be_begun_again(skip: bool, power_fails: bool) -> None:
    for seed in range(60):
        repair_that_breaks_off(seed, skip=skip, power_fails=power_fails)


def repair_that_breaks_off(
    seed: int, *, skip: bool, power_fails: bool, files_type: type[LostFiles] = LostFiles
) -> None:
    """At any call, or right after the last one; what was taken away is kept all the same."""
    rng = random.Random(seed)
    done = [(rng.randrange(3), rng.randrange(999)) for _ in range(rng.randrange(3, 16))]
    scene = Scene(
        done, rng.random(), rng.randrange(16, 60), missing_folder=rng.random() < 0.1, compacted=rng.random() < 0.5
    )
    whole, _ = scene.made(files_type)
    repaired(whole, skip=skip)
    expected = records(whole)
    calls = whole.calls

    files, written = scene.made(files_type)
    before = files.content()
    files.crash_at = rng.choice((rng.randrange(written, calls), calls))
    if files.crash_at < calls:
        with pytest.raises(PowerFailure):
            repaired(files, skip=skip)
        files = files.after_power_failure() if power_fails else files.after_kill()
    else:
        repaired(files, skip=skip)
        files = files.after_power_failure() if power_fails else files.after_kill()
        assert examined(files).all_damages == [], seed
    repaired(files, skip=skip)
    assert records(files) == expected, seed
    files = files.after_power_failure() if power_fails else files.after_kill()
    check_copies(before, files.content())
    assert opens(files) == expected


class Scene(NamedTuple):
    """A log with one byte damaged, and perhaps a partition without its folder; the same every time."""

    commits: list[tuple[int, int]]
    hit: float
    at: int
    missing_folder: bool
    compacted: bool

    def made(self, files_type: type[LostFiles]) -> tuple[LostFiles, int]:
        """And how many calls it took."""
        files = log_of(self.commits, files_type=files_type)
        if self.compacted:
            compact(files)
            files.sync_directory(FOLDER)  # else the swap's last step may be undone, and with it the damage
        found = places(files)
        place = found[int(self.hit * len(found))]
        byte = files.content()[place.path][place.position + self.at]
        overwrite(files, place.path, place.position + self.at, bytes((byte ^ 0x55,)))
        if self.missing_folder:  # of the partition below this one
            files.mkdir(DATA_DIR / "topic-1")
            files.close(files.create(DATA_DIR / "topic-1" / segment_name(0)))
            files.sync_directory(DATA_DIR / "topic-1")
            files.sync_directory(DATA_DIR)
        return files, files.calls


def check_copies(before: dict[Path, bytes], after: dict[Path, bytes]) -> None:
    """Every byte that is not in its segment any more is in a copy beside it."""
    copies = b"".join(content for path, content in after.items() if ".log.cut-" in path.name)
    for path, content in before.items():
        if path.suffix == ".log":
            now = after.get(path, b"")
            for position, header in batches_or_damage(content):
                raw = content[position : position + header]
                assert raw in now or raw in copies, f"{path}: the bytes from {position} on are gone"


def batches_or_damage(content: bytes) -> Iterator[tuple[int, int]]:
    """Where each batch begins, and its size, as its own length says; the rest, where that cannot be."""
    position = 0
    while position < len(content):
        size = 12 + int.from_bytes(content[position + 8 : position + 12], "big", signed=True)
        if not 61 <= size <= len(content) - position:
            size = len(content) - position
        yield position, size
        position += size


REPAIR_SITES = sites(frozenset({"backing_up", "journal"}), FOLDER_OF_AT_REST)


@pytest.fixture(scope="module")
def paths() -> set[CallPath]:
    """Every way that led to a sync in some repairs."""
    watched = watching(folder=FOLDER_OF_AT_REST)
    for seed in range(60):
        repair_that_breaks_off(seed, skip=seed % 2 == 0, power_fails=True, files_type=watched)
    return watched.seen


@pytest.mark.parametrize("site", REPAIR_SITES, ids=str)
def test_no_sync_of_a_repair_can_be_left_out(site: Site, paths: set[CallPath]) -> None:
    through = sorted(path for path in paths if (path.module, path.line) == (site.module, site.line))
    assert through, "nothing that is tested here comes by this sync"
    for path in through:
        assert any(loses(path, seed) for seed in range(600)), f"not missed: {path}"


def loses(path: CallPath, seed: int) -> bool:
    try:
        ignoring = watching(path, FOLDER_OF_AT_REST)
        repair_that_breaks_off(seed, skip=seed % 2 == 0, power_fails=True, files_type=ignoring)
    except (AssertionError, LogError, OSError):
        return True
    return False


def test_a_tail_that_was_synced_and_is_gone() -> None:
    files = log_of([(0, n) for n in range(3)])
    before = places(files)
    path = FOLDER / segment_name(0)
    fd = files.open(path)
    files.truncate(fd, before[-1].position + 7)
    files.close(fd)
    files.unlink(DATA_DIR / CLEAN_SHUTDOWN)  # as after a crash, were it not for the recovery point
    (damage,) = examined(files).all_damages
    assert damage.position == before[-1].position
    assert "synced" in damage.reason or "cut off" in damage.reason
    repaired(files, skip=False)
    assert opens(files) == [record for place in before[:-1] for record in place.records]


def test_a_torn_tail_is_no_damage() -> None:
    files = log_of([(0, n) for n in range(3)])
    before = places(files)
    fd = files.open(FOLDER / segment_name(0))
    files.truncate(fd, before[-1].position + 7)
    files.close(fd)
    files.unlink(DATA_DIR / CLEAN_SHUTDOWN)
    files.unlink(DATA_DIR / RECOVERY_POINT_CHECKPOINT)
    examination = examined(files)
    assert examination.all_damages == []
    (note,) = examination.partitions[0].notes
    assert f"a torn write of 7 bytes at byte {before[-1].position}" in note
    assert repaired(files, skip=False) == []


def test_zeroed_blocks_take_several_batches() -> None:
    files = log_of([(n % 3, n) for n in range(16)])
    before = places(files)
    path = before[0].path
    inside = [place for place in before if place.path == path]
    overwrite(files, path, inside[0].position + 30, bytes(inside[1].end - inside[0].position - 40))
    (damage,) = examined(files).all_damages
    assert (damage.position, damage.end) == (inside[0].position, inside[1].end)
    repaired(files, skip=True)
    assert opens(files) == [record for place in before if place not in inside[:2] for record in place.records]


def test_malformed_checkpoints() -> None:
    files = log_of([(0, 1)])
    overwrite(files, DATA_DIR / RECOVERY_POINT_CHECKPOINT, 0, b"7")
    (damage,) = examined(files).all_damages
    assert damage.path == DATA_DIR / RECOVERY_POINT_CHECKPOINT
    repaired(files, skip=False)
    assert len(opens(files)) == 2
    assert any(path.name == f"{RECOVERY_POINT_CHECKPOINT}.damaged" for path in files.content())


def test_a_partition_without_its_folder(tmp_path: Path) -> None:
    from tests.admin.running import log, served, write_log

    data_dir = tmp_path / "data"
    write_log(data_dir, [], partitions=3)
    (data_dir / "__consumer_offsets-1" / segment_name(0)).unlink()
    (data_dir / "__consumer_offsets-1").rmdir()
    result = log("verify", "--data-dir", data_dir)
    assert result.status == 1
    assert f"{data_dir}/__consumer_offsets-1 at byte 0: the partition's folder is missing" in result.stdout
    assert log("repair", "--data-dir", data_dir, "--yes").status == 0
    assert served(data_dir) == {}
