"""Damage anywhere in a log of several segments, compacted or not: where it may have hit acknowledged records it is
refused, by file and position; a torn tail is cut; never is anything else served than what was written.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from protocol.partition import OFFSETS_TOPIC
from protocol.records.batches import batches, read_header, records_of
from protocol.topic_partition import TopicPartition
from shim.log.cleaner.cleaner import Cleaner
from shim.log.cleaner.cleaning import CleanerSettings
from shim.log.directory.handover import CLEAN_SHUTDOWN
from shim.log.disk.checkpoint import RECOVERY_POINT_CHECKPOINT, read_checkpoint
from shim.log.disk.files import Files
from shim.log.disk.layout import segment_name
from shim.log.errors import CorruptLog
from shim.log.journal.journal import JOURNAL_NAME
from shim.log.offsets_log import OffsetsLog
from tests.log.lost_files import LostFiles
from tests.log.rolled import NOW, SMALL, append, folder_of, opened, segment_of

DATA_DIR = Path("/disk/data")
FOLDER = folder_of(DATA_DIR)
LEADER_EPOCH = range(12, 16)  # of a batch: no CRC covers it, and nobody reads it
BASE_OFFSET = range(8)  # covered by no CRC either; what follows on what protects it
KEYS = 7
BATCHES = 32

State = dict[bytes, bytes | None]
Content = dict[Path, bytes]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


class Batch(NamedTuple):
    path: Path
    position: int
    end: int
    base_offset: int
    next_offset: int


class Disk(NamedTuple):
    """``states``: the newest value of each key, by the offset up to which the log is read."""

    content: Content
    batches: list[Batch]
    states: dict[int, State]

    @property
    def segments(self) -> list[Path]:
        return sorted({batch.path for batch in self.batches})

    @property
    def end(self) -> Batch:
        return self.batches[-1]

    def at(self, path: Path, position: int) -> Batch:
        return next(batch for batch in self.batches if batch.path == path and batch.position <= position < batch.end)


def written(*, compacted: bool) -> Disk:
    """A log that was killed, without its journal, which would put the active segment right. The last roll put the
    recovery point behind the active segment's first batch."""
    files = LostFiles()
    log = opened(DATA_DIR, files=files)
    state: State = {}
    states: dict[int, State] = {0: {}}
    for number in range(BATCHES):
        records = [(b"key-%d" % ((number + i) % KEYS), b"%d" % number) for i in range(1 + number % 3)]
        append(log, *records, timestamp_ms=NOW + number)
        state = state | dict(records)
        states[log.log_end_offset(0)] = state
    if compacted:
        settings = CleanerSettings(min_cleanable_ratio=0.0, segment_bytes=SMALL.segment_bytes)
        assert Cleaner(DATA_DIR, log.partition_logs(), settings, files=files).step(NOW) is not None
    left_out = (".index", Path(JOURNAL_NAME).suffix)
    content = {path: data for path, data in files.content().items() if path.suffix not in left_out}
    found = [
        Batch(path, position, position + header.size, header.base_offset, header.next_offset)
        for path, data in sorted(content.items())
        if path.suffix == ".log"
        for position, header in batches(data)
    ]
    return Disk(content, found, states)


def disk_of(content: Content) -> LostFiles:
    files = LostFiles()
    for path in sorted(content):
        for folder in reversed(path.parents[:-1]):
            if not files.exists(folder):
                files.mkdir(folder)
        fd = files.create(path)
        files.write_at(fd, content[path], 0)
        files.close(fd)
    return files.after_kill()


def read(content: Content) -> tuple[int, State, Content]:
    """Where the log ends, the newest values, and what is on the disk then. Raises CorruptLog."""
    files = disk_of(content)
    log = OffsetsLog.open(DATA_DIR, 1, settings=SMALL, files=files)
    try:
        state = {record.key: record.value for record in log.recover(0)}
        return log.log_end_offset(0), state, files.content()
    finally:
        log.close()
        assert files.open_files == 0


def read_or_refused(content: Content) -> tuple[int, State, Content] | CorruptLog:
    try:
        return read(content)
    except CorruptLog as corrupt:
        return corrupt


def refused(content: Content) -> CorruptLog:
    found = read_or_refused(content)
    assert isinstance(found, CorruptLog), "damage that went unnoticed"
    return found


@pytest.fixture(scope="module", params=[False, True], ids=["as written", "compacted"])
def disk(request: pytest.FixtureRequest) -> Disk:
    disk = written(compacted=request.param)
    assert len(disk.segments) > 3
    assert len([batch for batch in disk.batches if batch.path == disk.end.path]) > 2
    return disk


def recovery_point(disk: Disk) -> int:
    return next(batch for batch in disk.batches if batch.path == disk.end.path).next_offset


def test_the_scene(disk: Disk) -> None:
    end, state, _ = read(disk.content)
    assert (end, state) == (disk.end.next_offset, disk.states[disk.end.next_offset])
    points = read_checkpoint(disk_of(disk.content), DATA_DIR / RECOVERY_POINT_CHECKPOINT)
    assert points == {TopicPartition(OFFSETS_TOPIC, 0): recovery_point(disk)}
    assert DATA_DIR / CLEAN_SHUTDOWN not in disk.content


