"""Offsets of partitions in a small text file, in Kafka's format (OffsetCheckpointFile)::

    0
    <number of entries>
    <topic> <partition> <offset>

The file is replaced as a whole, so half of one is never the work of a crash.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Final

from protocol.topic_partition import TopicPartition
from shim.log.disk.files import Files
from shim.log.errors import LogError

RECOVERY_POINT_CHECKPOINT: Final = "recovery-point-offset-checkpoint"
"""Of each partition the recovery point: every offset below it was synced."""

CLEANER_OFFSET_CHECKPOINT: Final = "cleaner-offset-checkpoint"
"""Of each partition the first offset that was never compacted."""

_logger = logging.getLogger(__name__)

_ENTRY: Final = re.compile(r"(\S+) (0|[1-9]\d{0,9}) (0|[1-9]\d{0,18})")


def read_checkpoint(files: Files, path: Path) -> dict[TopicPartition, int]:
    """The offset of each partition; none when there is no such file. Raises LogError when it is malformed; OSError."""
    if not files.exists(path):
        return {}
    text = files.read_file(path).decode("ascii", "replace")
    version, _, rest = text.partition("\n")
    count, _, entries = rest.partition("\n")
    found = [_ENTRY.fullmatch(line) for line in entries.splitlines()]
    if version != "0" or count != str(len(found)) or None in found or not text.endswith("\n"):
        raise LogError(f"{path} is damaged: it is no offset checkpoint of version 0")
    return {TopicPartition(match[1], int(match[2])): int(match[3]) for match in found if match}


def read_cleaned(files: Files, folder: Path) -> dict[TopicPartition, int]:
    """Up to where each partition was compacted, as that is noted in this folder. It spares work, no more: a note that
    is malformed, or cannot be read, counts for nothing, and a line of the log says so."""
    path = folder / CLEANER_OFFSET_CHECKPOINT
    try:
        return read_checkpoint(files, path)
    except (LogError, OSError) as error:
        _logger.warning("%s; segments of these partitions count as dirty", error)
        return {}


def write_checkpoint(files: Files, path: Path, offsets: Mapping[TopicPartition, int]) -> None:
    """Durable when this returns. Raises OSError; the file is then the old one or the new one."""
    lines = ["0", str(len(offsets)), *(f"{topic} {partition} {at}" for (topic, partition), at in offsets.items())]
    replace_file(files, path, ("\n".join(lines) + "\n").encode("ascii"))


def replace_file(
    files: Files, path: Path, data: bytes | Callable[[int], None], renaming: AbstractContextManager[None] | None = None
) -> None:
    """Durably puts a file with this content in the place of what is there, at one stroke.

    ``data``: the content, or what writes it to a descriptor. ``renaming`` is entered for that stroke, and may raise.

    Raises OSError, and what these raise: what was there remains then, and nothing of the new file takes up room, unless
    it is the last sync that failed, or the disk takes nothing back.
    """
    unfinished = path.with_name(f"{path.name}.tmp")
    if files.exists(unfinished):
        files.unlink(unfinished)
    try:
        fd = files.create(unfinished)
        try:
            if isinstance(data, bytes):
                files.write_at(fd, data, 0)
            else:
                data(fd)
            files.fdatasync(fd)
        finally:
            files.close(fd)
        with renaming or nullcontext():
            files.rename(unfinished, path)
    except BaseException:
        with suppress(OSError):  # it is removed before the next try
            if files.exists(unfinished):
                files.unlink(unfinished)
        raise
    files.sync_directory(path.parent)


def replace_for_good(files: Files, path: Path, data: bytes) -> None:
    """As :func:`replace_file`, of what decides something. Where its name cannot be synced, another file says so beside
    it: the next sync may find nothing to write, and succeed. So it is to be replaced once more, by this process or by
    the next one, before anything rests on it, while :func:`is_in_doubt`. Raises OSError; nothing is in doubt where the
    disk did not take the new file, as it is full."""
    doubtful = _doubtful(path)
    replace_file(files, path, data, _doubted(files, doubtful))
    files.unlink(doubtful)


@contextmanager
def _doubted(files: Files, doubtful: Path) -> Iterator[None]:
    if not files.exists(doubtful):
        files.close(files.create(doubtful))
    yield


def is_in_doubt(files: Files, path: Path) -> bool:
    """Whether what is there need not be what the disk has."""
    return files.exists(_doubtful(path))


def _doubtful(path: Path) -> Path:
    return path.with_name(f"{path.name}.doubtful")
