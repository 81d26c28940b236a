"""Disk use stays within three times the live data and two segments, however long it is written to."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from protocol.offsets_log import OffsetCommitKey, OffsetCommitValue, encode_key, encode_value
from protocol.records.batches import encode_batch
from shim.log import LogSettings, OffsetsLog, PartitionWrite
from shim.log.cleaner.cleaner import Cleaner
from shim.log.cleaner.cleaning import CleanerSettings

NOW_MS = 1_760_000_000_000


def commit(number: int, offset: int) -> tuple[bytes, bytes]:
    key = OffsetCommitKey(f"group-{number // 100}", f"topic-{number % 10}", number % 100)
    return encode_key(key), encode_value(OffsetCommitValue(offset, 3, "", NOW_MS))


def disk_use(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


@pytest.mark.parametrize(
    ("commits", "keys", "segment_bytes", "per_batch"),
    [
        pytest.param(30_000, 500, 60_000, 10, id="thirty thousand commits"),
        pytest.param(100_000_000, 100_000, 16 << 20, 100, id="a hundred million commits", marks=pytest.mark.soak),
    ],
)
def test_it_does_not_grow(tmp_path: Path, commits: int, keys: int, segment_bytes: int, per_batch: int) -> None:
    """Cleaned whenever a segment was closed, with the default dirty ratio."""
    # Not flushed on each write: disk use is what is looked at.
    settings = LogSettings(segment_bytes=segment_bytes, flush_interval_messages=1 << 62)
    log = OffsetsLog.open(tmp_path, 1, settings=settings)
    assert not list(log.recover(0))
    partition = log.partition_log(0)
    cleaner = Cleaner(tmp_path, [partition], CleanerSettings(segment_bytes=segment_bytes))
    live = keys * len(encode_batch(0, [commit(keys - 1, 0)], NOW_MS))
    rng = random.Random(1)
    newest: dict[bytes, bytes] = {}
    closed = most = rounds = 0
    for start in range(0, commits, per_batch):
        record_set = [commit(rng.randrange(keys), start + i) for i in range(per_batch)]
        newest.update(record_set)
        assert log.write([PartitionWrite(0, [record_set], NOW_MS)]) == {}
        if len(partition.closed_segments()) != closed:
            rounds += cleaner.step(NOW_MS) is not None
            closed = len(partition.closed_segments())
            most = max(most, disk_use(partition.folder))
    assert most <= 3 * live + 2 * segment_bytes
    assert rounds > 5
    assert {record.key: record.value for batch in partition.read() for record in batch.records} == newest
    log.close()
