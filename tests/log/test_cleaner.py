"""Compaction: what is in the log means the same before and after, at every moment, whatever breaks off."""

from __future__ import annotations

import errno
import json
import logging
import os
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from itertools import count, pairwise
from pathlib import Path
from threading import Event
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.offsets_log import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_key,
    encode_value,
)
from protocol.records.batches import NO_TIMESTAMP, BatchHeader, Record, batches, encode_batch, records_of
from shim.log.checkpoint import CLEANER_OFFSET_CHECKPOINT, TopicPartition, read_checkpoint, write_checkpoint
from shim.log.cleaner import Cleaner
from shim.log.cleaning import CleanerSettings, CleanerStats, CleaningStopped, Throttler
from shim.log.compaction import Dirtiness, OffsetMap, cleaned_batch, dirtiness, group_segments
from shim.log.data_dir import index_name, segment_base_offsets, segment_name
from shim.log.errors import CorruptLog
from shim.log.files import Files
from shim.log.partition import PartitionLog
from shim.log.recovery import LeftBehind
from shim.log.segment import Segment, SoundBatch
from shim.log.settings import LogSettings
from shim.log.swap import finish_swap
from tests.log.faulty_files import FaultyFiles
from tests.log_format.dump import Dumped
from tests.log_format.dump import dumped as dumped_by_kafka

NOW = 1_700_000_000_000
RETENTION = 24 * 3600 * 1000
ALWAYS = CleanerSettings(min_cleanable_ratio=0.0)


class Pair(NamedTuple):
    key: bytes
    value: bytes | None


def put(key: str, value: str | None = "v") -> Pair:
    return Pair(key.encode(), None if value is None else value.encode())


class Folder(PartitionLog):
    """A partition as the cleaner sees it: a folder of closed segments, and an active one behind them."""

    def __init__(self, data_dir: Path, files: Files | None = None, partition: int = 0) -> None:
        self.files = files or Files()
        topic_partition = TopicPartition("topic", partition)
        folder = data_dir / str(topic_partition)
        folder.mkdir(exist_ok=True)
        super().__init__(self.files, folder, topic_partition, LogSettings(), LeftBehind(clean=True, loose=False), 0)
        self.swap_failed = False
        self.refuses_swaps = False
        if not segment_base_offsets(Files(), self.folder):
            (self.folder / segment_name(0)).touch()

    @property
    def active(self) -> Path:
        return self.folder / segment_name(segment_base_offsets(Files(), self.folder)[-1])

    @property
    def end_offset(self) -> int:
        last = [header for _, header in batches(self.active.read_bytes())]
        return last[-1].next_offset if last else int(self.active.stem)

    def append(self, *records: Pair, timestamp_ms: int = NOW) -> None:
        with self.active.open("ab") as file:
            file.write(encode_batch(self.end_offset, records, timestamp_ms))

    def begin_segment(self) -> None:
        (self.folder / segment_name(self.end_offset)).touch()

    def closed_segments(self) -> list[Segment]:
        found = []
        for base, following in pairwise(segment_base_offsets(self.files, self.folder)):
            path = self.folder / segment_name(base)
            found.append(Segment(path, base, following, path.stat().st_size))
        return found

    def swap_segments(self, old: Sequence[Segment], swap: Callable[[], None]) -> bool:
        if self.swap_failed:
            finish_swap(self.files, self.folder)
            self.swap_failed = False
        if self.refuses_swaps or not old:
            return False
        assert list(old) == [segment for segment in self.closed_segments() if segment in old]
        self.swap_failed = True
        swap()
        self.swap_failed = False
        return True

    # --- what is in it -----------------------------------------------------------------------------------------------

    def logged(self) -> Iterator[tuple[BatchHeader, list[Record]]]:
        """Every batch; asserts that the segments join, and that offsets rise."""
        bases = segment_base_offsets(Files(), self.folder)
        assert bases[0] == 0
        due = 0
        for base in bases:
            assert due == base
            log = (self.folder / segment_name(base)).read_bytes()
            for position, header in batches(log):
                assert header.base_offset >= due
                due = header.next_offset
                yield header, records_of(log, position, header)

    def records(self) -> list[Record]:
        return [record for _, records in self.logged() for record in records]

    def replay(self) -> dict[bytes | None, tuple[int, bytes]]:
        """Offset and value of every key that has one."""
        newest: dict[bytes | None, tuple[int, bytes]] = {}
        for record in self.records():
            if record.value is None:
                newest.pop(record.key, None)
            else:
                newest[record.key] = (record.offset, record.value)
        return newest

    def contents(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.folder.iterdir()}


