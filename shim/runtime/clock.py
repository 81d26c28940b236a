"""The shim's clock."""

from __future__ import annotations

import time


class Clock:
    """Milliseconds since the epoch that never jump.

    The wall clock is read once; from then on the monotonic clock carries it. A wall clock that is set back or
    forward would otherwise expire every session at once, or none.

    One limit comes with that: what is stored (commit timestamps, the time of a group's state, records' timestamps) is
    read from the same clock. Where the wall clock is set, or the machine is suspended, while the shim runs, stored
    times stay off by as much until the shim is started again. Nothing but how long offsets and their history are kept
    depends on them, and that errs on the side of keeping them: see :meth:`surely_past`.
    """

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - time.monotonic_ns()

    def now(self) -> int:
        return (time.monotonic_ns() + self._offset_ns) // 1_000_000

    def surely_past(self) -> int:
        """A time that has come by the wall clock, too, which may have been wrong at the start, or be wrong now."""
        return min(self.now(), time.time_ns() // 1_000_000)

    def surely_not_before(self) -> int:
        """What is later has come by neither of the two clocks."""
        return max(self.now(), time.time_ns() // 1_000_000)
