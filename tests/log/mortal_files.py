"""Files of a process that dies at a call."""

from __future__ import annotations

from pathlib import Path

from shim.log.disk.files import Files


class Killed(BaseException):
    """The process is gone: no call of it reaches the disk any more."""


class MortalFiles(Files):
    """Dies at the call number ``at`` of those that change something: just before it, or half way through a write."""

    def __init__(self, at: int = 1 << 30) -> None:
        self.at = at
        self.calls = 0
        self.dies_after_rename = False

    def _call(self) -> None:
        self.calls += 1
        if self.calls >= self.at:
            raise Killed

    def create(self, path: Path) -> int:
        self._call()
        return super().create(path)

    def pwrite(self, fd: int, data: bytes | memoryview, position: int) -> int:
        if self.calls + 1 == self.at:
            super().pwrite(fd, data[: len(data) // 2], position)
        self._call()
        return super().pwrite(fd, data, position)

    def fdatasync(self, fd: int) -> None:
        self._call()
        super().fdatasync(fd)

    def fsync(self, fd: int) -> None:
        self._call()
        super().fsync(fd)

    def sync_directory(self, path: Path) -> None:
        self._call()
        super().sync_directory(path)

    def rename(self, source: Path, target: Path) -> None:
        self._call()
        super().rename(source, target)
        if self.dies_after_rename:
            self.at = 0

    def unlink(self, path: Path) -> None:
        self._call()
        super().unlink(path)
