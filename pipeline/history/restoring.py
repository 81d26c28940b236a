"""A state as files that `offset-shim log import --from-folder` takes: a broker's log directory with nothing in it but
`__consumer_offsets`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from pipeline.errors import NotDone
from pipeline.history.segments import OFFSETS_TOPIC
from protocol.offsets_log import OffsetCommitKey, OffsetCommitValue, encode_key, encode_value
from protocol.partition import partition_for
from protocol.records.batches import encode_batch

_UNFINISHED: Final = ".unfinished"
_MOST_RECORDS: Final = 10_000
_SEGMENT: Final = f"{0:020d}.log"

Pair = tuple[bytes, bytes]


def write_folder(target: Path, rows: Iterable[Mapping[str, Any]], num_partitions: int, written_ms: int) -> int:
    """Writes rows (group, topic, partition, offset, leader_epoch, metadata, commit_timestamp, expire_timestamp), those
    of a group behind one another, to a folder that does not exist, and says how many.

    It gets its name once all is on the disk. ``written_ms``: the records' own timestamp. Raises NotDone, OSError.
    """
    if target.exists():
        raise NotDone(f"{target} exists already")
    unfinished = target.with_name(target.name + _UNFINISHED)
    if unfinished.exists():
        raise NotDone(f"{unfinished} is there, as of a run that was broken off: remove it")
    unfinished.mkdir(parents=True)
    try:
        count = _write(unfinished, rows, num_partitions, written_ms)
        unfinished.rename(target)
    except BaseException:
        shutil.rmtree(unfinished)
        raise
    return count


def _write(folder: Path, rows: Iterable[Mapping[str, Any]], num_partitions: int, written_ms: int) -> int:
    ends = [0] * num_partitions
    for partition in range(num_partitions):
        (folder / f"{OFFSETS_TOPIC}-{partition}").mkdir()
    for group, its in groupby(rows, key=lambda row: str(row["group"])):
        partition = partition_for(group, num_partitions)
        with (folder / f"{OFFSETS_TOPIC}-{partition}" / _SEGMENT).open("ab") as segment:
            for records in _batches(map(_record, its)):
                segment.write(encode_batch(ends[partition], records, written_ms))
                ends[partition] += len(records)
    for path in folder.glob(f"*/{_SEGMENT}"):
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
    return sum(ends)


def _record(row: Mapping[str, Any]) -> Pair:
    key = OffsetCommitKey(row["group"], row["topic"], row["partition"])
    names = ("offset", "leader_epoch", "metadata", "commit_timestamp", "expire_timestamp")
    return encode_key(key), encode_value(OffsetCommitValue(*(row[name] for name in names)))


def _batches(records: Iterator[Pair]) -> Iterator[list[Pair]]:
    batch: list[Pair] = []
    for record in records:
        batch.append(record)
        if len(batch) == _MOST_RECORDS:
            yield batch
            batch = []
    if batch:
        yield batch