def cleaner(folder: Folder, settings: CleanerSettings = ALWAYS) -> Cleaner:
    return Cleaner(folder.folder.parent, [folder], settings, files=folder.files)


def clean(folder: Folder, settings: CleanerSettings = ALWAYS, now_ms: int = NOW) -> CleanerStats:
    stats = cleaner(folder, settings).step(now_ms)
    assert stats is not None
    return stats


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def sound(raw: bytes) -> SoundBatch:
    ((position, header),) = batches(raw)
    return SoundBatch(position, header.size, header, records_of(raw, position, header), raw)


# --- what is cleaned -------------------------------------------------------------------------------------------------


def segments_of(*sizes: int, offsets: int = 10) -> list[Segment]:
    return [Segment(Path(str(i)), i * offsets, (i + 1) * offsets, size) for i, size in enumerate(sizes)]


@pytest.mark.parametrize(
    ("first_dirty", "expected"),
    [(0, Dirtiness(0, 60)), (9, Dirtiness(0, 60)), (10, Dirtiness(10, 50)), (20, Dirtiness(30, 30)), (30, (60, 0))],
)
def test_dirtiness(first_dirty: int, expected: tuple[int, int]) -> None:
    assert dirtiness(segments_of(10, 20, 30), first_dirty) == expected


def test_the_dirty_ratio() -> None:
    assert dirtiness([], 0).ratio == 0
    assert dirtiness(segments_of(10, 20, 30), 20).ratio == 0.5
    assert dirtiness(segments_of(10, 20, 30), 30).ratio == 0


def test_segments_are_grouped_by_size() -> None:
    sizes = [[segment.size for segment in group] for group in group_segments(segments_of(4, 4, 4, 9, 30, 1), 12, 99)]
    assert sizes == [[4, 4, 4], [9], [30], [1]]


def test_segments_are_grouped_by_index_size() -> None:
    groups = group_segments(segments_of(*[4096 * 3] * 5), 1 << 30, 2 * 3 * 8)
    assert list(map(len, groups)) == [2, 2, 1]


def test_segments_are_grouped_by_offsets() -> None:
    step = 2**30
    groups = group_segments(segments_of(1, 1, 1, 1, 1, offsets=step), 100, 100)
    assert list(map(len, groups)) == [2, 2, 1], "relative offsets up to 2^31 - 1"


def test_a_partition_is_cleaned_when_it_is_dirty_enough_and_the_dirtiest_first(tmp_path: Path) -> None:
    folders = [Folder(tmp_path, partition=i) for i in range(4)]
    for folder in folders:
        for _ in range(4):
            folder.append(put("a"))
            folder.begin_segment()
    clean_up_to = Cleaner(tmp_path, folders, CleanerSettings())
    assert {clean_up_to.step(NOW).partition.partition for _ in folders} == {0, 1, 2, 3}  # type: ignore[union-attr]
    assert clean_up_to.step(NOW) is None
    one_size = folders[0].closed_segments()[0].size
    for folder, segments in zip(folders, (0, 1, 4, 2), strict=True):
        assert folder.closed_segments()[0].size == one_size, "one record is left"
        for _ in range(segments):
            folder.append(put("a"))
            folder.begin_segment()
    cleaned = [clean_up_to.step(NOW) for _ in range(2)]
    assert [(stats.partition.partition, round(stats.ratio, 2)) for stats in cleaned if stats] == [(2, 0.8), (3, 0.67)]
    assert clean_up_to.step(NOW) is None, "one half is not more than 0.5"
    again = Cleaner(tmp_path, folders, CleanerSettings(min_cleanable_ratio=0.49))
    stats = again.step(NOW)
    assert stats is not None
    assert stats.partition.partition == 1
    assert again.step(NOW) is None


def test_the_active_segment_is_left_alone(folder: Folder) -> None:
    folder.append(put("a"))
    folder.append(put("a"))
    assert cleaner(folder).step(NOW) is None
    folder.begin_segment()
    folder.append(put("a"))
    before = folder.active.read_bytes()
    assert clean(folder).end_offset == 2
    assert folder.active.read_bytes() == before
    assert [record.offset for record in folder.records()] == [1, 2], "what is newer in the active one is not looked at"


# --- the offset map --------------------------------------------------------------------------------------------------


def test_the_offset_map_takes_no_more_memory_than_it_says() -> None:
    keys = [b"group-%d:a-topic-with-a-name:%d" % (i % 997, i) for i in range(150_000)]
    raw = [sound(encode_batch(i, [(key, None) for key in keys[i : i + 500]], NOW)) for i in range(0, len(keys), 500)]
    newest = OffsetMap(0, 1 << 40)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for batch in raw:
            newest.add(
                batch._replace(
                    records=[record._replace(key=bytes(bytearray(record.key or b""))) for record in batch.records]
                )
            )
        after, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(newest) == len(keys)
    assert peak - before <= newest.size_bytes + 500 * 300, "and the batch that is being added"
    assert newest.size_bytes <= 3 * (after - before)


