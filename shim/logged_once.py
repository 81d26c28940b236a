"""What goes wrong again and again, in one line of the log."""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import Final

MOST: Final = 1000
"""Kinds of trouble that are remembered: some are of groups, of which clients name any number. Beyond that the one that
was met with longest ago is forgotten."""


class LoggedOnce:
    """A line for each kind of trouble, until it goes well again or something else is wrong."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._why: OrderedDict[str, tuple[str, int]] = OrderedDict()

    def failed(self, what: str, error: Exception, level: int = logging.WARNING, *, kind: str | None = None) -> None:
        """At another ``level`` it is something else that is wrong. ``kind``: of errors that say it in turns in words of
        their own, as each of several brokers does; by default other words are something else, too."""
        why = kind or str(error), level
        before = self._why.pop(what, None)
        self._why[what] = why
        if len(self._why) > MOST:
            self._why.popitem(last=False)
        if before != why:
            self._log.log(level, "%s for now: %s", what, error)

    def went_well(self, what: str) -> None:
        """That it is over is a line, too, where there was trouble."""
        if self._why.pop(what, None) is not None:
            self._log.info("this is over: %s", what)

    def forget(self, what: str) -> None:
        """What was wrong has gone away rather than got well, or somebody else sees to it: that is no line."""
        self._why.pop(what, None)
