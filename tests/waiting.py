"""Waiting for what nobody tells: another thread, another process, a loop that has to come round."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

T = TypeVar("T")

_SECONDS: Final = 60.0
_LOOKS_AGAIN_SECONDS: Final = 0.001
_ASKS_AGAIN_SECONDS: Final = 0.02
_SELDOMER: Final = 1.1  # what has not come true for a while is looked at as seldom as what is asked for


async def turns_of_the_loop() -> None:
    """More than anything takes that waits for nothing but its turn."""
    for _ in range(10):
        await asyncio.sleep(0)


async def until(condition: Callable[[], object], seconds: float = _SECONDS) -> None:
    """For what is in this process. Raises TimeoutError."""
    pause = _LOOKS_AGAIN_SECONDS
    async with asyncio.timeout(seconds):
        while not condition():  # it has no event of its own
            await asyncio.sleep(pause)
            pause = min(_ASKS_AGAIN_SECONDS, pause * _SELDOMER)


async def until_told(
    ask: Callable[[], Awaitable[T | None]], seconds: float = _SECONDS, *, again_seconds: float = _ASKS_AGAIN_SECONDS
) -> T:
    """For what has to be asked for: the first answer that is something. Raises TimeoutError."""
    async with asyncio.timeout(seconds):
        while not (told := await ask()):  # noqa: ASYNC110  # nor has this
            await asyncio.sleep(again_seconds)
    return told


def wait_until(
    condition: Callable[[], T | None],
    what: str | Callable[[], object] = "it has not come true",
    seconds: float = _SECONDS,
) -> T:
    """For what is in another one: what it gives once that is something. ``what``: the trouble where it never is, or who
    tells it then. Raises TimeoutError."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(what if isinstance(what, str) else what())
        time.sleep(_ASKS_AGAIN_SECONDS)
    return found
