"""A file layer between the log and the real disk that fails on demand and knows which descriptors are open."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

from shim.log.disk.files import Files

Fault = Callable[[Path], None]
"""Is called with the path before the call is made; what it raises the call raises."""


class FaultyFiles(Files):
    """``faults`` is by method name; ``calls`` holds (method, path); ``open_files`` is by descriptor."""

    def __init__(self) -> None:
        self.faults: dict[str, Fault] = {}
        self.calls: list[tuple[str, Path]] = []
        self.open_files: dict[int, Path] = {}
        self.longest_write = 1 << 40
        self.longest_read = 1 << 40

    def fail(self, method: str, error: int, *path_contains: str) -> None:
        """From now on, this method fails for paths that contain one of these, or for all; ``heal`` undoes it."""

        def fault(path: Path) -> None:
            if not path_contains or any(part in str(path) for part in path_contains):
                raise OSError(error, os.strerror(error), str(path))

        self.faults[method] = fault

    def heal(self) -> None:
        self.faults.clear()

    def _call(self, method: str, path: Path) -> None:
        self.calls.append((method, path))
        if method in self.faults:
            self.faults[method](path)

    def create(self, path: Path) -> int:
        self._call("create", path)
        fd = super().create(path)
        self.open_files[fd] = path
        return fd

    def open(self, path: Path) -> int:
        self._call("open", path)
        fd = super().open(path)
        self.open_files[fd] = path
        return fd

    def close(self, fd: int) -> None:
        del self.open_files[fd]  # before another thread is given the number
        super().close(fd)

    def pread(self, fd: int, size: int, position: int) -> bytes:
        self._call("pread", self.open_files[fd])
        return super().pread(fd, min(size, self.longest_read), position)

    def pwrite(self, fd: int, data: bytes | memoryview, position: int) -> int:
        self._call("pwrite", self.open_files[fd])
        return super().pwrite(fd, data[: self.longest_write], position)

    def truncate(self, fd: int, size: int) -> None:
        self._call("truncate", self.open_files[fd])
        super().truncate(fd, size)

    def fdatasync(self, fd: int) -> None:
        self._call("fdatasync", self.open_files[fd])
        super().fdatasync(fd)

    def fsync(self, fd: int) -> None:
        self._call("fsync", self.open_files[fd])
        super().fsync(fd)

    def sync_directory(self, path: Path) -> None:
        self._call("sync_directory", path)
        super().sync_directory(path)

    def drop_cache(self, fd: int) -> None:
        self._call("drop_cache", self.open_files[fd])
        super().drop_cache(fd)

    def mkdir(self, path: Path) -> None:
        self._call("mkdir", path)
        super().mkdir(path)

    def unlink(self, path: Path) -> None:
        self._call("unlink", path)
        super().unlink(path)

    def rename(self, source: Path, target: Path) -> None:
        self._call("rename", target)
        super().rename(source, target)


class NeverSyncedFiles(FaultyFiles):
    """For thousands of starts and writes of which none is about what a crash leaves."""

    def fdatasync(self, fd: int) -> None:
        self._call("fdatasync", self.open_files[fd])

    def fsync(self, fd: int) -> None:
        self._call("fsync", self.open_files[fd])

    def sync_directory(self, path: Path) -> None:
        self._call("sync_directory", path)


class FillingFiles(FaultyFiles):
    """A disk with room for ``room`` more bytes: a write takes what fits, the next fails with ENOSPC."""

    def __init__(self) -> None:
        super().__init__()
        self.room = 1 << 40

    def pwrite(self, fd: int, data: bytes | memoryview, position: int) -> int:
        growth = max(0, position + len(data) - self.size(fd))
        if growth > self.room:
            data = data[: len(data) - growth + self.room]
            growth = self.room
        if not len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.open_files[fd]))
        self.room -= growth
        return super().pwrite(fd, data, position)
