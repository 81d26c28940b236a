"""Sizes counted in fixed buckets."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from shim.metrics.model import Distribution

LATENCY_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""From what is answered at once to what waits for a rebalance."""

RECORDS: Final = (1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1_000.0, 5_000.0, 25_000.0)
"""Of one flush."""


class Histogram:
    """To observe is a binary search and three additions."""

    __slots__ = ("_bounds", "_counts", "_total")

    def __init__(self, bounds: Sequence[float] = LATENCY_SECONDS) -> None:
        """``bounds``: ascending, each inclusive."""
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(self._bounds) + 1)
        self._total = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        self._counts[bisect_left(self._bounds, value)] += times
        self._total += value * times

    def read(self) -> Distribution:
        return Distribution(self._bounds, tuple(self._counts), self._total)
