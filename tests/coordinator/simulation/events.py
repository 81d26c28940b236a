"""Simulated time: what is to happen, in order; two runs from one seed are the same."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from random import Random


class Events:
    """`now` in milliseconds since the epoch; it moves only from one event to the next."""

    def __init__(self, seed: int, start: int) -> None:
        self.random = Random(seed)
        self.now = start
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = count()

    def after(self, delay_ms: int, happen: Callable[[], None]) -> None:
        heapq.heappush(self._heap, (self.now + delay_ms, next(self._numbers), happen))

    def within(self, most_ms: int, happen: Callable[[], None]) -> None:
        """At some time in the next so many milliseconds."""
        self.after(self.random.randint(0, most_ms), happen)

    def chance(self, of_one: float) -> bool:
        return self.random.random() < of_one

    def run(self, ms: int) -> None:
        """Let so much time pass."""
        until = self.now + ms
        while self._heap and self._heap[0][0] <= until:
            at, _, happen = heapq.heappop(self._heap)
            self.now = at
            happen()
        self.now = until