def test_a_full_map_cleans_up_to_there(folder: Folder) -> None:
    for i in range(30):
        folder.append(put(f"key-{i % 3}", str(i)), put(f"other-{i}"))
        if i % 7 == 6:
            folder.begin_segment()
    before = folder.replay()
    closed = folder.closed_segments()
    tight = CleanerSettings(min_cleanable_ratio=0.0, dedupe_buffer_size=1000)
    ends = []
    while (stats := cleaner(folder, tight).step(NOW)) is not None:
        ends.append(stats.end_offset)
        assert stats.keys <= 8
        assert stats.first_dirty_offset == ([0, *ends][-2])
        assert folder.replay() == before
    assert ends == sorted(set(ends))
    assert ends[-1] == closed[-1].next_offset
    assert len(ends) > 3
    kept = [record.key for record in folder.records() if record.offset < ends[-1]]
    assert len(kept) == len(set(kept))


# --- cleaned batches -------------------------------------------------------------------------------------------------


def newest_of(*raw: bytes) -> OffsetMap:
    newest = OffsetMap(0, 1 << 30)
    for batch in raw:
        newest.add(sound(batch))
    return newest


def one_cleaned(raw: bytes, newest: OffsetMap, now_ms: int = NOW, *, keep_empty: bool = False) -> bytes:
    cleaned = cleaned_batch(sound(raw), newest, now_ms, RETENTION, keep_empty=keep_empty)
    assert cleaned.record_count == (sound(cleaned.data).header.record_count if cleaned.data else 0)
    return cleaned.data


def test_a_batch_of_which_nothing_changes_is_the_same_bytes() -> None:
    raw = encode_batch(7, [put("a"), put("b")], NOW, leader_epoch=3)
    assert one_cleaned(raw, newest_of(raw)) is not None
    assert one_cleaned(raw, newest_of(raw)) == raw


def test_a_batch_keeps_its_offsets_when_records_go() -> None:
    raw = encode_batch(7, [put("a"), put("b"), put("c"), put("d")], NOW, leader_epoch=3)
    newer = encode_batch(11, [put("a"), put("c"), put("d")], NOW + 1)
    cleaned = sound(one_cleaned(raw, newest_of(raw, newer)))
    assert cleaned.records == [Record(b"b", b"v", (), NOW, 8)]
    before = sound(raw).header
    assert cleaned.header == before._replace(length=cleaned.header.length, crc=cleaned.header.crc, record_count=1)
    assert (cleaned.header.base_offset, cleaned.header.last_offset) == (7, 10)


def test_an_empty_batch_is_dropped_or_kept_as_a_header() -> None:
    raw = encode_batch(7, [put("a"), put("b", None)], NOW, leader_epoch=3)
    newer = encode_batch(9, [put("a"), put("b")], NOW + 1)
    newest = newest_of(raw, newer)
    assert one_cleaned(raw, newest) == b""
    kept = one_cleaned(raw, newest, keep_empty=True)
    header = sound(kept).header
    assert (header.base_offset, header.last_offset, header.record_count, header.size) == (7, 8, 0, 61)
    assert (header.base_timestamp, header.max_timestamp, header.partition_leader_epoch) == (NO_TIMESTAMP, NOW, 3)
    assert one_cleaned(kept, newest, keep_empty=True) == kept
    assert one_cleaned(kept, newest) == b""


def test_a_tombstone_before_the_map_gets_no_delete_horizon() -> None:
    """What it stands for was not looked for, and may be there."""
    raw = encode_batch(7, [put("a", None), put("b")], NOW)
    later = encode_batch(9, [put("c"), put("b"), put("d", None)], NOW)
    newest = OffsetMap(9, 1 << 30)
    newest.add(sound(later))
    cleaned = sound(one_cleaned(raw, newest))
    assert cleaned.header.delete_horizon is None
    assert cleaned.records == sound(raw).records[:1]
    assert sound(one_cleaned(later, newest)).header.delete_horizon == NOW + RETENTION


