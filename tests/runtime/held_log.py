"""The real offsets log on a disk that waits for the test, and tickets that remember what they were told."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

from protocol.errors import ErrorCode
from protocol.own.history_log import HISTORY_TOPIC
from protocol.own.record_sets import Appended, Runs
from protocol.own.state_log import STATE_TOPIC
from protocol.partition import OFFSETS_TOPIC
from shim.log import LogSettings, MayWait, OffsetsLog, PartitionWrite, RecordsToWait
from tests.log.faulty_files import FaultyFiles

WAIT_SECONDS = 60.0
"""When a test gives up what never comes: no machine is so busy, nor its disk."""


class HeldLog(OffsetsLog):
    """Each write waits until :meth:`release`; ``writes`` are those that have begun, in order.

    ``history`` is shared with the tickets: ``"synced"`` for every successful sync of a segment that belongs to a
    write, beside the answers in the order in which they were given.
    """

    writes: list[list[PartitionWrite]]
    history: list[object]
    files: FaultyFiles

    @classmethod
    def at(
        cls,
        data_dir: Path,
        num_partitions: int,
        *,
        log_settings: LogSettings | None = None,
        topics: Sequence[str] = (OFFSETS_TOPIC, HISTORY_TOPIC, STATE_TOPIC),
    ) -> Self:
        history: list[object] = []
        files = RecordingFiles(history)
        log = cls.open(data_dir, num_partitions, topics=topics, settings=log_settings, files=files)
        log.files, log.history, log.writes = files, history, []
        log._released = threading.Semaphore(0)
        log._begun = asyncio.Semaphore(0)
        log._loop = asyncio.get_running_loop()
        return log

    def write(self, writes: Sequence[PartitionWrite], may_wait: MayWait | None = None) -> dict[int, OSError]:
        to_wait: dict[int, list[Appended]] = {}
        topic, timestamp_ms, (numbers, runs) = may_wait or MayWait("", 0, RecordsToWait((), ()))
        for number, run in zip(numbers, runs, strict=True):
            to_wait.setdefault(number, []).append(Runs((run,), 1))
        of_both = (PartitionWrite(number, its, timestamp_ms, topic) for number, its in to_wait.items())
        self.writes.append([*writes, *of_both])
        self._loop.call_soon_threadsafe(self._begun.release)
        if not self._released.acquire(timeout=WAIT_SECONDS):
            raise TimeoutError("the test never released this write")
        return super().write(writes, may_wait)

    async def write_begun(self) -> None:
        """Wait until one more write has begun; it has not touched the disk then."""
        async with asyncio.timeout(WAIT_SECONDS):
            await self._begun.acquire()

    def release(self, writes: int = 1) -> None:
        """Let this many writes go on to the disk."""
        self._released.release(writes)

    _released: threading.Semaphore
    _begun: asyncio.Semaphore
    _loop: asyncio.AbstractEventLoop


class RecordingFiles(FaultyFiles):
    def __init__(self, history: list[object]) -> None:
        super().__init__()
        self._history = history

    def fdatasync(self, fd: int) -> None:
        super().fdatasync(fd)
        self._history.append("synced")


class Answered(NamedTuple):
    """``by``: the ticket's name. ``what``: the response, or the error that the request failed with."""

    by: str
    what: Any


class Teller:
    """A ticket: it notes its one answer in ``history`` and lets the test await it."""

    def __init__(self, name: str, history: list[object]) -> None:
        self.name = name
        self._history = history
        self._answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    @property
    def told(self) -> bool:
        return self._answer.done()

    def answer(self, response: Any) -> None:
        assert not self.told, f"{self.name} is answered twice"
        self._history.append(Answered(self.name, response))
        self._answer.set_result(response)

    def fail(self, error: ErrorCode) -> None:
        self.answer(error)

    async def result(self) -> Any:
        async with asyncio.timeout(WAIT_SECONDS):
            return await asyncio.shield(self._answer)
