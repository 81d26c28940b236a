"""Compaction in a real log, with appends around it: crashes at any call, calls that fail, threads side by side."""

from __future__ import annotations

import errno
import random
import re
import sys
import threading
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import pytest

from protocol.own.record_sets import LoggedRecord
from shim.log.cleaner import new_segment
from shim.log.cleaner.cleaner import Cleaner
from shim.log.cleaner.cleaning import CleanerSettings, CleanerStats
from shim.log.disk.files import Files
from shim.log.errors import CorruptLog, LogError
from shim.log.offsets_log import OffsetsLog, PartitionWrite
from shim.log.segments import swap
from shim.log.settings import LogSettings
from tests.log.crashing import DATA_DIR, small_sizes
from tests.log.lost_files import LostFiles, PowerFailure

RETENTION_MS = 300
KEYS = [b"key-%d" % i for i in range(5)]
HIGHEST_CALL = 150


class Written(NamedTuple):
    key: bytes
    value: bytes | None
    timestamp: int


class Lives:
    """One partition that is written to and cleaned, until a crash; then again. Everything follows from the seed."""

    def __init__(self, seed: int, files: type[LostFiles] = LostFiles) -> None:
        self.rng = random.Random(seed)
        self.files = files(rng=self.rng)
        self.files.mkdir(DATA_DIR.parents[1])
        self.files.sync_directory(Path("/"))
        self.written: list[Written] = []  # by offset
        self.acknowledged = 0
        self.now_ms = 1_000_000
        self.number = 0
        self.crashes = 0
        self.swaps = 0

    def run(self, lives: int) -> None:
        with small_sizes():
            for _ in range(lives):
                self.files.crash_at = self.rng.randrange(HIGHEST_CALL)
                try:
                    self._live()
                except PowerFailure:
                    self.crashes += 1
                kill = self.rng.random() < 0.4
                self.files = self.files.after_kill() if kill else self.files.after_power_failure()
            self._live()

    def _live(self) -> None:
        rng = self.rng
        if self.files.crash_at is not None and rng.random() < 0.3:
            self.files.errors = {rng.randrange(HIGHEST_CALL): rng.choice((errno.EIO, errno.ENOSPC)) for _ in range(2)}
            if rng.random() < 0.5:  # of names
                self.files.error_in = frozenset({"sync_directory"})
                self.files.crash_in = rng.choice((frozenset(), frozenset({"sync_directory"})))
        settings = LogSettings(segment_bytes=rng.choice((100, 200, 500)))
        try:
            log = OffsetsLog.open(DATA_DIR, 1, topics=("offsets",), settings=settings, files=self.files)
            self._recover(log)
            cleaner = self._cleaner(log)
            for _ in range(rng.randrange(20)):
                if rng.random() < 0.3:
                    stats = cleaner.step(self.now_ms)
                    self.swaps += stats.segments_written if stats else 0
                    assert not cleaner.uncleanable
                    self._check(_logged(log))
                elif rng.random() < 0.1:
                    cleaner = self._cleaner(log)
                else:
                    self._write(log)
            if rng.random() < 0.5:
                log.close()
        except OSError:
            assert self.files.errors

    def _cleaner(self, log: OffsetsLog) -> Cleaner:
        settings = CleanerSettings(
            min_cleanable_ratio=self.rng.choice((0.0, 0.3)),
            delete_retention_ms=RETENTION_MS,
            dedupe_buffer_size=self.rng.choice((1, 800, 1 << 20)),
            segment_bytes=self.rng.choice((100, 300, 10_000)),
        )
        return Cleaner(DATA_DIR, log.partition_logs(), settings, files=self.files)

    def _write(self, log: OffsetsLog) -> None:
        self.now_ms += self.rng.choice((0, 10, 100))
        record_set = []
        for _ in range(self.rng.choice((1, 1, 2, 4))):
            self.number += 1
            value = None if self.rng.random() < 0.3 else b"%d" % self.number
            record_set.append((self.rng.choice(KEYS), value))
        assert len(self.written) == self.acknowledged
        self.written += [Written(key, value, self.now_ms) for key, value in record_set]
        if log.write([PartitionWrite(0, [record_set], self.now_ms, "offsets")]):
            self._recover(log)
        else:
            self.acknowledged = len(self.written)

    def _recover(self, log: OffsetsLog) -> None:
        found = list(log.recover(0, topic="offsets"))
        end = log.log_end_offset(0, topic="offsets")
        assert end in (self.acknowledged, len(self.written)), (
            "an acknowledged record is lost, or half of a set is there"
        )
        del self.written[end:]
        self.acknowledged = end
        self._check(found)

    def _check(self, found: list[LoggedRecord]) -> None:
        for record in found:
            assert self.written[record.offset] == (record.key, record.value, record.timestamp)
        assert all(one.offset < other.offset for one, other in pairwise(found))
        left = {record.offset for record in found}
        newest = {key: offset for offset, (key, _, _) in enumerate(self.written)}
        replayed = {record.key: record for record in found}
        for key, offset in newest.items():
            _, value, timestamp = self.written[offset]
            if value is not None:
                assert offset in left, "the newest value of a key is lost"
            elif offset not in left:
                assert key not in replayed, "a deleted value is back"
                assert self.now_ms >= timestamp + RETENTION_MS, "a tombstone is gone too early"


