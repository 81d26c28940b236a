"""An event loop whose time is its own: where nothing can be done now it is at once when something can be."""

from __future__ import annotations

import asyncio
import contextvars
import selectors
from collections.abc import Callable, Coroutine
from itertools import count
from typing import Any, Final, TypeVar

from shim.runtime import Clock

Result = TypeVar("Result")

OWNER: Final[contextvars.ContextVar[object]] = contextvars.ContextVar("owner", default=None)
"""Whose tasks those are that are made here."""

_NUMBERS: Final = count()

_BEGAN_MS: Final = 1_750_000_000_000
"""The time of day then, since the epoch."""


class _Selector(selectors.DefaultSelector):
    elapse: Callable[[float], None]

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            raise RuntimeError("everybody waits, and for nothing that will come")
        if timeout > 0:
            self.elapse(timeout)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """What is to be run in threads is run at once, in its own. ``broken``: what nobody has caught."""

    def __init__(self) -> None:
        self._now = 0.0
        selector = _Selector()
        selector.elapse = self._elapse
        super().__init__(selector)
        self.broken: list[dict[str, Any]] = []
        self.set_exception_handler(lambda _, context: self.broken.append(context))
        self.set_task_factory(_owned)

    def _elapse(self, seconds: float) -> None:
        self._now += seconds

    def time(self) -> float:
        return self._now

    def run_in_executor(  # type: ignore[override]  # theirs is typed as a coroutine's
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future


class VirtualClock(Clock):
    """Carried by the time of the loop that it was made in; threads may ask it, too."""

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()

    def now(self) -> int:
        return _BEGAN_MS + round(self._loop.time() * 1000)


class OwnedTask(asyncio.Task[Any]):
    owner: object = None
    number: int = 0
    """In the order in which they were made."""


def _owned(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> OwnedTask:
    task = OwnedTask(coroutine, loop=loop, **options)
    task.owner = OWNER.get()
    task.number = next(_NUMBERS)
    return task


async def end_tasks_of(owner: object) -> None:
    """Wherever they are, and those that they make as they end."""
    while tasks := [each for each in asyncio.all_tasks() if isinstance(each, OwnedTask) and each.owner is owner]:
        for each in sorted(tasks, key=lambda task: task.number):
            each.cancel()
        await asyncio.wait(tasks)


def run(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Raises RuntimeError for whatever has gone wrong in callbacks, too."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        result = runner.run(coroutine)
        loop = runner.get_loop()
        assert isinstance(loop, VirtualLoop)
        if loop.broken:
            raise RuntimeError(f"{len(loop.broken)} errors in callbacks, as of {loop.broken[0]}")
    return result
