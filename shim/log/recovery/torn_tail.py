"""What a torn write left at the end of the log: telling it from damage, and cutting it off. What is cut is kept beside
it."""

from __future__ import annotations

import errno
import logging
from pathlib import Path
from typing import Final, NamedTuple

from shim.log.disk.files import Files
from shim.log.segments.active import LogEnd
from shim.log.segments.segment import BadBytes, find_sound_batch

_COPY_SIZE: Final = 1 << 20

_logger = logging.getLogger(__name__)


class Known(NamedTuple):
    """What the last process left to know of a partition before it is read.

    ``recovery_point``: every offset below it was synced once. ``clean`` and ``loose``: how it left the directory
    (``LeftBehind``).
    """

    recovery_point: int = 0
    clean: bool = False
    loose: bool = False


def why_not_torn(files: Files, fd: int, size: int, offset: int, bad: BadBytes, known: Known) -> str | None:
    """Why no torn write explains what stands at the end of the last segment, of ``size`` bytes, where ``offset`` is
    due; None when one does. Raises OSError."""
    if bad.intact:
        return bad.reason
    if known.clean:
        return f"{bad.reason}; this is no torn write, as the log was closed in good order"
    if offset < known.recovery_point:
        return f"{bad.reason}; this is no torn write, as offsets up to {known.recovery_point} were synced"
    # Where more than one batch may have been on its way to the disk, a later one may have got there first. Else a sound
    # one behind the damage shows that what was damaged had been durable.
    later = None if known.loose else find_sound_batch(files, fd, bad.position + 1, size, offset)
    return None if later is None else f"{bad.reason}; this is no torn write, as a sound batch follows at byte {later}"


def cut_torn_tail(files: Files, fd: int, path: Path, size: int, end: LogEnd, reason: str) -> None:
    """Cuts the segment at ``end``, durably. Raises OSError, nothing having been cut, when no copy can be kept."""
    copy = keep_copy(files, fd, path, end.position, size)
    files.truncate(fd, end.position)
    files.fsync(fd)
    _logger.warning(
        "%s: cut off a torn write of %d bytes at byte %d (offset %d): %s; kept as %s",
        path,
        size - end.position,
        end.position,
        end.offset,
        reason,
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
            copied = copy_range(files, fd, start, size, files, copy_fd)
            if copied < size - start:
                raise OSError(errno.EIO, f"unreadable from byte {start + copied} on", str(path))
            files.fsync(copy_fd)
        finally:
            files.close(copy_fd)
        files.sync_directory(path.parent)
    except BaseException:
        files.unlink(copy)
        raise
    return copy


def copy_range(files: Files, fd: int, start: int, end: int, target_files: Files, target: int) -> int:
    """Bytes from ``start`` to ``end`` of a file, to the beginning of another, not durably. Gives how many: fewer where
    the file ends before. Raises OSError."""
    position = start
    while position < end and (data := files.read_at(fd, min(_COPY_SIZE, end - position), position)):
        target_files.write_at(target, data, position - start)
        position += len(data)
    return position - start


def _new_copy(files: Files, path: Path) -> tuple[Path, int]:
    number = 0
    copy = path
    while True:
        try:
            return copy, files.create(copy)
        except FileExistsError:
            number += 1
            copy = path.with_name(f"{path.name}-{number}")
