"""A cleaned segment, as it is written."""

from __future__ import annotations

from typing import Final, Protocol

from shim.log.cleaner.throttler import Throttler
from shim.log.disk.files import Files

_WRITE_SIZE: Final = 1 << 20


class Written(Protocol):
    """What counts the bytes."""

    bytes_written: int


class NewSegment:
    """A segment that is being written."""

    def __init__(self, files: Files, fd: int, throttler: Throttler, stats: Written) -> None:
        self._files = files
        self._fd = fd
        self._throttler = throttler
        self._stats = stats
        self._unwritten: list[bytes] = []
        self._unwritten_size = 0
        self._position = 0

    def append(self, batch: bytes) -> None:
        self._unwritten.append(batch)
        self._unwritten_size += len(batch)
        if self._unwritten_size >= _WRITE_SIZE:
            self._write()

    def finish(self) -> None:
        """Durable, as far as its bytes go, when this returns."""
        self._write()
        self._files.fdatasync(self._fd)

    def _write(self) -> None:
        self._files.write_at(self._fd, b"".join(self._unwritten), self._position)
        self._position += self._unwritten_size
        self._stats.bytes_written += self._unwritten_size
        self._throttler.spend(self._unwritten_size)
        self._unwritten.clear()
        self._unwritten_size = 0

    def close(self) -> None:
        self._files.close(self._fd)