def _logged(log: OffsetsLog) -> list[LoggedRecord]:
    (partition,) = log.partition_logs()
    records = [record for batch in partition.read() for record in batch.records]
    return [LoggedRecord(each.offset, each.timestamp, each.key or b"", each.value) for each in records]


SEEDS = range(55)
SEEDS_FOR_A_PROOF = range(500)
PROVED_BEFORE = (0, 2, 10, 16, 42)
"""Tried first, as in `test_crash`."""
LIVES = 20


def test_crashes_at_any_call() -> None:
    crashes, swaps = _crashes(SEEDS)
    assert crashes > 500
    assert swaps > 500


@pytest.mark.soak
@pytest.mark.parametrize("first_seed", range(1_000, 11_000, 1_000))
def test_many_crashes_at_any_call(first_seed: int) -> None:
    assert _crashes(range(first_seed, first_seed + 1_000)) > (10_000, 10_000)


def _crashes(seeds: range) -> tuple[int, int]:
    """How many there were, and how many swaps."""
    crashes = swaps = 0
    for seed in seeds:
        lives = Lives(seed)
        try:
            lives.run(LIVES)
        except Exception as failure:
            raise AssertionError(f"seed {seed}") from failure
        crashes += lives.crashes
        swaps += lives.swaps
    return crashes, swaps


def _sync_calls() -> list[tuple[str, int]]:
    """File and line of each sync in what cleans and swaps, as the source has them."""
    found = []
    for module in (new_segment, swap):
        path = str(module.__file__)
        lines = Path(path).read_text(encoding="utf-8").splitlines()
        found += [
            (path, number) for number, line in enumerate(lines, 1) if re.search(r"files\.f?(data)?sync\w*\(", line)
        ]
    return found


def test_every_sync_counts() -> None:
    """Without any one of them, the crashes above find something that is lost."""
    calls = _sync_calls()
    assert len(calls) == 5
    for call in calls:
        ignoring = _ignoring(call)
        seeds = (*PROVED_BEFORE, *SEEDS_FOR_A_PROOF)
        assert any(_fails(seed, ignoring) or _resuming_fails(seed, ignoring) for seed in seeds), (
            f"{call} can go, and nothing notices"
        )


