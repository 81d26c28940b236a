"""The thread that writes the log: one call after the other, and one wake-up of the event loop for each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import Any, NamedTuple, TypeVar, TypeVarTuple

_Arguments = TypeVarTuple("_Arguments")
_Result = TypeVar("_Result")


class _Job(NamedTuple):
    """``done`` is called in the loop, with the result or None, and the exception or None."""

    loop: asyncio.AbstractEventLoop
    call: Callable[..., Any]
    args: tuple[Any, ...]
    done: Callable[[Any, BaseException | None], None]


class WritingThread:
    """For the event loop. An executor's futures cost three wake-ups and a dozen objects a call, which at one commit a
    flight is more than the rest of the flight."""

    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
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
        self._jobs.put(_Job(asyncio.get_running_loop(), call, args, done))

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
            result = failed = None
            try:
                result = job.call(*job.args)
            except BaseException as error:
                failed = error
            with suppress(RuntimeError):  # the loop was closed: whoever had it has given up
                job.loop.call_soon_threadsafe(job.done, result, failed)
            del job, result, failed  # or they would live as long as there is nothing else to do

    def shutdown(self) -> None:
        """Wait until it has done everything. None is begun any more."""
        if self._begun:
            self._jobs.put(None)
            self._thread.join()