def test_a_checkpoint_that_is_of_another_copy_of_the_log_brings_nothing_back(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.append(put("deleted"))
    folder.append(put("other"))
    folder.append(put("deleted", None))
    folder.begin_segment()
    folder.append(put("new"))
    folder.begin_segment()
    write_checkpoint(Files(), tmp_path / CLEANER_OFFSET_CHECKPOINT, {folder.topic_partition: 3})
    clean(folder)
    folder.append(put("newer"))
    folder.begin_segment()
    clean(folder, now_ms=NOW + RETENTION)
    assert folder.replay().keys() == {b"other", b"new", b"newer"}


def test_a_tombstone_gets_a_delete_horizon_and_goes_when_it_is_over() -> None:
    raw = encode_batch(7, [put("a"), put("b", None)], NOW)
    newest = newest_of(raw)
    once = one_cleaned(raw, newest)
    batch = sound(once)
    assert batch.header.delete_horizon == NOW + RETENTION
    assert batch.header.max_timestamp == NOW
    assert batch.records == sound(raw).records
    assert one_cleaned(once, newest, NOW + RETENTION - 1) == once, "the horizon is set once"
    later = one_cleaned(once, newest, NOW + RETENTION)
    assert sound(later).records == batch.records[:1]
    assert sound(later).header.delete_horizon == NOW + RETENTION
    assert one_cleaned(later, newest, NOW + 2 * RETENTION) == later
    newer = encode_batch(9, [put("a")], NOW)
    emptied = one_cleaned(later, newest_of(raw, newer), NOW + 2 * RETENTION, keep_empty=True)
    assert sound(emptied).header.delete_horizon is None


def test_the_max_timestamp_is_that_of_the_records_left(folder: Folder) -> None:
    folder.append(put("a"), put("b"), timestamp_ms=NOW + 5)
    newer = encode_batch(2, [put("b")], NOW)
    raw = folder.active.read_bytes()
    assert sound(one_cleaned(raw, newest_of(raw, newer))).header.max_timestamp == NOW + 5


def test_batches_behind_the_map_stay_as_they_are() -> None:
    raw = encode_batch(7, [put("a"), put("a", None)], NOW)
    assert one_cleaned(raw, OffsetMap(0, 1)) == raw


# --- random logs -----------------------------------------------------------------------------------------------------

KEYS = st.sampled_from([f"key-{i}" for i in range(6)])
RECORDS = st.builds(put, KEYS, st.one_of(st.none(), st.text(max_size=4)))
APPEND = st.tuples(st.just("append"), st.lists(RECORDS, min_size=1, max_size=4))
ROLL = st.tuples(st.just("roll"), st.none())
CLEAN = st.tuples(
    st.just("clean"),
    st.builds(
        CleanerSettings,
        min_cleanable_ratio=st.just(0.0),
        delete_retention_ms=st.just(1000),
        dedupe_buffer_size=st.sampled_from([1, 400, 900, 1 << 20]),
        segment_bytes=st.sampled_from([1, 200, 400, 1 << 20]),
    ),
)
PASS = st.tuples(st.just("pass"), st.sampled_from([1, 500, 1000]))


@settings(deadline=None, max_examples=300)
@given(actions=st.lists(st.one_of(APPEND, APPEND, APPEND, ROLL, ROLL, CLEAN, PASS), max_size=60))
def test_a_random_log(actions: list[tuple[str, object]], tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = Folder(tmp_path_factory.mktemp("log"))
    now = NOW
    written: dict[int, Pair] = {}
    values: dict[bytes, tuple[int, bytes]] = {}
    horizons: dict[int, int] = {}  # of the tombstones that were in a round of cleaning
    for action, argument in actions:
        if action == "append":
            assert isinstance(argument, list)
            for offset, pair in enumerate(argument, folder.end_offset):
                written[offset] = pair
                values.pop(pair.key, None)
                if pair.value is not None:
                    values[pair.key] = (offset, pair.value)
            folder.append(*argument, timestamp_ms=now)
        elif action == "roll":
            if folder.active.stat().st_size:
                folder.begin_segment()
        elif action == "pass":
            assert isinstance(argument, int)
            now += argument
        else:
            assert isinstance(argument, CleanerSettings)
            stats = cleaner(folder, argument).step(now)
            if stats is not None:
                check_cleaned(folder, stats, written, horizons, now)
        assert folder.replay() == values
        for record in folder.records():
            assert (record.key, record.value) == written[record.offset]


def check_cleaned(
    folder: Folder, stats: CleanerStats, written: dict[int, Pair], horizons: dict[int, int], now: int
) -> None:
    newest = {record.key: offset for offset, record in written.items() if offset < stats.end_offset}
    left = {record.offset for record in folder.records()}
    tombstones = set()
    for offset, record in written.items():
        if offset >= stats.end_offset:
            assert offset in left
        elif newest[record.key] != offset:
            assert offset not in left
        elif record.value is not None:
            assert offset in left
        else:
            tombstones.add(offset)
            assert (offset in left) == (now < horizons.get(offset, now + 1))
    for header, records in folder.logged():
        for offset in tombstones.intersection(record.offset for record in records):
            assert header.delete_horizon is not None
            assert horizons.setdefault(offset, header.delete_horizon) == header.delete_horizon
            assert now < header.delete_horizon <= now + 1000


def test_small_segments_become_one(folder: Folder) -> None:
    for i in range(10):
        folder.append(put(f"key-{i % 4}", str(i)))
        folder.begin_segment()
    before = folder.replay()
    (folder.folder / index_name(0)).write_bytes(b"old")
    (folder.folder / index_name(3)).write_bytes(b"old")
    stats = clean(folder)
    assert (stats.segments_read, stats.segments_written) == (10, 1)
    assert sorted(folder.contents()) == [segment_name(0), segment_name(10)], "indexes of what was replaced are gone"
    assert folder.replay() == before
    assert [record.offset for record in folder.records()] == [6, 7, 8, 9]


def test_a_segment_without_a_single_survivor_is_a_header(folder: Folder) -> None:
    for value in "123":
        folder.append(put("a", value), put("b", value))
        folder.append(put("a", value), put("b", value))
        folder.begin_segment()
    sizes = [segment.size for segment in folder.closed_segments()]
    clean(folder, CleanerSettings(min_cleanable_ratio=0.0, segment_bytes=1))
    assert [(s.base_offset, s.next_offset, s.size) for s in folder.closed_segments()] == [
        (0, 4, 61),
        (4, 8, 61),
        (8, 12, sizes[2] // 2),
    ]
    assert [record.offset for record in folder.records()] == [10, 11]
    folder.append(put("a", "4"))
    folder.begin_segment()
    clean(folder)
    assert [record.offset for record in folder.records()] == [11, 12], "joined later, the headers are gone"
    assert len(folder.closed_segments()) == 1


def test_a_segment_of_which_nothing_changes_is_not_swapped(folder: Folder) -> None:
    folder.append(put("a"))
    folder.begin_segment()
    folder.append(put("b"), put("c"))
    folder.begin_segment()
    one_each = CleanerSettings(min_cleanable_ratio=0.0, segment_bytes=1)
    inodes = [path.stat().st_ino for path in sorted(folder.folder.iterdir())]
    stats = clean(folder, one_each)
    assert (stats.segments_read, stats.segments_written) == (2, 0)
    assert [path.stat().st_ino for path in sorted(folder.folder.iterdir())] == inodes
    assert stats.records_read == stats.records_written == 3


# --- kills and failing calls -----------------------------------------------------------------------------------------


class Killed(BaseException):
    """The process is gone: no call of it reaches the disk any more."""


class MortalFiles(Files):
    """Dies at the call number ``at`` of those that change something: just before it, or half way through a write."""

    def __init__(self, at: int = 1 << 30) -> None:
        self.at = at
        self.calls = 0
        self.dies_after_rename = False

    def _call(self) -> None:
        self.calls += 1
        if self.calls >= self.at:
            raise Killed

    def create(self, path: Path) -> int:
        self._call()
        return super().create(path)

    def pwrite(self, fd: int, data: bytes | memoryview, position: int) -> int:
        if self.calls + 1 == self.at:
            super().pwrite(fd, data[: len(data) // 2], position)
        self._call()
        return super().pwrite(fd, data, position)

    def fdatasync(self, fd: int) -> None:
        self._call()
        super().fdatasync(fd)

    def fsync(self, fd: int) -> None:
        self._call()
        super().fsync(fd)

    def sync_directory(self, path: Path) -> None:
        self._call()
        super().sync_directory(path)

    def rename(self, source: Path, target: Path) -> None:
        self._call()
        super().rename(source, target)
        if self.dies_after_rename:
            self.at = 0

    def unlink(self, path: Path) -> None:
        self._call()
        super().unlink(path)


def merged(folder: Folder) -> None:
    """Five small segments, cleaned into one; of the third to the fifth nothing but the end is left."""
    for value in "12":
        folder.append(put("a", value), put("b", value))
        folder.append(put("gone", None))
        folder.begin_segment()
    for value in "345":
        folder.append(put("a", value), put("last", value))
        folder.begin_segment()
    folder.append(put("a", "6"), put("last", "6"))
    folder.begin_segment()
    folder.append(put("b", "active"))


def one_by_one(folder: Folder) -> None:
    """Segments that stay apart, one of them the same as before, with indexes."""
    merged(folder)
    (folder.folder / index_name(0)).write_bytes(b"old")


SCENES = [(merged, ALWAYS), (one_by_one, CleanerSettings(min_cleanable_ratio=0.0, segment_bytes=100))]
SCENE = pytest.mark.parametrize(("build", "settings"), SCENES, ids=["merged", "apart"])


@SCENE
def test_killed_at_any_call_and_again_at_any_call_of_the_start(
    tmp_path: Path, build: Callable[[Folder], None], settings: CleanerSettings
) -> None:
    whole = copy_of(tmp_path, build, "whole", Files())
    before = whole.replay()
    clean(whole, settings)
    after = whole.contents()
    kills = 0
    for at in count(1):
        files = MortalFiles(at)
        folder = copy_of(tmp_path, build, f"killed-{at}", files)
        try:
            cleaner(folder, settings).step(NOW)
        except Killed:
            kills += 1
        else:
            break
        folder.swap_failed = False  # who comes next knows nothing of it
        crashed = folder.contents()
        for second in count(1):
            files.at, files.calls = second, 0
            try:
                finish_swap(files, folder.folder)
            except Killed:
                kills += 1
                files.at = 1 << 30
                finish_swap(files, folder.folder)
                done = False
            else:
                done = True
            assert folder.replay() == before, (at, second)
            assert all(name.endswith((".log", ".index")) for name in folder.contents()), (at, second)
            if done:
                break
            for path in folder.folder.iterdir():
                path.unlink()
            for name, data in crashed.items():
                (folder.folder / name).write_bytes(data)
        files.at = 1 << 30
        while cleaner(folder, settings).step(NOW):
            pass
        assert folder.replay() == before
        assert {name: data for name, data in folder.contents().items() if name.endswith(".log")} == {
            name: data for name, data in after.items() if name.endswith(".log")
        }, f"killed at {at}, the next round comes to the same"
    assert kills > 30


def copy_of(tmp_path: Path, build: Callable[[Folder], None], name: str, files: Files) -> Folder:
    (tmp_path / name).mkdir()
    folder = Folder(tmp_path / name, files)
    build(folder)
    return folder


class FailingFiles(FaultyFiles):
    """The call number ``at`` of those that take a path or a descriptor fails, once."""

    def __init__(self, at: int, error: int) -> None:
        super().__init__()
        self.at = at
        self.error = error
        self.count = 0

    def _fail(self, what: object) -> None:
        self.count += 1
        if self.count == self.at:
            raise OSError(self.error, os.strerror(self.error), str(what))

    def create(self, path: Path) -> int:
        self._fail(path)
        return super().create(path)

    def open(self, path: Path) -> int:
        self._fail(path)
        return super().open(path)

    def pread(self, fd: int, size: int, position: int) -> bytes:
        self._fail(fd)
        return super().pread(fd, size, position)

    def pwrite(self, fd: int, data: bytes | memoryview, position: int) -> int:
        self._fail(fd)
        return super().pwrite(fd, data, position)

    def fdatasync(self, fd: int) -> None:
        self._fail(fd)
        super().fdatasync(fd)

    def sync_directory(self, path: Path) -> None:
        self._fail(path)
        super().sync_directory(path)

    def rename(self, source: Path, target: Path) -> None:
        self._fail(source)
        super().rename(source, target)

    def unlink(self, path: Path) -> None:
        self._fail(path)
        super().unlink(path)

    def names(self, path: Path) -> list[str]:
        self._fail(path)
        return super().names(path)


@SCENE
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_any_call_fails(
    tmp_path: Path,
    build: Callable[[Folder], None],
    settings: CleanerSettings,
    error: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    failures = 0
    for at in count(1):
        files = FailingFiles(at, error)
        folder = copy_of(tmp_path, build, f"failing-{at}", files)
        before = folder.replay()
        compactor = cleaner(folder, settings)
        caplog.clear()
        stats = compactor.step(NOW)
        assert files.open_files == {}
        if files.count < at:
            assert stats is not None
            break
        failures += 1
        assert stats is not None or len(caplog.messages) == 1
        assert compactor.uncleanable == {}
        while compactor.step(NOW):
            pass
        assert files.open_files == {}
        assert folder.replay() == before
        assert [name for name in folder.contents() if not name.endswith(".log")] == [], at
        assert [segment.next_offset for segment in folder.closed_segments()][-1] == read_checkpoint(
            Files(), folder.folder.parent / CLEANER_OFFSET_CHECKPOINT
        )[folder.topic_partition]
    assert failures > 30


def test_a_swap_that_is_refused_changes_nothing(folder: Folder) -> None:
    merged(folder)
    before = folder.contents()
    folder.refuses_swaps = True
    assert cleaner(folder).step(NOW) is None
    assert folder.contents() == before


@pytest.mark.parametrize("at", ["a base offset upward", "a base offset downward", "a header", "a record"])
def test_a_damaged_swap_file_is_not_believed(folder: Folder, at: str) -> None:
    merged(folder)
    folder.files = files = MortalFiles()
    files.dies_after_rename = True
    with pytest.raises(Killed):
        cleaner(folder).step(NOW)
    (swap_file,) = folder.folder.glob("*.swap")
    damaged = bytearray(swap_file.read_bytes())
    last = [position for position, _ in batches(bytes(damaged))][-1]  # its base offset says what is replaced
    position, bit = {
        "a base offset upward": (last, 0x01),
        "a base offset downward": (last + 7, 0x01),
        "a header": (last + 26, 0x01),
        "a record": (last + 70, 0x20),
    }[at]
    damaged[position] ^= bit
    swap_file.write_bytes(damaged)
    # A crash between the renames: of a replaced segment nothing else is left.
    replaced = next(each for each in folder.closed_segments() if each.base_offset > int(swap_file.name[:20])).path
    replaced.with_name(f"{replaced.name}.deleted").write_bytes(replaced.read_bytes())
    before = folder.contents()
    with pytest.raises(CorruptLog) as corrupt:
        finish_swap(Files(), folder.folder)
    assert corrupt.value.path == swap_file
    assert corrupt.value.position == last
    assert folder.contents() == before


# --- stopping, throttling, damage, checkpoint ------------------------------------------------------------------------


def test_it_stops_between_batches(folder: Folder) -> None:
    for i in range(100):
        folder.append(put(f"key-{i % 10}"))
    folder.begin_segment()
    before = folder.contents()
    stopping = Cleaner(
        folder.folder.parent,
        [folder],
        CleanerSettings(min_cleanable_ratio=0.0, io_max_bytes_per_second=1000.0),
        clock=lambda: 0.0,
        wait=lambda _: stopping.stop(),
    )
    with pytest.raises(CleaningStopped):
        stopping.step(NOW)
    assert folder.contents() == before
    with pytest.raises(CleaningStopped):
        stopping.step(NOW)
    assert clean(folder).records_written == 10


def test_it_keeps_the_pace(folder: Folder) -> None:
    for i in range(200):
        folder.append(put(f"key-{i}", "x" * 100))
    folder.begin_segment()
    now = 1000.0
    waits = []

    def wait(seconds: float) -> None:
        nonlocal now
        waits.append(seconds)
        now += seconds

    slow = CleanerSettings(min_cleanable_ratio=0.0, io_max_bytes_per_second=10_000.0)
    stats = Cleaner(folder.folder.parent, [folder], slow, clock=lambda: now, wait=wait).step(NOW)
    assert stats is not None
    assert stats.bytes_read == 2 * folder.closed_segments()[0].size
    assert stats.bytes_written == 0, "nothing changed, and what was written is less than a buffer"
    assert stats.seconds == sum(waits) == pytest.approx(stats.bytes_read / 10_000.0)


def test_a_pause_earns_no_burst() -> None:
    now = 0.0
    waits: list[float] = []
    throttler = Throttler(100.0, Event(), lambda: now, waits.append)
    throttler.spend(100)
    now = 50.0
    throttler.spend(100)
    assert waits == [1.0, 1.0]


def test_a_damaged_segment_is_left_and_others_are_cleaned(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    damaged, whole = Folder(tmp_path, partition=0), Folder(tmp_path, partition=1)
    for folder in (damaged, whole):
        for _ in range(5):
            folder.append(put("a"))
            folder.begin_segment()
    path = damaged.folder / segment_name(2)
    log = bytearray(path.read_bytes())
    log[-2] ^= 1
    path.write_bytes(log)
    before = damaged.contents()
    compactor = Cleaner(tmp_path, [damaged, whole], ALWAYS)
    with caplog.at_level(logging.INFO):
        stats = compactor.step(NOW)
    assert stats is not None
    assert stats.partition == whole.topic_partition
    assert len(whole.records()) == 1
    (line,) = caplog.messages
    assert f"{path} is damaged at byte 0" in line
    assert list(compactor.uncleanable) == [damaged.topic_partition]
    assert compactor.step(NOW) is None
    assert damaged.contents() == before


def test_a_swap_that_broke_off_and_is_damaged_is_said(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(5):
        folder.append(put("a"))
        folder.begin_segment()
    compactor = cleaner(folder)
    damage = CorruptLog(folder.folder / "00000000000000000000.log.swap", 7, "CRC mismatch")
    failures: list[Exception] = [OSError(errno.EIO, "write"), damage]

    def swap_segments(old: Sequence[Segment], swap: Callable[[], None]) -> bool:
        raise failures.pop(0)

    monkeypatch.setattr(folder, "swap_segments", swap_segments)
    assert compactor.step(NOW) is None
    assert compactor.uncleanable == {}
    assert compactor.step(NOW) is None
    assert compactor.uncleanable == {folder.topic_partition: damage}
    assert str(damage) in caplog.messages[-1]


def test_a_missing_segment_is_noticed(folder: Folder) -> None:
    for i in range(4):
        folder.append(put(f"key-{i % 2}", str(i)))
        folder.begin_segment()
    clean(folder, CleanerSettings(min_cleanable_ratio=0.0, segment_bytes=1))
    assert len(folder.closed_segments()) == 4
    (folder.folder / segment_name(2)).unlink()
    (folder.folder.parent / CLEANER_OFFSET_CHECKPOINT).unlink()
    before = folder.contents()
    compactor = cleaner(folder)
    assert compactor.step(NOW) is None
    assert "the segment ends here at offset 2, the next one begins at 3" in str(compactor.uncleanable)
    assert folder.contents() == before


def test_the_checkpoint_outlives_the_cleaner_and_other_partitions_stay_in_it(tmp_path: Path) -> None:
    folders = [Folder(tmp_path, partition=i) for i in range(2)]
    for folder in folders:
        folder.append(put("a"), put("a"))
        folder.begin_segment()
        assert cleaner(folder, CleanerSettings()).step(NOW) is not None
    again = Cleaner(tmp_path, folders, ALWAYS)
    assert again.step(NOW) is None
    assert read_checkpoint(Files(), tmp_path / CLEANER_OFFSET_CHECKPOINT) == {
        TopicPartition("topic", 0): 2,
        TopicPartition("topic", 1): 2,
    }


@pytest.mark.parametrize("text", ["0\n1\ntopic 0 99\n", "nonsense"])
def test_a_checkpoint_that_cannot_be_true_is_forgotten(
    folder: Folder, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    folder.append(put("a"), put("a"))
    folder.begin_segment()
    path = folder.folder.parent / CLEANER_OFFSET_CHECKPOINT
    path.write_text(text)
    assert clean(folder).first_dirty_offset == 0
    assert "count as dirty" in caplog.text
    assert read_checkpoint(Files(), path) == {folder.topic_partition: 2}


# --- Kafka's own tool ------------------------------------------------------------------------------------------------


def commit(group: str, partition: int, offset: int | None) -> Pair:
    value = None if offset is None else encode_value(OffsetCommitValue(offset, 3, f"at {offset}", NOW))
    return Pair(encode_key(OffsetCommitKey(group, "a-topic", partition)), value)


def committed(folder: Folder) -> None:
    """Offsets and metadata of groups, overwritten and deleted; of some segments nothing will be left."""
    for i in range(12):
        group = f"group-{i % 2}"
        deleted = 1 if i == 10 else None
        folder.append(*(commit(group, p, None if p == deleted else i * 10 + p) for p in range(3)), timestamp_ms=NOW + i)
        if i % 2:
            value = GroupMetadataValue("consumer", i, "range", None, NOW)
            folder.append(Pair(encode_key(GroupMetadataKey(group)), encode_value(value)), timestamp_ms=NOW + i)
        if i in (2, 5, 8, 10):
            folder.begin_segment()
    folder.append(commit("group-1", 2, None), timestamp_ms=NOW + 20)
    folder.begin_segment()


def dumped(folder: Folder) -> list[Dumped]:
    """What DumpLogSegments finds in the closed segments."""
    return list(dumped_by_kafka([segment.path for segment in folder.closed_segments()]).values())


@pytest.mark.parametrize("segment_bytes", [1, 1 << 20], ids=["apart", "merged"])
def test_kafka_reads_what_is_left(folder: Folder, segment_bytes: int) -> None:
    committed(folder)
    before = [record for each in dumped(folder) for record in each.records]
    settings = CleanerSettings(min_cleanable_ratio=0.0, segment_bytes=segment_bytes)
    clean(folder, settings)
    after = dumped(folder)
    newest = {json.dumps(record.key): record for record in before}
    assert [record for each in after for record in each.records] == sorted(newest.values())
    assert sum(record.value is None for record in newest.values()) == 2
    assert len(after) == (1 if segment_bytes > 1 else 5)
    counts = [batch[2] for each in after for batch in each.batches]
    assert (0 in counts) == (segment_bytes == 1)
    folder.append(commit("another", 0, 1))
    folder.begin_segment()
    clean(folder, settings, NOW + RETENTION)
    left = [record for each in dumped(folder) for record in each.records]
    assert left[:-1] == sorted(record for record in newest.values() if record.value is not None)
