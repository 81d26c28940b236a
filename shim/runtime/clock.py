"""The shim's clock."""

from __future__ import annotations

import time


class Clock:
    """Milliseconds since the epoch that never jump.

    The wall clock is read once; from then on the monotonic clock carries it. A wall clock that is set back or
    forward would otherwise expire every session at once, or none.
    """

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - time.monotonic_ns()

    def now(self) -> int:
        return (time.monotonic_ns() + self._offset_ns) // 1_000_000
