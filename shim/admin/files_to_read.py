"""The files of commands that only look: none is opened to be written to, so that no right to do so is needed, and
nothing changes, be it on a disk that has gone read-only."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import NamedTuple, NoReturn

from shim.log.disk.files import Files


class _Piece(NamedTuple):
    position: int
    data: bytearray


class _Written(NamedTuple):
    """``held``: a descriptor of the file, so that no other one gets its inode. ``pieces``: as they were written."""

    held: int
    pieces: list[_Piece]


class FilesToRead(Files):
    """What is written to one of these files is found in it from then on, and nowhere else: it stays in memory, with the
    file open, until :meth:`forget`. That is for what a journal has, some tens of MB. It goes with the file, and not
    with its name, which another one may get. Whatever else would change something raises OSError, as on a read-only
    disk.
    """

    def __init__(self) -> None:
        self._written: dict[tuple[int, int], _Written] = {}  # by device and inode

    def forget(self) -> None:
        """The files are what they are on the disk again."""
        for written in self._written.values():
            os.close(written.held)
        self._written.clear()

    def create(self, path: Path) -> NoReturn:
        _refuse(path)

    def truncate(self, fd: int, size: int) -> NoReturn:
        _refuse(Path(f"/proc/self/fd/{fd}").readlink())

    def mkdir(self, path: Path) -> NoReturn:
        _refuse(path)

    def rmdir(self, path: Path) -> NoReturn:
        _refuse(path)

    def unlink(self, path: Path) -> NoReturn:
        _refuse(path)

    def rename(self, source: Path, target: Path) -> NoReturn:
        _refuse(source)

    def lock(self, path: Path) -> NoReturn:
        """It would be made."""
        _refuse(path)

    def wait_for_lock(self, path: Path) -> NoReturn:
        """As :meth:`lock`."""
        _refuse(path)

    def open(self, path: Path) -> int:
        """What is read is what the disk has, as far as that is to be had: a sync that failed may have left pages in
        memory that are taken for clean, and are not there. A start believes these no more."""
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.drop_cache(fd)
        return fd

    def size(self, fd: int) -> int:
        return max(super().size(fd), *(piece.position + len(piece.data) for piece in self._pieces(fd)), 0)

    def pread(self, fd: int, size: int, position: int) -> bytes:
        end = position + size
        for at, data in reversed(self._pieces(fd)):  # the last one counts
            if at <= position < at + len(data):
                return bytes(data[position - at : end - at])
            if position < at:
                end = min(end, at)
        return super().pread(fd, end - position, position) or bytes(max(0, min(end, self.size(fd)) - position))

    def pwrite(self, fd: int, data: bytes | memoryview, position: int) -> int:
        identity = _identity(fd)
        if identity not in self._written:
            self._written[identity] = _Written(os.dup(fd), [])
        pieces = self._written[identity].pieces
        if pieces and pieces[-1].position + len(pieces[-1].data) == position:
            pieces[-1].data.extend(data)
        else:
            pieces.append(_Piece(position, bytearray(data)))
        return len(data)

    def fdatasync(self, fd: int) -> None:
        """There is nothing to be made durable."""

    def fsync(self, fd: int) -> None:
        """As :meth:`fdatasync`."""

    def sync_directory(self, path: Path) -> None:
        """As :meth:`fdatasync`."""

    def _pieces(self, fd: int) -> list[_Piece]:
        written = self._written.get(_identity(fd)) if self._written else None
        return written.pieces if written else []


def _refuse(path: Path | None) -> NoReturn:
    raise OSError(errno.EROFS, os.strerror(errno.EROFS), None if path is None else str(path))


def _identity(fd: int) -> tuple[int, int]:
    stat = os.fstat(fd)
    return stat.st_dev, stat.st_ino
