"""Lines of the log that a client can cause at will: few of them, however often it does."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from shim.config import HostPort

WINDOW_SECONDS: Final = 60.0
REASONS: Final = 10
"""Of one address, in one window."""
ADDRESSES: Final = 1000
"""In one window; all others are one more."""

_OTHERS: Final = ""


class _Window:
    """What one address has caused since ``start``: reasons told, and of each how many were not since its last line."""

    __slots__ = ("start", "told", "untold")

    def __init__(self, start: float) -> None:
        self.start = start
        self.told: set[str] = set()
        self.untold: dict[str, int] = {}

    def is_told(self, reason: str) -> bool:
        """Whether it has a line; else it is counted."""
        if reason in self.told or len(self.told) >= REASONS:
            if reason in self.untold or len(self.untold) < REASONS:
                self.untold[reason] = self.untold.get(reason, 0) + 1
            return False
        self.told.add(reason)
        return True


class Complaints:
    """The first one about an address for a reason has a line; in the minute that follows more of the same are counted,
    and their next line says how many there were.
    """

    def __init__(self, log: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._clock = clock
        self._windows: dict[str, _Window] = {}

    def closed(self, peer: HostPort, reason: str, shown: str = "") -> None:
        """A connection has been closed. ``shown``: more than the address, for the line."""
        self.tell(peer.host, reason, f"client {shown or peer}: connection closed: {reason}")

    def tell(self, about: str, reason: str, line: str) -> None:
        """A line, or none. ``about``: an address, a client's or one of the shim's own."""
        window = self._window(about, self._clock())
        if window.is_told(reason):
            untold = window.untold.pop(reason, 0)
            more = f" ({untold} more of these from there since the last line)" if untold else ""
            self._log.warning("%s%s", line, more)

    def _window(self, about: str, now: float) -> _Window:
        if about not in self._windows and len(self._windows) >= ADDRESSES:
            self._windows = {
                address: window for address, window in self._windows.items() if now - window.start < WINDOW_SECONDS
            }
            if len(self._windows) >= ADDRESSES:
                about = _OTHERS
        window = self._windows.get(about)
        if window is None:
            window = self._windows[about] = _Window(now)
        elif now - window.start >= WINDOW_SECONDS:
            window.start = now
            window.told.clear()
        return window
