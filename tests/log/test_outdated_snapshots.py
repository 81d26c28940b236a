"""What was deleted does not rise again from a snapshot, whatever compaction has taken from behind it, at any crash."""

from __future__ import annotations

import errno
import json
import logging
import random
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest

from shim.log import LogSettings, OffsetsLog, PartitionWrite
from shim.log.cleaner.cleaner import Cleaner
from shim.log.cleaner.cleaning import CleanerSettings
from shim.log.disk.checkpoint import replace_file
from shim.log.disk.files import Files
from shim.log.partition.snapshot import PartitionSnapshots, Snapshot, snapshot_name
from shim.log.segments.active import LastBatch
from tests.log.crashing import DATA_DIR, small_sizes
from tests.log.faulty_files import FaultyFiles, NeverSyncedFiles
from tests.log.lost_files import LostFiles, PowerFailure
from tests.log.rolled import NOW, append, closed, folder_of, opened
from tests.log.sync_sites import sites, watching

AT_ONCE = CleanerSettings(min_cleanable_ratio=0.0, delete_retention_ms=0, segment_bytes=400)
FILES = Files()
SEEDS = 75
SEEDS_FOR_A_PROOF = 3_000
LIVES = 4
DELETED = 3

State = dict[str, str]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def take(log: OffsetsLog, payload: bytes) -> None:
    partition = log.partition_log(0)
    assert partition.last_batch is not None
    assert partition.snapshots.take(partition.last_batch, [payload])


def newest(folder: Path, files: Files = FILES) -> Snapshot | None:
    """As another process finds it."""
    return PartitionSnapshots(files, folder).newest()


def deleted_behind_a_snapshot(data_dir: Path, files: Files = FILES) -> OffsetsLog:
    """Compaction moves nothing of what the snapshot is anchored to, and takes a tombstone from behind it."""
    log = opened(data_dir, files=files)
    append(log, (b"deleted", b"value"))
    for number in range(8):
        append(log, (b"before %d" % number, b"value"))
    take(log, b"deleted is there")
    append(log, (b"deleted", None))
    for number in range(20):
        append(log, (b"after %d" % number, b"value"))
    return log


def test_a_compaction_removes_the_snapshots_that_it_makes_wrong(tmp_path: Path) -> None:
    log = deleted_behind_a_snapshot(tmp_path)
    snapshot = newest(folder_of(tmp_path))
    assert snapshot is not None
    for now_ms in (NOW, NOW + 1):
        assert Cleaner(tmp_path, log.partition_logs(), AT_ONCE).step(now_ms) is not None
        (tmp_path / "cleaner-offset-checkpoint").unlink()
    assert b"deleted" not in [record.key for record in log.recover(0)]
    assert PartitionSnapshots(FILES, folder_of(tmp_path)).stands(snapshot), "by that alone it would be believed"
    assert newest(folder_of(tmp_path)) is None
    log.close()


def test_one_that_the_compaction_does_not_reach_stays(tmp_path: Path) -> None:
    log = deleted_behind_a_snapshot(tmp_path)
    take(log, b"deleted is gone")
    assert Cleaner(tmp_path, log.partition_logs(), AT_ONCE).step(NOW) is not None
    snapshots, end = log.partition_log(0).snapshots, closed(log)[-1].next_offset
    assert (snapshots.is_outdated(end), snapshots.is_outdated(end + 1)) == (True, False)
    found = newest(folder_of(tmp_path))
    assert found is not None
    assert bytes(found.payload) == b"deleted is gone"
    log.close()


def written_with_a_snapshot(data_dir: Path, batches: int) -> tuple[OffsetsLog, State]:
    """A snapshot of the first so many batches, in a log of several to a segment; and what is in force at the end."""
    rng = random.Random(7)
    log = opened(data_dir, LogSettings(segment_bytes=600), files=NeverSyncedFiles())
    state: State = {}
    for number in range(40):
        if number == batches:
            take(log, json.dumps(state).encode())
        key = rng.choice((f"key {rng.randrange(DELETED)}", f"stays {number}"))
        value = rng.choice(("value", None)) if key.startswith("key") else "value"
        append(log, (key.encode(), None if value is None else value.encode()))
        state = applied(state, key, value)
    return log, state