def _ignoring(call: tuple[str, int]) -> type[LostFiles]:
    def ignored() -> bool:
        frame = sys._getframe(2)
        return (frame.f_code.co_filename, frame.f_lineno) == call

    class Ignoring(LostFiles):
        def fdatasync(self, fd: int) -> None:
            if not ignored():
                super().fdatasync(fd)

        def sync_directory(self, path: Path) -> None:
            if not ignored():
                super().sync_directory(path)

    return Ignoring


@pytest.mark.parametrize(
    "first_seed", [0, *(pytest.param(each, marks=pytest.mark.soak) for each in range(100, 4_000, 100))]
)
def test_the_power_fails_when_a_swap_is_resumed(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 100):
        assert not _resuming_fails(seed, LostFiles), seed


def _resuming_fails(seed: int, files_type: type[LostFiles]) -> bool:
    """The process is killed before the swap file's name is synced, and the power fails at the next start."""
    rng = random.Random(seed)
    files = files_type(rng=rng)
    files.mkdir(DATA_DIR.parents[1])
    files.sync_directory(Path("/"))
    log = opened(DATA_DIR, files)
    append(log, *"abcabcab")
    rename = files.rename

    def dies_then(source: Path, target: Path) -> None:
        rename(source, target)
        if target.suffix == ".swap":
            files.crash_at = files.calls

    with mock.patch.object(files, "rename", dies_then), pytest.raises(PowerFailure):
        Cleaner(DATA_DIR, log.partition_logs(), ALWAYS, files=files).step(0)
    files = files.after_kill()
    files.crash_at = rng.randrange(8, 24)
    with suppress(PowerFailure):
        list(OffsetsLog.open(DATA_DIR, 1, files=files).recover(0))
    log = OffsetsLog.open(DATA_DIR, 1, files=files.after_power_failure())
    try:
        return not {5, 6, 7} <= {record.offset for record in log.recover(0)}
    except LogError:
        return True


def _fails(seed: int, files: type[LostFiles]) -> bool:
    try:
        Lives(seed, files).run(LIVES)
    except (AssertionError, CorruptLog, LogError):
        return True
    return False


# --- in a real log ---------------------------------------------------------------------------------------------------

ALWAYS = CleanerSettings(min_cleanable_ratio=0.0)


STRICT = LogSettings(segment_bytes=100)
LOOSE = LogSettings(segment_bytes=100, flush_interval_messages=1000, flush_interval_ms=10)


def opened(data_dir: Path, files: Files, settings: LogSettings = STRICT) -> OffsetsLog:
    log = OffsetsLog.open(data_dir, 1, settings=settings, files=files)
    assert list(log.recover(0)) == []
    return log


def append(log: OffsetsLog, *keys: str) -> None:
    for key in keys:
        assert log.write([PartitionWrite(0, [[(key.encode(), b"value")]], 1_000)]) == {}


def offsets_in(log: OffsetsLog) -> list[int]:
    return [record.offset for batch in log.partition_log(0).read() for record in batch.records]


def test_the_next_step_completes_what_a_failed_call_left() -> None:
    for call in range(100):
        files = LostFiles()
        files.mkdir(DATA_DIR.parents[1])
        log = opened(DATA_DIR, files)
        append(log, *"abcabcab")
        failing = files.calls + call
        files.errors = {failing: errno.EIO}
        cleaner = Cleaner(DATA_DIR, log.partition_logs(), ALWAYS, files=files)
        first = cleaner.step(0)
        if files.calls <= failing:
            assert first is not None
            assert call > 20
            return
        assert first is None
        assert cleaner.step(0) is not None, call
        assert cleaner.step(0) is None
        assert [segment.base_offset for segment in log.partition_log(0).closed_segments()] == [0]
        assert offsets_in(log) == [4, 5, 6, 7], call
        log.close()


