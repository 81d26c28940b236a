"""What goes wrong again and again, in one line of the log."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from typing import Final, NamedTuple

MOST: Final = 1000
"""Kinds of trouble that are remembered: some are of groups, of which clients name any number."""

STALE_SECONDS: Final = 600.0
"""One that was not met with for so long makes room for another."""


class _Why(NamedTuple):
    words: str
    level: int
    met_at: float


class LoggedOnce:
    """A line for each kind of trouble, until it goes well again or something else is wrong."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._why: OrderedDict[str, _Why] = OrderedDict()
        self._told_of_others = False

    def failed(self, what: str, error: Exception, level: int = logging.WARNING, *, kind: str | None = None) -> None:
        """At another ``level`` it is something else that is wrong. ``kind``: of errors that say it in turns in words of
        their own, as each of several brokers does; by default other words are something else, too."""
        now = time.monotonic()
        before = self._why.pop(what, None)
        if before is None and not self._has_room(now):
            if not self._told_of_others:
                self._told_of_others = True
                self._log.warning("and more than %s others of that kind, which are not told: %s", f"{MOST:,}", what)
            return
        why = self._why[what] = _Why(kind or str(error), level, now)
        if before is None or before[:2] != why[:2]:
            self._log.log(level, "%s for now: %s", what, error)

    def why(self, what: str) -> str:
        """What is wrong with it; "" where nothing is, or it was not told of."""
        return self._why[what].words if what in self._why else ""

    def _has_room(self, now: float) -> bool:
        if len(self._why) >= MOST:
            oldest = next(iter(self._why))
            if now - self._why[oldest].met_at < STALE_SECONDS:
                return False
            del self._why[oldest]
        self._told_of_others = False
        return True

    def went_well(self, what: str) -> None:
        """That it is over is a line, too, where there was trouble."""
        if self._why.pop(what, None) is not None:
            self._log.info("this is over: %s", what)

    def forget(self, what: str) -> None:
        """What was wrong has gone away rather than got well, or somebody else sees to it: that is no line."""
        self._why.pop(what, None)