@pytest.mark.parametrize("size", [400, 1_000, 1_700])
def test_a_round_that_ends_inside_a_segment_as_the_offset_map_is_full(tmp_path: Path, size: int) -> None:
    """Whichever snapshot there was: it is gone, or it and the log behind it are what the log was."""
    settings = CleanerSettings(min_cleanable_ratio=0.0, delete_retention_ms=0, dedupe_buffer_size=size)
    kept = gone = inside = behind_the_end = 0
    for batches in range(1, 40):
        data_dir = tmp_path / str(batches)
        log, state = written_with_a_snapshot(data_dir, batches)
        partition = log.partition_log(0)
        cleaner = Cleaner(data_dir, [partition], settings, files=NeverSyncedFiles())
        (name,) = (name for name in FILES.names(partition.folder) if name.endswith(".snapshot"))
        for now_ms in count(NOW):
            ends = [segment.next_offset for segment in closed(log)]
            stats = cleaner.step(now_ms)
            if stats is None:
                break
            left = (partition.folder / name).exists()
            snapshot = newest(partition.folder)
            assert left == (snapshot is not None), "what is of no use is gone"
            assert left != partition.snapshots.is_outdated(batches), "the runtime knows"
            found: State = json.loads(bytes(snapshot.payload)) if snapshot is not None else {}
            start, anchor = (snapshot.offset, snapshot.anchor.position) if snapshot is not None else (0, None)
            for record in log.recover(0, start_offset=start, anchor=anchor):
                value = None if record.value is None else record.value.decode()
                found = applied(found, record.key.decode(), value)
            assert found == state
            kept += left
            gone += not left
            inside += stats.end_offset not in ends
            behind_the_end += stats.end_offset < batches <= min(end for end in ends if end >= stats.end_offset)
        log.close()
    assert min(kept, gone, inside) > 10
    assert behind_the_end


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
    batch, snapshots = partition.last_batch, partition.snapshots
    assert batch is not None

    def compacted_meanwhile() -> Iterator[bytes]:
        yield b"half of it"
        snapshots.outdate(batch.next_offset)

    assert snapshots.take(batch, compacted_meanwhile()) is None
    assert not [name for name in FILES.names(partition.folder) if "snapshot" in name]
    snapshots = PartitionSnapshots(FILES, partition.folder)
    snapshots.outdate(batch.next_offset - 1)
    assert snapshots.take(batch, []) == partition.folder / snapshot_name(batch.next_offset)
    log.close()


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_one_stays_away_where_the_folder_could_not_be_synced_at_first(seed: int, killed: bool) -> None:
    files = LostFiles(rng=random.Random(seed))
    log = deleted_behind_a_snapshot(Path("/data"), files)
    folder, end = log.partition_log(0).folder, log.log_end_offset(0)
    files.error_in, files.errors = frozenset({"sync_directory"}), {files.calls: errno.EIO}
    with pytest.raises(OSError, match="Input/output"):
        log.partition_log(0).snapshots.outdate(end)
    files.errors = {}
    if killed:
        files = files.after_kill()
    PartitionSnapshots(files, folder).outdate(end)
    assert not [name for name in files.names(folder) if "snapshot" in name]
    assert newest(folder, files.after_power_failure()) is None


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_one_that_a_newer_one_replaced_stays_away_where_the_next_sync_of_the_folder_fails(
    seed: int, killed: bool
) -> None:
    """Nobody knows of it any more when the log is compacted, and the disk has it."""
    files = LostFiles(rng=random.Random(seed))
    log = deleted_behind_a_snapshot(Path("/data"), files)
    folder = log.partition_log(0).folder
    take(log, b"deleted is gone")
    files.error_in, files.errors = frozenset({"sync_directory"}), {files.calls: errno.EIO}
    roll = log.write([PartitionWrite(0, [[(b"rolls %d" % number, b"value" * 20)] for number in range(4)], NOW)])
    assert roll, "the name of a new segment could not be synced"
    files.errors = {}
    list(log.recover(0))
    if killed:
        files = files.after_kill()
        log = opened(Path("/data"), files=files)
    for number in range(30):
        append(log, (b"more %d" % number, b"value"))
    for now_ms in (NOW, NOW + 1):
        assert Cleaner(Path("/data"), log.partition_logs(), AT_ONCE, files=files).step(now_ms) is not None
        files.unlink(Path("/data/cleaner-offset-checkpoint"))
    assert b"deleted" not in [record.key for record in log.recover(0)]
    assert newest(folder, files.after_power_failure()) is None


@pytest.mark.parametrize("first_seed", [0, *(pytest.param(ten, marks=pytest.mark.soak) for ten in range(10, 400, 10))])
def test_one_that_came_back_is_gone_before_the_tombstone_is(first_seed: int) -> None:
    """The power failed in the round that gave the tombstone its horizon, and fails again in the one that takes it."""
    assert not rises_again(LostFiles, range(first_seed, first_seed + 10))


def rises_again(files_type: type[LostFiles], seeds: range = range(60)) -> bool:
    for seed in seeds:
        with small_sizes():
            crash_in = 0
            while True:
                after, is_over = power_fails_in_the_second_round(files_type, seed, crash_in)
                snapshot = newest(DATA_DIR / "__consumer_offsets-0", after)
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
    anchor: LastBatch
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
                log.partition_log(0).snapshots.take(making.anchor, [making.payload])
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
        anchor = log.partition_log(0).last_batch
        return Making(anchor, json.dumps(self.state).encode()) if anchor is not None else None

    def _load(self, log: OffsetsLog) -> None:
        snapshot = log.partition_log(0).snapshots.newest()
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
    monkeypatch.setattr(PartitionSnapshots, "outdate", lambda *_: None)
    assert fails()


@pytest.mark.soak
def test_that_one_in_the_making_is_kept_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PartitionSnapshots, "_admitting", lambda *_: nullcontext())
    assert fails()


def test_that_they_are_not_removed_durably_is_noticed() -> None:
    (site,) = [site for site in sites(frozenset()) if (site.module, site.method) == ("snapshot", "sync_directory")]
    watched = watching()
    for seed in range(20):
        Lives(seed, watched).run()
    (path,) = [path for path in watched.seen if (path.module, path.line) == (site.module, site.line)]
    assert rises_again(watching(path))
