"""What happens to groups, as lines of the log."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from typing import Final

from shim.coordinator import GroupEvent

log = logging.getLogger(__name__)

WARNED_SECONDS: Final = 600.0
"""A client that is begun again and again is no news for so long."""
_MOST: Final = 1000
"""Warnings that are remembered: of groups, of which clients name any number."""


class Telling:
    """With the group beside each line, so that one of which much is to be told takes no room from the others."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """``clock``: in seconds, it only runs forward."""
        self._clock = clock
        self._warned: dict[tuple[str, str], float] = {}

    def tell(self, events: Iterable[GroupEvent]) -> None:
        """What warns is a warning once for its group, and then as all else is, for :data:`WARNED_SECONDS`."""
        for event in events:
            level = logging.WARNING if event.warns and self._is_news(event) else logging.INFO
            log.log(level, event.template, *event.values, extra={"group": event.group})

    def _is_news(self, event: GroupEvent) -> bool:
        now, what = self._clock(), (event.group, event.template)
        warned = self._warned.get(what)
        if warned is not None and now - warned < WARNED_SECONDS:
            return False
        self._warned.pop(what, None)
        if len(self._warned) >= _MOST:
            del self._warned[next(iter(self._warned))]
        self._warned[what] = now
        return True
