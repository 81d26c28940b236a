"""What goes wrong again and again, in one line of the log."""

from __future__ import annotations

import logging


class LoggedOnce:
    """A line for each kind of trouble, until it goes well again or something else is wrong."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._why: dict[str, str] = {}

    def failed(self, what: str, error: Exception) -> None:
        if self._why.get(what) != str(error):
            self._why[what] = str(error)
            self._log.warning("%s for now: %s", what, error)

    def went_well(self, what: str) -> None:
        self._why.pop(what, None)
