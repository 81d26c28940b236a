"""How late the event loop is: what every client waits for in addition."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from shim.metrics import Histogram

_EVERY_SECONDS: Final = 0.25


class LoopDelay:
    """``seconds``: how late it came to a timer."""

    def __init__(self) -> None:
        self.seconds = Histogram()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            due = time.monotonic() + _EVERY_SECONDS
            await asyncio.sleep(_EVERY_SECONDS)
            self.seconds.observe(max(0.0, time.monotonic() - due))
