"""The cleaner, over a data directory at rest, until nothing is left for it to do."""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

from protocol.partition import OFFSETS_TOPIC
from protocol.topic_partition import TopicPartition
from shim.admin.at_rest.data_dir import OTHER_FILES, DataDir, read_data_dir
from shim.admin.errors import NotDone
from shim.admin.progress import Progress
from shim.log import LogError, OffsetsLog
from shim.log.cleaner.cleaner import Cleaner
from shim.log.cleaner.cleaning import CleanerSettings, CleanerStats
from shim.log.cleaner.compaction import Dirtiness, dirtiness
from shim.log.disk.checkpoint import CLEANER_OFFSET_CHECKPOINT, read_checkpoint
from shim.log.disk.files import Files
from shim.log.disk.layout import segment_base_offsets, segment_name
from shim.log.disk.open_files import allow_open_files
from shim.log.segments.segment import Segment


class Compacted(NamedTuple):
    """What each round did, and the partitions that could not be compacted, with why: damage, or a call that failed."""

    rounds: list[CleanerStats]
    not_compacted: dict[TopicPartition, str]


def compact(files: Files, data_dir: Path, delete_retention_ms: int, progress: Progress) -> Compacted:
    """Every partition of the offsets with anything in closed segments that was never compacted.

    Raises NotDone where there is none; CorruptLog, LogError, OSError.
    """
    count = _with_offsets(files, data_dir).num_partitions
    allow_open_files(count, OTHER_FILES)
    log = OffsetsLog.open(data_dir, count, files=files)
    try:
        with progress("reading", count) as ongoing:
            for partition in range(count):
                for _ in log.recover(partition):
                    pass
                ongoing.advance(1)
        settings = CleanerSettings(min_cleanable_ratio=0.0, delete_retention_ms=delete_retention_ms)
        cleaner = Cleaner(data_dir.absolute(), log.partition_logs(), settings, files=files)
        rounds = []
        with progress("compacting", count) as ongoing:
            while (stats := cleaner.step(time.time_ns() // 1_000_000)) is not None:
                rounds.append(stats)
                ongoing.advance(1)
    finally:
        log.close()
    failed: dict[TopicPartition, LogError | OSError] = {**cleaner.broke_off, **cleaner.uncleanable}
    return Compacted(rounds, {partition: str(error) for partition, error in sorted(failed.items())})


class ToCompact(NamedTuple):
    """A partition with something in its ``closed_segments`` that was never compacted: these and their bytes are read,
    and of each key the newest record is written again."""

    partition: TopicPartition
    closed_segments: int
    closed: Dirtiness


def to_compact(files: Files, data_dir: Path) -> list[ToCompact]:
    """What :func:`compact` would begin with, by what files there are: nothing is written, and no record read, so of
    damage it knows nothing, nor of what an open transaction keeps. A shim may have the directory meanwhile.

    Raises NotDone where there is no partition of the offsets; LogError, OSError.
    """
    held = _with_offsets(files, data_dir)
    first_dirty = read_checkpoint(files, held.path / CLEANER_OFFSET_CHECKPOINT)
    found = []
    for partition, folder in held.partitions.items():
        if partition.topic != OFFSETS_TOPIC:
            continue
        closed = _closed_segments(files, folder)
        dirt = dirtiness(closed, first_dirty.get(partition, 0))
        if dirt.dirty_bytes:
            found.append(ToCompact(partition, len(closed), dirt))
    return found


def _closed_segments(files: Files, folder: Path) -> list[Segment]:
    bases = segment_base_offsets(files, folder)
    paths = [folder / segment_name(base) for base in bases]
    return [
        Segment(path, base, following, files.size_of(path))
        for path, base, following in zip(paths, bases, bases[1:], strict=False)  # the last one is the active one
    ]


def _with_offsets(files: Files, data_dir: Path) -> DataDir:
    held = read_data_dir(files, data_dir)
    if not any(partition.topic == OFFSETS_TOPIC for partition in held.partitions):
        raise NotDone(f"{data_dir} holds no partition of {OFFSETS_TOPIC}")
    return held
