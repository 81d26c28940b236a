"""What was deleted does not rise again from a snapshot, whatever compaction has taken from behind it, at any crash."""

from __future__ import annotations

import errno
import json
import logging
import random
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from shim.log import LogSettings, OffsetsLog, PartitionWrite
from shim.log.checkpoint import replace_file
from shim.log.cleaner import Cleaner
from shim.log.cleaning import CleanerSettings
from shim.log.files import Files
from shim.log.snapshot import Anchor, is_anchored, last_batch, newest_snapshot, snapshot_name, write_snapshot
from shim.log.snapshot_floor import SnapshotFloor
from tests.log.crashing import DATA_DIR, small_sizes
from tests.log.faulty_files import FaultyFiles
from tests.log.lost_files import LostFiles, PowerFailure
from tests.log.rolled import NOW, append, closed, folder_of, opened
from tests.log.sync_sites import sites, watching

AT_ONCE = CleanerSettings(min_cleanable_ratio=0.0, delete_retention_ms=0, segment_bytes=400)
FILES = Files()
SEEDS = 150
SEEDS_FOR_A_PROOF = 3_000
LIVES = 4
DELETED = 3

State = dict[str, str]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def deleted_behind_a_snapshot(data_dir: Path, files: Files = FILES) -> OffsetsLog:
    """Compaction moves nothing of what the snapshot is anchored to, and takes a tombstone from behind it."""
    log = opened(data_dir, files=files)
    append(log, (b"deleted", b"value"))
    for number in range(8):
        append(log, (b"before %d" % number, b"value"))
    partition = log.partition_log(0)
    anchor = last_batch(files, partition)
    assert anchor is not None
    write_snapshot(files, partition.folder, partition.log_end_offset, anchor, [b"deleted is there"])
    append(log, (b"deleted", None))
    for number in range(20):
        append(log, (b"after %d" % number, b"value"))
    return log


def test_a_compaction_removes_the_snapshots_that_it_makes_wrong(tmp_path: Path) -> None:
    log = deleted_behind_a_snapshot(tmp_path)
    snapshot = newest_snapshot(FILES, folder_of(tmp_path))
    assert snapshot is not None
    for now_ms in (NOW, NOW + 1):
        assert Cleaner(tmp_path, log.partition_logs(), AT_ONCE).step(now_ms) is not None
        (tmp_path / "cleaner-offset-checkpoint").unlink()
    assert b"deleted" not in [record.key for record in log.recover(0)]
    assert is_anchored(FILES, folder_of(tmp_path), snapshot), "by that alone it would be believed"
    assert newest_snapshot(FILES, folder_of(tmp_path)) is None
    log.close()


def test_one_that_the_compaction_does_not_reach_stays(tmp_path: Path) -> None:
    log = deleted_behind_a_snapshot(tmp_path)
    partition = log.partition_log(0)
    anchor = last_batch(FILES, partition)
    assert anchor is not None
    write_snapshot(FILES, partition.folder, partition.log_end_offset, anchor, [b"deleted is gone"])
    assert Cleaner(tmp_path, log.partition_logs(), AT_ONCE).step(NOW) is not None
    assert partition.snapshot_floor.offset == closed(log)[-1].next_offset
    found = newest_snapshot(FILES, folder_of(tmp_path))
    assert found is not None
    assert bytes(found.payload) == b"deleted is gone"
    log.close()


@pytest.mark.parametrize("call", ["unlink", "sync_directory"])
def test_nothing_is_compacted_that_a_snapshot_may_be_wrong_by(tmp_path: Path, call: str) -> None:
    files = FaultyFiles()
    log = deleted_behind_a_snapshot(tmp_path, files)
    before = {path: path.read_bytes() for path in folder_of(tmp_path).glob("*.log")}
    files.fail(call, errno.EIO, "snapshot" if call == "unlink" else "")
    cleaner = Cleaner(tmp_path, log.partition_logs(), AT_ONCE, files=files)
    assert cleaner.step(NOW) is None
    assert not cleaner.uncleanable
    files.heal()
    assert {path: path.read_bytes() for path in folder_of(tmp_path).glob("*.log")} == before
    assert cleaner.step(NOW) is not None, "it is tried again"
    log.close()


