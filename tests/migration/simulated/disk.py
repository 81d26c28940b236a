"""The shim's disk, and the thread that writes to it, of a process that can be killed at any moment."""

from __future__ import annotations

import asyncio
import errno
import os
import random
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final, TypeVarTuple

from shim.disk_log.writing_thread import WritingThread
from tests.log.faulty_files import NeverSyncedFiles

_Arguments = TypeVarTuple("_Arguments")

_WRITE_SECONDS: Final = 0.003
"""The mean of what a write waits for its turn, and then for its end."""


class Disk(NeverSyncedFiles):
    """Of one process: what it has written stays. ``dead``: the process is."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self.rng = rng
        self.dead = False
        self._locks: list[int] = []

    def lock(self, path: Path) -> int:
        fd = super().lock(path)
        self._locks.append(fd)
        return fd

    def unlock(self, fd: int) -> None:
        self._locks.remove(fd)
        super().unlock(fd)

    def abandon(self) -> None:
        """The process is killed: all that it has open is closed."""
        self.dead = True
        for fd in [*self.open_files, *self._locks]:
            os.close(fd)
        self.open_files.clear()
        self._locks.clear()

    def fail_once(self, method: str) -> None:
        """The next call of that method."""

        def fails(path: Path) -> None:
            self.faults.pop(method, None)
            raise OSError(errno.EIO, "the disk", str(path))

        self.faults[method] = fails

    def tear(self, killed: Callable[[], None], before: str) -> None:
        """The process is killed before it writes to that topic's log the next time: what was to be written together is
        there in part."""

        def fails(path: Path) -> None:
            if path.parent.name.startswith(f"{before}-"):
                self.faults.pop("pwrite", None)
                self.dead = True
                killed()
                raise OSError(errno.EIO, "the process is killed", str(path))

        self.faults["pwrite"] = fails


DISK: Final[ContextVar[Disk]] = ContextVar("disk")


class WritesOf(WritingThread):
    """In the loop's own thread, some time later."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._disk = DISK.get()
        self._free_at = 0.0

    def begin(
        self, done: Callable[[Any, BaseException | None], None], call: Callable[[*_Arguments], Any], *args: *_Arguments
    ) -> None:
        loop = asyncio.get_running_loop()
        self._free_at = max(loop.time(), self._free_at) + self._seconds()
        loop.call_at(self._free_at, self._work, done, call, args)

    def _work(self, done: Callable[[Any, BaseException | None], None], call: Callable[..., Any], args: Any) -> None:
        if self._disk.dead:
            return
        result = failed = None
        try:
            result = call(*args)
        except Exception as error:
            failed = error
        asyncio.get_running_loop().call_later(self._seconds(), self._ended, done, result, failed)

    def _ended(
        self, done: Callable[[Any, BaseException | None], None], result: Any, failed: BaseException | None
    ) -> None:
        if not self._disk.dead:
            done(result, failed)

    def _seconds(self) -> float:
        return self._disk.rng.expovariate(1 / _WRITE_SECONDS)
