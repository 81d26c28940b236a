"""What goes wrong again and again, in one line of the log."""

from __future__ import annotations

import logging


class LoggedOnce:
    """A line for each kind of trouble, until it goes well again or something else is wrong."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._why: dict[str, tuple[str, int]] = {}

    def failed(self, what: str, error: Exception, level: int = logging.WARNING, *, kind: str | None = None) -> None:
        """At another ``level`` it is something else that is wrong. ``kind``: of errors that say it in turns in words of
        their own, as each of several brokers does; by default other words are something else, too."""
        why = kind or str(error), level
        if self._why.get(what) != why:
            self._why[what] = why
            self._log.log(level, "%s for now: %s", what, error)

    def went_well(self, what: str) -> None:
        """That it is over is a line, too, where there was trouble."""
        if self._why.pop(what, None) is not None:
            self._log.info("this is over: %s", what)
