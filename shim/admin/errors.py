"""What the work raises besides what the log, the disk and the network do. The message is one line for an operator."""

from __future__ import annotations


class NotDone(Exception):
    """Nothing was changed, as what was asked for would do harm."""


class Declined(NotDone):
    """The shim has answered that it will not, or cannot: with that HTTP status."""

    def __init__(self, reason: str, status: int) -> None:
        super().__init__(reason)
        self.status = status


class NotOffered(NotDone):
    """The shim that was asked knows nothing of that: it is older than the command."""


class BrokenOff(Exception):
    """It had begun, or may have, and nobody knows that it was brought to its end."""


class StoppedLooking(KeyboardInterrupt):
    """Ctrl-C while a shim was asked something, and nothing had been asked of it before that changes anything."""
