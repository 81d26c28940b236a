"""How much of its time an event loop spends on handshakes."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from time import thread_time
from typing import Final

_SHARE: Final = 0.1
"""Of the loop's time, once there are many."""
_AT_ONCE_SECONDS: Final = 0.02
"""Processor time: what a page of some dozen files takes is not made to wait."""


class HandshakePace:
    """One step of a handshake after the other, in the order in which they came, and with turns of the loop between
    them. A step of one may take milliseconds, which all that the loop does has to wait for: whoever begins handshakes
    without end gets a share of it, and not all."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[Callable[[], None]] = deque()
        self._next: asyncio.TimerHandle | None = None
        self._paid_at = 0.0
        """When the time that was spent is made up for; of the loop's time."""

    def take(self, step: Callable[[], None]) -> None:
        """It is called when it is its turn."""
        self._waiting.append(step)
        if self._next is None:
            self._plan()

    def leave(self, step: Callable[[], None]) -> None:
        """It is not called, and what it holds is free: one that waits for its turn."""
        self._waiting.remove(step)

    def _plan(self) -> None:
        self._next = self._loop.call_at(self._paid_at - _AT_ONCE_SECONDS / _SHARE, self._step)

    def _step(self) -> None:
        if not self._waiting:  # who was next has left
            self._next = None
            return
        step, began = self._waiting.popleft(), thread_time()
        try:
            step()
        finally:
            self._next = None
            self._paid_at = max(self._paid_at, self._loop.time()) + (thread_time() - began) / _SHARE
            if self._waiting:
                self._plan()
