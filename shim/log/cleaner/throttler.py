"""How fast the cleaner may go: bytes a second, and turns between which other threads have theirs."""

from __future__ import annotations

import math
from collections.abc import Callable
from threading import Event
from typing import Final

_SHORTEST_WAIT_S: Final = 0.01
_TURN_S: Final = 0.0005
_BETWEEN_TURNS_S: Final = 0.00005
_FAR_BEHIND: Final = 3.0
_LONGEST_TURN_S: Final = _TURN_S * 4**_FAR_BEHIND


class CleaningStopped(Exception):
    """A round broke off because the cleaner was stopped, or because the partition is being recovered."""


class Throttler:
    """Keeps what is read and written below a number of bytes a second, lets other threads have their turn, and breaks
    off when the cleaner is stopped.

    The turns: cleaning is Python from end to end, so it holds the interpreter's lock, and a thread that wakes up waits
    5 ms (the switch interval) until it is given that, on each of the several wake-ups of one commit. So it is offered
    more often than it is asked for; the waits in which that is done cost the cleaner little where nobody else is at
    work, and most of its speed where commits take all the time there is. There it would never catch up, so its turns
    become longer the more there is to clean: commits slow down before the disk fills.
    """

    def __init__(
        self, bytes_per_second: float, stopped: Event, clock: Callable[[], float], wait: Callable[[float], object]
    ) -> None:
        self._bytes_per_second = bytes_per_second
        self._stopped = stopped
        self._clock = clock
        self._wait = wait
        self._due = -math.inf
        self._turn_began = -math.inf
        self._turn_s = _TURN_S

    def take_rate(self, bytes_per_second: float) -> None:
        """From any thread; what was spent before is waited for at the rate that it was spent at."""
        self._bytes_per_second = bytes_per_second

    def hurry(self, behind: float) -> None:
        """Until further notice; ``behind``: how many times what may well be there is waiting to be cleaned."""
        self._turn_s = _LONGEST_TURN_S if behind >= _FAR_BEHIND else _TURN_S * 4**behind

    def spend(self, size: int) -> None:
        """Told after ``size`` bytes; waits until they are paid for. Raises CleaningStopped."""
        now = self._clock()
        self._due = max(self._due, now) + size / self._bytes_per_second
        ahead = self._due - now
        if ahead >= _SHORTEST_WAIT_S or now - self._turn_began >= self._turn_s:
            self._wait(max(ahead, _BETWEEN_TURNS_S))
            self._turn_began = self._clock()
        if self._stopped.is_set():
            raise CleaningStopped
