"""What is in the log means the same before and after compaction."""

from __future__ import annotations

import json
import shutil
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

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
from protocol.records.batches import NO_TIMESTAMP, Record, encode_batch
from shim.log.cleaner.cleaning import CleanerSettings, CleanerStats
from shim.log.cleaner.compaction import cleaned_batch
from shim.log.cleaner.offset_map import OffsetMap
from shim.log.disk.checkpoint import CLEANER_OFFSET_CHECKPOINT, write_checkpoint
from shim.log.disk.files import Files
from shim.log.disk.layout import index_name, segment_name
from tests.examples import examples
from tests.log.cleaner.folder import NOW, RETENTION, Folder, Pair, clean, cleaner, put, sound
from tests.log_format.dump import Dumped, LoggedRecord
from tests.log_format.dump import dumped as dumped_by_kafka


def test_the_offset_map_takes_no_more_memory_than_it_says() -> None:
    keys = [b"group-%d:a-topic-with-a-name:%d" % (i % 997, i) for i in range(75_000)]
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


@settings(deadline=None, max_examples=examples(75))
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
    assert stats.segments_written == 1
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
    assert stats.segments_written == 0
    assert [path.stat().st_ino for path in sorted(folder.folder.iterdir())] == inodes
    assert stats.records_read == stats.records_written == 3


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


def copied(folder: Folder, to: Path) -> list[Path]:
    """The closed segments, as they are now."""
    to.mkdir()
    return [Path(shutil.copy(segment.path, to)) for segment in folder.closed_segments()]


def records_of(dumped: Sequence[Dumped]) -> list[LoggedRecord]:
    return [record for each in dumped for record in each.records]


@pytest.mark.parametrize("segment_bytes", [1, 1 << 20], ids=["apart", "merged"])
def test_kafka_reads_what_is_left(folder: Folder, segment_bytes: int, tmp_path: Path) -> None:
    committed(folder)
    of_before = copied(folder, tmp_path / "before")
    settings = CleanerSettings(min_cleanable_ratio=0.0, segment_bytes=segment_bytes)
    clean(folder, settings)
    of_after = copied(folder, tmp_path / "after")
    folder.append(commit("another", 0, 1))
    folder.begin_segment()
    clean(folder, settings, NOW + RETENTION)
    of_the_end = copied(folder, tmp_path / "the-end")

    told = dumped_by_kafka([*of_before, *of_after, *of_the_end])  # at once: a tool takes a second to start
    before, after, left = ([told[path] for path in paths] for paths in (of_before, of_after, of_the_end))
    newest = {json.dumps(record.key): record for record in records_of(before)}
    assert records_of(after) == sorted(newest.values())
    assert sum(record.value is None for record in newest.values()) == 2
    assert len(after) == (1 if segment_bytes > 1 else 5)
    counts = [batch[2] for each in after for batch in each.batches]
    assert (0 in counts) == (segment_bytes == 1)
    assert records_of(left)[:-1] == sorted(record for record in newest.values() if record.value is not None)
