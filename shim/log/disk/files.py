"""The calls through which the log reaches the disk, so that a test can stand between the two."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar, TypeVarTuple

_Arguments = TypeVarTuple("_Arguments")
_Result = TypeVar("_Result")


def _naming(call: Callable[[int, *_Arguments], _Result]) -> Callable[[int, *_Arguments], _Result]:
    """The same call; where it fails it says of which file."""

    def naming(fd: int, *args: *_Arguments) -> _Result:
        try:
            return call(fd, *args)
        except OSError as error:
            with suppress(OSError):  # where that is not to be had, the rest says enough
                error.filename = str(Path(f"/proc/self/fd/{fd}").readlink())
            raise

    return naming


_pread: Final = _naming(os.pread)
_pwrite: Final = _naming(os.pwrite)
_truncate: Final = _naming(os.ftruncate)
_fdatasync: Final = _naming(os.fdatasync)
_fsync: Final = _naming(os.fsync)


class Files:
    """Thin over ``os``; every method raises OSError as the call does, with the name of the file where the call has only
    a descriptor. These are plain numbers, closed by who opened them.
    """

    def create(self, path: Path) -> int:
        """A new, empty file for reading and writing. FileExistsError when the name is taken.

        The name is durable only after :meth:`sync_directory` of its folder.
        """
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)

    def open(self, path: Path) -> int:
        """An existing file for reading and writing."""
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def close(self, fd: int) -> None:
        os.close(fd)

    def size(self, fd: int) -> int:
        """Bytes of the file."""
        return os.fstat(fd).st_size

    def pread(self, fd: int, size: int, position: int) -> bytes:
        """At most ``size`` bytes; fewer do not mean the end of the file, none do."""
        return _pread(fd, size, position)

    def pwrite(self, fd: int, data: bytes | memoryview, position: int) -> int:
        """Bytes written, which may be fewer than given."""
        return _pwrite(fd, data, position)

    def read_at(self, fd: int, size: int, position: int) -> bytes:
        """``size`` bytes from ``position`` on, or all that there are up to the end of the file."""
        data = self.pread(fd, size, position)
        if len(data) == size or not data:
            return data
        parts = [data]
        done = len(data)
        while done < size and (data := self.pread(fd, size - done, position + done)):
            parts.append(data)
            done += len(data)
        return b"".join(parts)

    def write_at(self, fd: int, data: bytes, position: int) -> None:
        """All of ``data`` at ``position``. After an OSError any part of it may stand there."""
        done = self.pwrite(fd, data, position)
        if done == len(data):
            return
        rest = memoryview(data)
        while done < len(data):
            written = self.pwrite(fd, rest[done:], position + done)
            if not written:
                raise OSError(errno.EIO, "the file takes no more bytes")
            done += written

    def read_file(self, path: Path) -> bytes:
        """All of a small file."""
        fd = self.open(path)
        try:
            return self.read_at(fd, self.size(fd), 0)
        finally:
            self.close(fd)

    def size_of(self, path: Path) -> int:
        """Bytes of the file of this name."""
        fd = self.open(path)
        try:
            return self.size(fd)
        finally:
            self.close(fd)

    def seconds_old(self, path: Path) -> float:
        """For how long nothing was written to the file of this name, by the machine's clock: less than 0 where that was
        set back."""
        return time.time() - path.stat().st_mtime

    def truncate(self, fd: int, size: int) -> None:
        _truncate(fd, size)

    def fdatasync(self, fd: int) -> None:
        """The file's bytes, and its size, are durable when this returns."""
        _fdatasync(fd)

    def fsync(self, fd: int) -> None:
        """As :meth:`fdatasync`, with everything else that belongs to the file."""
        _fsync(fd)

    def sync_directory(self, path: Path) -> None:
        """The names in this folder are durable when this returns."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _fsync(fd)
        finally:
            os.close(fd)

    def drop_cache(self, fd: int) -> None:
        """Asks the kernel to forget its clean pages of the file, so that what is read next comes from the disk
        (advice, not a command).
        """
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)

    def mkdir(self, path: Path) -> None:
        """A new folder; durable only after :meth:`sync_directory` of the one that it is in."""
        path.mkdir()

    def rmdir(self, path: Path) -> None:
        """An empty folder; durable only after :meth:`sync_directory` of the one that it is in."""
        path.rmdir()

    def unlink(self, path: Path) -> None:
        """Durable only after :meth:`sync_directory` of the folder."""
        path.unlink()

    def rename(self, source: Path, target: Path) -> None:
        """At one stroke, in the place of what was named ``target``; durable only after :meth:`sync_directory`."""
        source.replace(target)

    def exists(self, path: Path) -> bool:
        return path.exists()

    def names(self, path: Path) -> list[str]:
        """The names in a folder, sorted."""
        return sorted(entry.name for entry in path.iterdir())

    def lock(self, path: Path) -> int:
        """A descriptor that holds the file, made if need be, for this process alone, until :meth:`unlock`.

        It is a ``flock``: the kernel gives it back however the process ends. BlockingIOError when another has it.
        """
        return _locked(path, os.O_RDWR | os.O_CREAT, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def lock_shared(self, path: Path) -> int:
        """A descriptor with which others may hold the file, too, and none by :meth:`lock`, until :meth:`unlock`. Only
        the right to read it is needed. FileNotFoundError where there is none: it is not made. BlockingIOError when
        another has it for itself.
        """
        return _locked(path, os.O_RDONLY, fcntl.LOCK_SH | fcntl.LOCK_NB)

    def wait_for_lock(self, path: Path) -> int:
        """As :meth:`lock`, once whoever else has it has given it back."""
        return _locked(path, os.O_RDWR | os.O_CREAT, fcntl.LOCK_EX)

    def is_held(self, path: Path) -> bool:
        """Whether another process has the file to itself: as by :meth:`lock`, or as Java does (a record lock)."""
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            fcntl.lockf(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(fd)
        return False

    def unlock(self, fd: int) -> None:
        os.close(fd)


def _locked(path: Path, flags: int, how: int) -> int:
    fd = os.open(path, flags | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(fd, how)
    except BaseException:
        os.close(fd)
        raise
    return fd
