"""Cutting off what a torn write left at the end of the log. What is cut is kept beside it."""

from __future__ import annotations

import errno
import logging
from pathlib import Path
from typing import Final

from shim.log.active import LogEnd
from shim.log.errors import CorruptLog
from shim.log.files import Files
from shim.log.segment import BadBytes, find_sound_batch

_COPY_SIZE: Final = 1 << 20

_logger = logging.getLogger(__name__)


def cut_torn_tail(files: Files, fd: int, path: Path, size: int, end: LogEnd, bad: BadBytes, *, unordered: bool) -> None:
    """Cuts the segment at ``end``, durably, when a torn write explains all that follows, else raises CorruptLog.

    ``unordered``: more than one batch may have been on its way to the disk; else a sound batch behind the damage shows
    that what was damaged had been durable. Raises OSError, nothing having been cut, when no copy can be kept.
    """
    later = None if unordered else find_sound_batch(files, fd, end.position + 1, size, end.offset)
    if later is not None:
        reason = f"{bad.reason}; this is no torn write, as a sound batch follows at byte {later}"
        raise CorruptLog(path, bad.position, reason)
    copy = keep_copy(files, fd, path, end.position, size)
    files.truncate(fd, end.position)
    files.fsync(fd)
    _logger.warning(
        "%s: cut off a torn write of %d bytes at byte %d (offset %d): %s; kept as %s",
        path,
        size - end.position,
        end.position,
        end.offset,
        bad.reason,
        copy.name,
    )


def keep_copy(files: Files, fd: int, path: Path, start: int, size: int) -> Path:
    """A durable copy of a segment's bytes from ``start`` on, beside it.

    Raises OSError, as when the disk has no room for it: nothing goes of which there is no copy, so recovery waits for
    room instead.
    """
    copy, copy_fd = _new_copy(files, path.with_name(f"{path.name}.cut-{start}"))
    try:
        try:
            position = start
            while position < size and (data := files.read_at(fd, min(_COPY_SIZE, size - position), position)):
                files.write_at(copy_fd, data, position - start)
                position += len(data)
            if position < size:
                raise OSError(errno.EIO, f"unreadable from byte {position} on", str(path))
            files.fsync(copy_fd)
        finally:
            files.close(copy_fd)
        files.sync_directory(path.parent)
    except BaseException:
        files.unlink(copy)
        raise
    return copy


def _new_copy(files: Files, path: Path) -> tuple[Path, int]:
    number = 0
    copy = path
    while True:
        try:
            return copy, files.create(copy)
        except FileExistsError:
            number += 1
            copy = path.with_name(f"{path.name}-{number}")
