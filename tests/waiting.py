"""Waiting for what nobody tells: another thread, another process, a loop that has to come round."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

_SECONDS: Final = 60.0
_LOOKS_AGAIN_SECONDS: Final = 0.001
_ASKS_AGAIN_SECONDS: Final = 0.02


async def until(condition: Callable[[], object], seconds: float = _SECONDS) -> None:
    """For what is in this process. Raises TimeoutError."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110  # it has no event of its own
            await asyncio.sleep(_LOOKS_AGAIN_SECONDS)


def wait_until(condition: Callable[[], object], what: str = "it has not come true", seconds: float = _SECONDS) -> None:
    """For what is in another one. ``what``: the trouble where it never is. Raises TimeoutError."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(_ASKS_AGAIN_SECONDS)