def check(disk: Disk, content: Content, changed: list[int], path: Path) -> None:
    """What has to come of damage to these bytes of a segment."""
    batch = disk.at(path, changed[0])
    bytes_in_batch = {at - batch.position for at in changed if at < batch.end}
    if disk.at(path, changed[-1]) == disk.end and batch.base_offset >= recovery_point(disk):
        _check_tail(disk, content, batch, bytes_in_batch)
    elif bytes_in_batch <= {*LEADER_EPOCH, *BASE_OFFSET}:
        # In a gap that compaction left, another base offset can be right, too; values are what they were.
        found = read_or_refused(content)
        if isinstance(found, CorruptLog):
            assert (found.path, found.position) in _places(disk, batch)
        else:
            end, state, _ = found
            assert (end, state) == (disk.end.next_offset, disk.states[end])
    else:
        corrupt = refused(content)
        assert (corrupt.path, corrupt.position) == (batch.path, batch.position)


def _places(disk: Disk, batch: Batch) -> set[tuple[Path, int]]:
    """Where a wrong base offset is noticed: there, at the next batch, or at the segment's end."""
    return {(batch.path, batch.position), (batch.path, batch.end)}


def _check_tail(disk: Disk, content: Content, batch: Batch, bytes_in_batch: set[int]) -> None:
    found = read_or_refused(content)
    if isinstance(found, CorruptLog):
        assert bytes_in_batch <= set(BASE_OFFSET), "a higher one is no torn write"
        assert (found.path, found.position) == (batch.path, batch.position)
        return
    end, state, after = found
    if bytes_in_batch <= set(LEADER_EPOCH):
        assert (end, state) == (disk.end.next_offset, disk.states[end])
    else:
        assert (end, state) == (batch.base_offset, disk.states[end])
        copy = after[batch.path.with_name(f"{batch.path.name}.cut-{batch.position}")]
        assert copy == content[batch.path][batch.position :]


EVERY = pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.soak)])
"""One byte of so many is damaged: of each batch others, and all batches have the same fields."""


@EVERY
def test_a_flipped_bit_anywhere(disk: Disk, every: int) -> None:
    for number, batch in enumerate(disk.batches):
        for position in range(batch.position + number % every, batch.end, every):
            damaged = bytearray(disk.content[batch.path])
            damaged[position] ^= 1 << position % 8
            content = {**disk.content, batch.path: bytes(damaged)}
            check(disk, content, [position], batch.path)


