"""What of one client connection's requests takes its time: tasks that end with the connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from protocol.errors import DecodeError

T = TypeVar("T")


class Background:
    """Nobody waits for them; what one raises ends the connection."""

    __slots__ = ("_crashed", "_end", "_tasks")

    def __init__(self, end: Callable[[str], None], crashed: Callable[[BaseException], None]) -> None:
        """``end`` is told of what the broker is to blame for, ``crashed`` of a bug."""
        self._tasks: set[asyncio.Task[Any]] = set()
        self._end = end
        self._crashed = crashed

    def begin(self, work: Coroutine[Any, Any, T], then: Callable[[T], object] = lambda _: None) -> None:
        """`work` is a task of its own, so that it is ended in order even where the client leaves before it begins."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(partial(self._finished, then))

    def _finished(self, then: Callable[[T], object], task: asyncio.Task[T]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            try:
                then(task.result())
            except Exception as failure:
                self._crashed(failure)
        elif isinstance(error, ConnectionError):
            self._end(str(error))
        elif isinstance(error, DecodeError):
            self._end(f"the broker's response cannot be followed: {error}")
        else:
            self._crashed(error)

    def close(self) -> None:
        """Nobody is told of anything any more."""
        self._end = self._crashed = _nobody
        for task in list(self._tasks):
            task.cancel()


def _nobody(_: object) -> None:
    pass
