"""A small log on a disk in memory, its batches, and what is left of it after damage and repair."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from protocol.records.batches import batches, records_of
from shim.admin.at_rest.data_dir import data_dir_at_rest, read_data_dir
from shim.admin.at_rest.examine import Examination, examine
from shim.admin.at_rest.repair_plan import PartitionPlan, plan_repair
from shim.admin.at_rest.repairing import repair
from shim.log import LogSettings, OffsetsLog, PartitionWrite
from shim.log.cleaner.cleaner import Cleaner
from shim.log.cleaner.cleaning import CleanerSettings
from shim.log.disk.files import Files
from shim.log.disk.layout import segment_base_offsets, segment_name
from tests.admin.running import SILENT, TIMESTAMP, commit_record
from tests.log.lost_files import LostFiles

DATA_DIR: Final = Path("/disk/data")
FOLDER: Final = DATA_DIR / "__consumer_offsets-0"
SMALL: Final = LogSettings(segment_bytes=600)

Record = tuple[int, bytes | None, bytes | None]


class Place(NamedTuple):
    """One batch: where it is, and its records by offset."""

    path: Path
    position: int
    end: int
    records: list[Record]


def log_of(
    commits: Sequence[tuple[int, int]], settings: LogSettings = SMALL, files_type: type[LostFiles] = LostFiles
) -> LostFiles:
    """Commits of one group, for (partition, offset), two a batch; the log is closed in good order."""
    files = files_type()
    offsets_log = OffsetsLog.open(DATA_DIR, 1, settings=settings, files=files)
    assert not list(offsets_log.recover(0))
    for number, (partition, offset) in enumerate(commits):
        records = [commit_record("group", topic, partition, offset) for topic in ("one", "two")]
        assert offsets_log.write([PartitionWrite(0, [records], TIMESTAMP + number)]) == {}
    offsets_log.close()
    return files


def compact(files: LostFiles) -> None:
    """All closed segments; what is left of them has gaps."""
    offsets_log = OffsetsLog.open(DATA_DIR, 1, settings=SMALL, files=files)
    assert all(offsets_log.recover(0))
    settings = CleanerSettings(min_cleanable_ratio=0.0, segment_bytes=SMALL.segment_bytes)
    cleaner = Cleaner(DATA_DIR, offsets_log.partition_logs(), settings, files=files)
    while cleaner.step(TIMESTAMP):
        pass
    offsets_log.close()


def places(files: LostFiles) -> list[Place]:
    content = files.content()
    found = []
    for base_offset in segment_base_offsets(files, FOLDER):
        path = FOLDER / segment_name(base_offset)
        raw = content[path]
        for position, header in batches(raw):
            records = [(record.offset, record.key, record.value) for record in records_of(raw, position, header)]
            found.append(Place(path, position, position + header.size, records))
    return found


def records(files: LostFiles) -> list[Record]:
    return [record for place in places(files) for record in place.records]


def overwrite(files: Files, path: Path, position: int, data: bytes) -> None:
    """Durably."""
    fd = files.open(path)
    try:
        files.write_at(fd, data, position)
        files.fsync(fd)
    finally:
        files.close(fd)


def examined(files: Files) -> Examination:
    with data_dir_at_rest(files, DATA_DIR) as held:
        return examine(files, held, "verify", SILENT)


def repaired(files: Files, *, skip: bool) -> list[PartitionPlan]:
    """The plans that were carried out; afterwards nothing is damaged."""
    with data_dir_at_rest(files, DATA_DIR) as held:
        examination = examine(files, held, "verify", SILENT)
        plans = plan_repair(files, held, examination, skip=skip)
        repair(files, held, plans, TIMESTAMP)
        assert examine(files, read_data_dir(files, DATA_DIR), "verify", SILENT).all_damages == []
    return plans


def opens(files: LostFiles) -> list[Record]:
    """What the log itself reads, having been opened; it takes a write."""
    offsets_log = OffsetsLog.open(DATA_DIR, 1, settings=SMALL, files=files)
    try:
        found: list[Record] = [(record.offset, record.key, record.value) for record in offsets_log.recover(0)]
        assert offsets_log.write([PartitionWrite(0, [[commit_record("group", "one", 0, 99)]], TIMESTAMP)]) == {}
    finally:
        offsets_log.close()
    return found
