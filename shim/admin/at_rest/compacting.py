"""The cleaner, over a data directory at rest, until nothing is left for it to do."""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

from shim.admin.at_rest.data_dir import OTHER_FILES, read_data_dir
from shim.admin.errors import NotDone
from shim.admin.progress import Progress
from shim.log import OFFSETS_TOPIC, LogError, OffsetsLog
from shim.log.checkpoint import TopicPartition
from shim.log.cleaner.cleaner import Cleaner
from shim.log.cleaner.cleaning import CleanerSettings, CleanerStats
from shim.log.files import Files
from shim.log.open_files import allow_open_files


class Compacted(NamedTuple):
    """What each round did, and the partitions that could not be compacted, with why: damage, or a call that failed."""

    rounds: list[CleanerStats]
    not_compacted: dict[TopicPartition, str]


def compact(files: Files, data_dir: Path, delete_retention_ms: int, progress: Progress) -> Compacted:
    """Every partition of the offsets with anything in closed segments that was never compacted.

    Raises NotDone where there is none; CorruptLog, LogError, OSError.
    """
    held = read_data_dir(files, data_dir)
    count = held.num_partitions
    if not any(partition.topic == OFFSETS_TOPIC for partition in held.partitions):
        raise NotDone(f"{data_dir} holds no partition of {OFFSETS_TOPIC}")
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
