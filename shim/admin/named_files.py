"""The files of the commands: whatever fails says of which file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shim.log.files import Files


class NamedFiles(Files):
    """A call that has a descriptor, where the system has no name to tell, raises OSError with the file's name, too."""

    def __init__(self) -> None:
        self._paths: dict[int, Path] = {}

    def create(self, path: Path) -> int:
        return self._opened(super().create(path), path)

    def open(self, path: Path) -> int:
        return self._opened(super().open(path), path)

    def _opened(self, fd: int, path: Path) -> int:
        self._paths[fd] = path
        return fd

    def close(self, fd: int) -> None:
        path = self._paths.pop(fd, None)  # before another thread is given the number
        with _naming(path):
            super().close(fd)

    def pread(self, fd: int, size: int, position: int) -> bytes:
        with _naming(self._paths.get(fd)):
            return super().pread(fd, size, position)

    def pwrite(self, fd: int, data: bytes | memoryview, position: int) -> int:
        with _naming(self._paths.get(fd)):
            return super().pwrite(fd, data, position)

    def truncate(self, fd: int, size: int) -> None:
        with _naming(self._paths.get(fd)):
            super().truncate(fd, size)

    def fdatasync(self, fd: int) -> None:
        with _naming(self._paths.get(fd)):
            super().fdatasync(fd)

    def fsync(self, fd: int) -> None:
        with _naming(self._paths.get(fd)):
            super().fsync(fd)

    def sync_directory(self, path: Path) -> None:
        with _naming(path):
            super().sync_directory(path)


@contextmanager
def _naming(path: Path | None) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.filename is None and path is not None:
            error.filename = str(path)
        raise
