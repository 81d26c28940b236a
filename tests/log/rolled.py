"""A log of several segments, and how it is taken down to the state that a crash leaves."""

from __future__ import annotations

from pathlib import Path

from protocol.partition import OFFSETS_TOPIC
from shim.log.directory.handover import CLEAN_SHUTDOWN
from shim.log.disk.checkpoint import RECOVERY_POINT_CHECKPOINT
from shim.log.disk.files import Files
from shim.log.disk.layout import segment_name
from shim.log.offsets_log import OffsetsLog, PartitionWrite
from shim.log.segments.segment import Segment
from shim.log.settings import LogSettings

NOW = 1_767_225_600_123
SMALL = LogSettings(segment_bytes=400)

Record = tuple[bytes, bytes | None]


def folder_of(data_dir: Path, partition: int = 0) -> Path:
    return data_dir / f"{OFFSETS_TOPIC}-{partition}"


def segment_of(data_dir: Path, base_offset: int, partition: int = 0) -> Path:
    return folder_of(data_dir, partition) / segment_name(base_offset)


def opened(data_dir: Path, settings: LogSettings = SMALL, *, files: Files | None = None) -> OffsetsLog:
    """A log of one partition, recovered."""
    log = OffsetsLog.open(data_dir, 1, settings=settings, files=files)
    for _ in log.recover(0):
        pass
    return log


def append(log: OffsetsLog, *records: Record, timestamp_ms: int = NOW) -> None:
    """One batch of these."""
    assert log.write([PartitionWrite(0, [list(records)], timestamp_ms)]) == {}


def fill(log: OffsetsLog, batches: int) -> list[Record]:
    """Appends batches of 1 to 3 records. Gives the records."""
    first = log.log_end_offset(0)
    written: list[Record] = []
    for batch in range(batches):
        records = [(b"key-%d" % (first + len(written) + i), b"value %d" % batch) for i in range(1 + batch % 3)]
        append(log, *records)
        written += records
    return written


def records_of(log: OffsetsLog) -> list[Record]:
    """By a recovery."""
    found = list(log.recover(0))
    assert [record.offset for record in found] == list(range(len(found)))
    return [(record.key, record.value) for record in found]


def closed(log: OffsetsLog) -> list[Segment]:
    return log.partition_log(0).closed_segments()


def crashed(data_dir: Path, recovery_point: int | None = None) -> None:
    """Takes back what a clean close noted. ``recovery_point``: what had been noted before; None for nothing."""
    (data_dir / CLEAN_SHUTDOWN).unlink(missing_ok=True)
    note = data_dir / RECOVERY_POINT_CHECKPOINT
    if recovery_point is None:
        note.unlink(missing_ok=True)
    else:
        note.write_text(f"0\n1\n{OFFSETS_TOPIC} 0 {recovery_point}\n")
