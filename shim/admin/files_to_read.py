"""The files of commands that only look: none is opened to be written to, so that no right to do so is needed, and
nothing changes, be it on a disk that has gone read-only."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from shim.admin.named_files import NamedFiles


class _Piece(NamedTuple):
    position: int
    data: bytearray


class FilesToRead(NamedFiles):
    """What is written to one of these files is found in it from then on, and nowhere else: it stays in memory. That is
    for what a journal has, some tens of MB. It goes with the file, and not with its name, which another one may get."""

    def __init__(self) -> None:
        super().__init__()
        self._written: dict[tuple[int, int], list[_Piece]] = {}  # by device and inode, in the order of the writes

    def open(self, path: Path) -> int:
        return self._opened(os.open(path, os.O_RDONLY | os.O_CLOEXEC), path)

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
        pieces = self._written.setdefault(_identity(fd), [])
        if pieces and pieces[-1].position + len(pieces[-1].data) == position:
            pieces[-1].data.extend(data)
        else:
            pieces.append(_Piece(position, bytearray(data)))
        return len(data)

    def fdatasync(self, fd: int) -> None:
        """There is nothing to be made durable."""

    def fsync(self, fd: int) -> None:
        """As :meth:`fdatasync`."""

    def _pieces(self, fd: int) -> list[_Piece]:
        return self._written.get(_identity(fd), []) if self._written else []


def _identity(fd: int) -> tuple[int, int]:
    stat = os.fstat(fd)
    return stat.st_dev, stat.st_ino