@pytest.mark.parametrize("size", [16, 64, 512])
def test_zeroed_blocks_anywhere(disk: Disk, size: int) -> None:
    for path in disk.segments:
        data = disk.content[path]
        for start in range(0, len(data), size // 2):
            zeroed = data[:start] + bytes(min(size, len(data) - start)) + data[start + size :]
            changed = [at for at, (old, new) in enumerate(zip(data, zeroed, strict=True)) if old != new]
            if changed:
                check(disk, {**disk.content, path: zeroed}, changed, path)


@EVERY
def test_truncation_anywhere_in_every_segment(disk: Disk, every: int) -> None:
    for number, path in enumerate(disk.segments):
        data = disk.content[path]
        for size in range(number % every, len(data), every):
            content = {**disk.content, path: data[:size]}
            batch = disk.at(path, size)
            if path != disk.end.path or batch.base_offset < recovery_point(disk):
                corrupt = refused(content)
                assert (corrupt.path, corrupt.position) == (path, batch.position)
            else:
                end, state, after = read(content)
                assert (end, state) == (batch.base_offset, disk.states[end])
                copies = [data for path, data in after.items() if ".cut-" in path.name]
                assert copies == ([data[batch.position : size]] if size > batch.position else [])


def test_garbage_behind_every_segment(disk: Disk) -> None:
    for path in disk.segments:
        data = disk.content[path]
        for tail in (b"\0", bytes(70), b"\xff" * 70, data[:30], b"\x02" * 200):
            content = {**disk.content, path: data + tail}
            if path != disk.end.path:
                corrupt = refused(content)
                assert (corrupt.path, corrupt.position) == (path, len(data))
            else:
                end, state, after = read(content)
                assert (end, state) == (disk.end.next_offset, disk.states[end])
                assert after[path.with_name(f"{path.name}.cut-{len(data)}")] == tail


def test_a_missing_segment(disk: Disk) -> None:
    for at, path in enumerate(disk.segments):
        content = {name: data for name, data in disk.content.items() if name != path}
        corrupt = refused(content)
        before = disk.segments[at - 1]
        expected = (path, 0) if at == 0 else (before, len(disk.content[before]))
        assert (corrupt.path, corrupt.position) == expected


def test_an_emptied_segment(disk: Disk) -> None:
    for path in disk.segments:
        corrupt = refused({**disk.content, path: b""})
        assert (corrupt.path, corrupt.position) == (path, 0)


def test_segments_in_each_others_place(disk: Disk) -> None:
    first, second, *_ = disk.segments
    content = {**disk.content, first: disk.content[second], second: disk.content[first]}
    assert refused(content).path == first


def test_where_the_log_was_closed_in_good_order_nothing_is_cut(disk: Disk) -> None:
    clean = {**disk.content, DATA_DIR / CLEAN_SHUTDOWN: b"{}"}
    assert read(clean)[0] == disk.end.next_offset
    path, position, *_ = disk.end
    for damaged in (clean[path][:-1], clean[path][: position + 20], clean[path] + b"\0"):
        corrupt = refused({**clean, path: damaged})
        assert (corrupt.path, corrupt.position) == (
            path,
            position if len(damaged) < len(clean[path]) else len(clean[path]),
        )


def test_without_its_newest_segment_a_log_is_never_taken_for_whole(tmp_path: Path) -> None:
    """Killed right after the write that rolled was acknowledged, and then the file is lost."""
    log = opened(tmp_path)
    written = 0
    while len(log.partition_log(0).closed_segments()) < 2:
        append(log, (b"key", b"%d" % written))
        written += 1
        newest = max(folder_of(tmp_path).glob("*.log"))
        assert newest == segment_of(tmp_path, int(newest.stem))
    points = read_checkpoint(Files(), tmp_path / RECOVERY_POINT_CHECKPOINT)
    assert points[TopicPartition(OFFSETS_TOPIC, 0)] == written == int(newest.stem) + 1
    log.partition_log(0).close()
    newest.unlink()
    log.data_dir.close()
    again = OffsetsLog.open(tmp_path, 1)
    with pytest.raises(CorruptLog, match="synced were"):
        list(again.recover(0))
    again.close()
    assert segment_name(0) in {path.name for path in folder_of(tmp_path).iterdir()}


# --- several damages at once -----------------------------------------------------------------------------------------

KINDS = ("flip", "zero", "cut", "garbage", "its beginning", "move", "missing")


def damaged(disk: Disk, rng: random.Random) -> Content:
    content = dict(disk.content)
    for _ in range(rng.randrange(1, 4)):
        path = rng.choice([path for path in disk.segments if content.get(path)])
        data = content.pop(path)
        first, second = sorted((rng.randrange(len(data)), rng.randrange(len(data))))
        match rng.choice(KINDS):
            case "flip":
                content[path] = data[:first] + bytes((data[first] ^ 1 << rng.randrange(8),)) + data[first + 1 :]
            case "zero":
                content[path] = data[:first] + bytes(second - first) + data[second:]
            case "cut":
                content[path] = data[:first]
            case "garbage":
                content[path] = data + rng.randbytes(rng.randrange(1, 200))
            case "its beginning":
                content[path] = data + data[:first]
            case "move":
                content[path] = data[:first] + data[second:]
    return content


def check_any(disk: Disk, seeds: range) -> int:
    """What is served is what was written up to some offset, and nothing that was synced is missing. How often."""
    served = 0
    for seed in seeds:
        content = damaged(disk, random.Random(seed))
        found = read_or_refused(content)
        if not isinstance(found, CorruptLog):
            end, state, _ = found
            assert end >= recovery_point(disk), seed
            assert state in (disk.states[end], without_whole_batches(disk, content)), seed
            served += 1
    return served


def without_whole_batches(disk: Disk, content: Content) -> State | None:
    """The newest values where of some closed segment batches are missing, and the last one is there: that is how
    compaction leaves it, so nobody can see that it was none. None where anything else has changed."""
    state: State = {}
    for path in disk.segments:
        data, left, position = content.get(path, b""), [], 0
        for batch in (batch for batch in disk.batches if batch.path == path):
            raw = disk.content[path][batch.position : batch.end]
            if data.startswith(raw, position):
                left.append(batch)
                position += len(raw)
                state |= {record.key: record.value for record in records_of(raw, 0, read_header(raw)) if record.key}
        if position < len(data) or not left or left[-1].next_offset != closing(disk, path):
            return None
    return state


def closing(disk: Disk, path: Path) -> int:
    """Where the segment ends."""
    return max(batch.next_offset for batch in disk.batches if batch.path == path)


def test_batches_that_compaction_could_have_taken_are_not_missed() -> None:
    """The one damage that goes unnoticed: a hole in a closed segment, of whole batches."""
    disk = written(compacted=False)
    path = disk.segments[-2]
    first, *_, last = (batch for batch in disk.batches if batch.path == path)
    assert without_whole_batches(disk, disk.content) == disk.states[disk.end.next_offset]
    content = {**disk.content, path: disk.content[path][last.position :]}
    end, state, _ = read(content)
    assert end == disk.end.next_offset
    assert state == without_whole_batches(disk, content) != disk.states[end]
    for other in (disk.content[path][first.end : -1], disk.content[path][: last.position], b""):
        assert without_whole_batches(disk, {**disk.content, path: other}) is None


def test_any_damage(disk: Disk) -> None:
    assert check_any(disk, range(500)) > 5


@pytest.mark.soak
def test_much_damage(disk: Disk) -> None:
    assert check_any(disk, range(1_000, 101_000)) > 1_000