def test_one_in_the_making_is_not_kept_when_the_log_is_compacted_meanwhile(tmp_path: Path) -> None:
    log = deleted_behind_a_snapshot(tmp_path)
    partition = log.partition_log(0)
    anchor = last_batch(FILES, partition)
    assert anchor is not None
    floor, offset = partition.snapshot_floor, partition.log_end_offset

    def compacted_meanwhile() -> Iterator[bytes]:
        yield b"half of it"
        floor.rise(offset + 1)

    assert write_snapshot(FILES, partition.folder, offset, anchor, compacted_meanwhile(), floor=floor) is None
    assert not [name for name in FILES.names(partition.folder) if "snapshot" in name]
    floor = SnapshotFloor(FILES, partition.folder)
    floor.rise(offset)
    path = write_snapshot(FILES, partition.folder, offset, anchor, [], floor=floor)
    assert path == partition.folder / snapshot_name(offset)
    log.close()


@pytest.mark.parametrize("seed", range(4))
def test_one_that_came_back_is_gone_before_the_tombstone_is(seed: int) -> None:
    """The power failed in the round that gave the tombstone its horizon, and fails again in the one that takes it."""
    assert not rises_again(LostFiles, range(10 * seed, 10 * seed + 10))


def rises_again(files_type: type[LostFiles], seeds: range = range(60)) -> bool:
    for seed in seeds:
        with small_sizes():
            crash_in = 0
            while True:
                after, is_over = power_fails_in_the_second_round(files_type, seed, crash_in)
                snapshot = newest_snapshot(after, DATA_DIR / "__consumer_offsets-0")
                log = OffsetsLog.open(DATA_DIR, 1, files=after)
                records = list(log.recover(0, start_offset=snapshot.offset if snapshot is not None else 0))
                deletes = [record.value is None for record in records if record.key == b"deleted"]
                if snapshot is not None and True not in deletes:
                    return True
                log.close()
                if is_over:
                    break
                crash_in += 1
    return False


def power_fails_in_the_second_round(files_type: type[LostFiles], seed: int, crash_in: int) -> tuple[LostFiles, bool]:
    """In that call of it; and whether it was over by then."""
    files = files_type(rng=random.Random(seed))
    files.mkdir(DATA_DIR.parents[1])
    files.sync_directory(Path("/"))
    log = deleted_behind_a_snapshot(DATA_DIR, files)
    folder = log.partition_log(0).folder
    (name,) = [name for name in files.names(folder) if name.endswith(".snapshot")]
    snapshot = files.read_file(folder / name)
    assert Cleaner(DATA_DIR, log.partition_logs(), AT_ONCE, files=files).step(NOW) is not None
    replace_file(files, folder / name, snapshot)
    files.unlink(DATA_DIR / "cleaner-offset-checkpoint")
    files.sync_directory(DATA_DIR)
    files.crash_at = files.calls + crash_in
    try:
        Cleaner(DATA_DIR, log.partition_logs(), AT_ONCE, files=files).step(NOW + 1)
        is_over = True
    except PowerFailure:
        is_over = False
    return files.after_power_failure(), is_over


class Making(NamedTuple):
    offset: int
    anchor: Anchor
    payload: bytes


