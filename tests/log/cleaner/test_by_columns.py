"""What compaction leaves of a batch, and of a log, does not depend on how it was read."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.records.batches import Compression
from protocol.records.record_columns import RecordColumns
from shim.log.cleaner import stretches
from shim.log.cleaner.cleaning import CleanerSettings
from shim.log.cleaner.compaction import cleaned_batch
from shim.log.cleaner.offset_map import OffsetMap
from shim.log.segments.segment import SoundBatch, sound_columns, sound_records
from tests.examples import examples
from tests.log.cleaner.folder import NOW, RETENTION, Folder, clean, put
from tests.protocol.batches_in_rows import batch_in_rows

DAY_MS = 24 * 3600 * 1000


def both_ways(seed: int, base_offset: int) -> tuple[SoundBatch, SoundBatch] | None:
    """A batch read by columns, and record by record."""
    header, raw = batch_in_rows(seed, base_offset, names=40)
    if header.compression != Compression.NONE:
        return None  # none is in this log
    by_columns, plain = sound_columns(raw, 0, header), sound_records(raw, 0, header)
    return SoundBatch(0, len(raw), header, by_columns, raw), SoundBatch(0, len(raw), header, plain, raw)


@given(seed=st.integers(0, 1 << 32))
@settings(max_examples=examples(75), deadline=None)
def test_a_cleaned_batch_is_the_same_bytes(seed: int) -> None:
    rng = Random(seed)
    base_offset = 1000
    read: list[tuple[SoundBatch, SoundBatch]] = []
    for _ in range(rng.randint(2, 4)):
        if (batch := both_ways(rng.randrange(1 << 32), base_offset)) is not None:
            read.append(batch)
            base_offset = batch[0].header.next_offset
    first_dirty = rng.choice([0, 1000, 1003, 1050])
    by_columns, plain = OffsetMap(first_dirty, 1 << 30), OffsetMap(first_dirty, 1 << 30)
    for columns, records in read:
        by_columns.add(columns)
        plain.add(records)
    by_columns.complete()
    plain.complete()
    assert (len(by_columns), by_columns.size_bytes) == (len(plain), plain.size_bytes)
    for now_ms in (NOW, NOW + 1000 * DAY_MS, NOW + 60_000 * DAY_MS):
        for columns, records in read:
            assert by_columns.supersedes(columns.header) == plain.supersedes(records.header)
            for keep_empty in (False, True):
                assert cleaned_batch(columns, by_columns, now_ms, RETENTION, keep_empty=keep_empty) == cleaned_batch(
                    records, plain, now_ms, RETENTION, keep_empty=keep_empty
                )


def test_some_of_these_batches_are_read_by_columns() -> None:
    read = [batch for seed in range(100) if (batch := both_ways(seed, 1000)) is not None]
    assert 20 < sum(isinstance(columns.records, RecordColumns) for columns, _ in read) < 90


def a_log(folder: Folder, seed: int) -> None:
    rng = Random(seed)
    for place in range(300):
        keys = rng.sample(range(8 + place // 4), 6) if place < 200 else [5, 6]
        folder.append(*(put(f"key-{key}", rng.choice(["value", None, "v" * 20])) for key in keys))
        if rng.random() < 0.03:
            folder.begin_segment()
    folder.begin_segment()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("buffer_size", [1 << 20, 9_000])
def test_a_log_is_the_same_however_long_stretches_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, buffer_size: int
) -> None:
    cleaned, bytes_read = [], []
    for size in (1, 500, 1 << 30):
        monkeypatch.setattr(stretches, "_SIZE", size)
        (tmp_path / str(size)).mkdir()
        folder = Folder(tmp_path / str(size))
        a_log(folder, seed)
        before = folder.replay()
        stats = clean(folder, CleanerSettings(min_cleanable_ratio=0.0, dedupe_buffer_size=buffer_size))
        assert folder.replay() == before
        cleaned.append((folder.contents(), stats.records_read, stats.records_written, stats.end_offset))
        bytes_read.append(stats.bytes_read)
    assert cleaned[0] == cleaned[1] == cleaned[2]
    assert bytes_read[0] < bytes_read[1] < bytes_read[2]
