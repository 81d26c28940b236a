"""The thread that writes the log: one call after the other, and one wake-up of the event loop for each."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, TypeVar, TypeVarTuple

_Arguments = TypeVarTuple("_Arguments")
_Result = TypeVar("_Result")


class _Job:
    """``done`` is called in the loop, with the result or None, and the exception or None. ``over``: held until then."""

    __slots__ = ("args", "call", "done", "failed", "loop", "over", "result")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        done: Callable[[Any, BaseException | None], None],
        call: Callable[..., Any],
        args: tuple[Any, ...],
    ) -> None:
        self.loop = loop
        self.done = done
        self.call = call
        self.args = args
        self.result: Any = None
        self.failed: BaseException | None = None
        self.over = Lock()
        self.over.acquire()

    def run(self) -> None:
        try:
            self.result = self.call(*self.args)
        except BaseException as error:
            self.failed = error
        self.over.release()


class WritingThread:
    """For the event loop. An executor's futures cost three wake-ups and a dozen objects a call, which at one commit a
    flight is more than the rest of the flight."""

    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._untold: deque[_Job] = deque()
        # As a daemon, so that a process whose disk hangs can end.
        self._thread = Thread(target=self._run, name=name, daemon=True)
        self._begun = False

    def begin(
        self,
        done: Callable[[Any, BaseException | None], None],
        call: Callable[[*_Arguments], _Result],
        *args: *_Arguments,
    ) -> None:
        """Have this called behind everything before it, and then ``done`` in the loop."""
        if not self._begun:
            self._begun = True
            self._thread.start()
        job = _Job(asyncio.get_running_loop(), done, call, args)
        self._untold.append(job)
        self._jobs.put(job)

    def tell_within(self, seconds: float) -> None:
        """Wait so long, at most, for what was begun first of all that nobody was told of, and call its ``done`` now.
        Blocks the loop."""
        if self._untold and (first := self._untold[0]).over.acquire(timeout=seconds):
            self._tell(first)

    def _tell(self, job: _Job) -> None:
        """And those before it, unless that was done. What was begun in a loop that is gone nobody is told of."""
        while job in self._untold:
            first = self._untold.popleft()
            if first.loop is job.loop:
                first.done(first.result, first.failed)

    async def call(self, call: Callable[[*_Arguments], _Result], *args: *_Arguments) -> _Result:
        """Likewise, and wait for it; where nobody does any more when its turn comes, nothing. Raises what it raises."""
        result: asyncio.Future[_Result] = asyncio.get_running_loop().create_future()

        def done(value: _Result, error: BaseException | None) -> None:
            if result.done():  # given up
                return
            if error is not None:
                result.set_exception(error)
            else:
                result.set_result(value)

        def unless_given_up() -> _Result | None:
            return None if result.cancelled() else call(*args)

        self.begin(done, unless_given_up)
        return await result

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job.run()
            with suppress(RuntimeError):  # the loop was closed: whoever had it has given up
                job.loop.call_soon_threadsafe(self._tell, job)
            del job  # or it would live as long as there is nothing else to do

    def shutdown(self) -> None:
        """Wait until it has done everything. None is begun any more."""
        if self._begun:
            self._jobs.put(None)
            self._thread.join()