class HeldFiles(Files):
    """Holds the first call of a method for a path that ends so, until it is let go."""

    def __init__(self) -> None:
        self.method = self.ending = ""
        self.held = threading.Event()
        self.go_on = threading.Event()

    def hold(self, method: str, ending: str) -> None:
        self.held.clear()
        self.go_on.clear()
        self.method, self.ending = method, ending

    def _call(self, method: str, path: Path) -> None:
        if method == self.method and str(path).endswith(self.ending) and not self.held.is_set():
            self.held.set()
            assert self.go_on.wait(20)

    def create(self, path: Path) -> int:
        self._call("create", path)
        return super().create(path)

    def rename(self, source: Path, target: Path) -> None:
        self._call("rename", target)
        super().rename(source, target)

    def unlink(self, path: Path) -> None:
        self._call("unlink", path)
        super().unlink(path)


class Step(threading.Thread):
    """A cleaner's step in a thread of its own."""

    def __init__(self, cleaner: Cleaner) -> None:
        super().__init__()
        self._cleaner = cleaner
        self.stats: CleanerStats | None = None
        self.start()

    def run(self) -> None:
        self.stats = self._cleaner.step(0)

    def ended(self) -> CleanerStats | None:
        self.join(20)
        assert not self.is_alive()
        return self.stats


HELD = pytest.mark.parametrize(
    ("method", "ending"),
    [("create", ".cleaned"), ("rename", ".swap"), ("rename", ".deleted"), ("rename", ".log"), ("unlink", ".deleted")],
)


@HELD
@pytest.mark.parametrize("settings", [STRICT, LOOSE], ids=["strict", "loose"])
def test_appends_rolls_and_flushes_go_on_wherever_a_round_is(
    tmp_path: Path, settings: LogSettings, method: str, ending: str
) -> None:
    files = HeldFiles()
    log = opened(tmp_path, files, settings)
    append(log, *"abcabcab")
    files.hold(method, ending)
    step = Step(Cleaner(tmp_path, log.partition_logs(), ALWAYS, files=files))
    assert files.held.wait(20)
    append(log, *"xyzab")
    assert log.maintain(1_000_000).failed == {}
    assert log.partition_log(0).recovery_point == 13
    files.go_on.set()
    assert step.ended() is not None
    assert offsets_in(log) == [*range(4, 8), *range(8, 13)]
    assert [segment.base_offset for segment in log.partition_log(0).closed_segments()] == [0, *range(7, 12)]
    log.close()
    log = OffsetsLog.open(tmp_path, 1)
    assert [record.offset for record in log.recover(0)] == list(range(4, 13))
    log.close()


@HELD
def test_a_reader_goes_on_wherever_a_round_is(tmp_path: Path, method: str, ending: str) -> None:
    files = HeldFiles()
    log = opened(tmp_path, files)
    append(log, *"abcabcab")
    batches = log.partition_log(0).read()
    found = [next(batches).records[0].offset]
    files.hold(method, ending)
    step = Step(Cleaner(tmp_path, log.partition_logs(), ALWAYS, files=files))
    assert files.held.wait(20)
    files.go_on.set()
    assert step.ended() is not None
    found += [record.offset for batch in batches for record in batch.records]
    assert found[0] == 0
    assert [offset for offset in found if offset >= 4] == [4, 5, 6, 7]
    log.close()


def test_a_recovery_breaks_a_round_off(tmp_path: Path) -> None:
    files = HeldFiles()
    log = opened(tmp_path, files)
    append(log, *"abcabcab")
    cleaner = Cleaner(tmp_path, log.partition_logs(), ALWAYS, files=files)
    files.hold("create", ".cleaned")
    step = Step(cleaner)
    assert files.held.wait(20)
    recovery = log.recover(0)
    assert next(recovery).offset == 0
    files.go_on.set()
    assert step.ended() is None
    assert [record.offset for record in recovery] == list(range(1, 8))
    assert len(log.partition_log(0).closed_segments()) == 7
    assert not list(log.partition_log(0).folder.glob("*.cleaned"))
    assert cleaner.step(0) is not None
    assert offsets_in(log) == [4, 5, 6, 7]
    log.close()
