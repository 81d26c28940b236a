"""The clock by which something ends: it runs on through a suspend."""

from __future__ import annotations

import time


def boottime() -> float:
    """Seconds of CLOCK_BOOTTIME. Only of one machine: never to be compared with another one's."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