class Lives:
    """Few keys that come and go, many that stay; snapshots, compactions that keep no tombstone; crashes anywhere."""

    def __init__(self, seed: int, files: type[LostFiles] = LostFiles) -> None:
        self.rng = random.Random(seed)
        self.files = files(rng=self.rng)
        self.files.mkdir(DATA_DIR.parents[1])
        self.files.sync_directory(Path("/"))
        self.state: State = {}
        self.in_doubt: dict[str, str | None] = {}
        self.now_ms = NOW
        self.used = 0

    def run(self) -> None:
        with small_sizes():
            for _ in range(LIVES):
                self.files.crash_at = self.rng.randrange(400)
                with suppress(PowerFailure):
                    self._live(self.rng.randrange(80))
                kill = self.rng.random() < 0.3
                self.files = self.files.after_kill() if kill else self.files.after_power_failure()
            self._live(0)

    def _live(self, steps: int) -> None:
        rng = self.rng
        log = OffsetsLog.open(DATA_DIR, 1, settings=LogSettings(segment_bytes=150), files=self.files)
        self._load(log)
        settings = CleanerSettings(min_cleanable_ratio=0.0, delete_retention_ms=0, segment_bytes=100)
        cleaner = Cleaner(DATA_DIR, log.partition_logs(), settings, files=self.files)
        making: Making | None = None
        for _ in range(steps):
            self.now_ms += 1
            drawn = rng.random()
            if drawn < 0.2:
                self._write(log, f"key {rng.randrange(DELETED)}", rng.choice(("value", None)))
            elif drawn < 0.6:
                self._write(log, f"stays {self.now_ms}", "value")
            elif drawn < 0.7:
                making = self._begin(log)
            elif drawn < 0.8 and making is not None:
                partition = log.partition_log(0)
                floor = partition.snapshot_floor
                write_snapshot(
                    self.files, partition.folder, making.offset, making.anchor, [making.payload], floor=floor
                )
                making = None
            elif drawn > 0.85:
                cleaner.step(self.now_ms)
                assert not cleaner.uncleanable
        log.close()

    def _write(self, log: OffsetsLog, key: str, value: str | None) -> None:
        self.in_doubt = {key: value}
        record = (key.encode(), None if value is None else value.encode())
        assert log.write([PartitionWrite(0, [[record]], self.now_ms)]) == {}
        self.state = applied(self.state, key, value)
        self.in_doubt = {}

    def _begin(self, log: OffsetsLog) -> Making | None:
        anchor = last_batch(self.files, log.partition_log(0))
        payload = json.dumps(self.state).encode()
        return Making(log.log_end_offset(0), anchor, payload) if anchor is not None else None

    def _load(self, log: OffsetsLog) -> None:
        snapshot = newest_snapshot(self.files, log.partition_log(0).folder)
        if snapshot is None:
            state: State = {}
            records = log.recover(0)
        else:
            self.used += 1
            state = json.loads(bytes(snapshot.payload))
            records = log.recover(0, start_offset=snapshot.offset, anchor=snapshot.anchor.position)
        for record in records:
            state = applied(state, record.key.decode(), None if record.value is None else record.value.decode())
        possible = [self.state, *(applied(self.state, key, value) for key, value in self.in_doubt.items())]
        assert state in possible
        self.state, self.in_doubt = state, {}


def applied(state: State, key: str, value: str | None) -> State:
    changed = {**state}
    if value is None:
        changed.pop(key, None)
    else:
        changed[key] = value
    return changed


def test_what_was_deleted_stays_deleted() -> None:
    used = 0
    for seed in range(SEEDS):
        lives = Lives(seed)
        lives.run()
        used += lives.used
    assert used > SEEDS / 2, "snapshots were hardly ever of use"


@pytest.mark.soak
@pytest.mark.parametrize("first_seed", range(SEEDS, SEEDS + 20_000, 1_000))
def test_what_was_deleted_stays_deleted_in_many_lives(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 1_000):
        Lives(seed).run()


# --- it would be noticed ---------------------------------------------------------------------------------------------


def fails(files: type[LostFiles] = LostFiles) -> bool:
    for seed in range(SEEDS_FOR_A_PROOF):
        try:
            Lives(seed, files).run()
        except AssertionError:
            return True
    return False


def test_that_snapshots_stay_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SnapshotFloor, "rise", lambda *_: None)
    assert fails()


def test_that_one_in_the_making_is_kept_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SnapshotFloor, "admitting", lambda *_: nullcontext())
    assert fails()


def test_that_they_are_not_removed_durably_is_noticed() -> None:
    (site,) = [site for site in sites(frozenset()) if site.module == "snapshot_floor"]
    watched = watching()
    for seed in range(20):
        Lives(seed, watched).run()
    (path,) = [path for path in watched.seen if (path.module, path.line) == (site.module, site.line)]
    assert rises_again(watching(path))
