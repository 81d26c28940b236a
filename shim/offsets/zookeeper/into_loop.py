"""From kazoo's threads into the event loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class IntoLoop(Generic[T]):
    """``take`` is called, in the event loop, with each thing that is :meth:`put`, in their order."""

    def __init__(self, take: Callable[[T], None]) -> None:
        self._take = take
        self._things: deque[T] = deque()
        self._woken = False

    def put(self, loop: asyncio.AbstractEventLoop, thing: T) -> None:
        """Called in any thread; many things wake the loop once."""
        self._things.append(thing)
        if not self._woken:
            self._woken = True
            in_loop(loop, self._deliver)

    def _deliver(self) -> None:
        self._woken = False  # before the first is taken: one that is put from here on wakes the loop again
        while self._things:
            self._take(self._things.popleft())


def in_loop(loop: asyncio.AbstractEventLoop, call: Callable[[], object]) -> None:
    """Nothing happens where the loop has ended: nobody waits then."""
    try:
        loop.call_soon_threadsafe(call)
    except RuntimeError:
        if not loop.is_closed():
            raise
