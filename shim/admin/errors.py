"""What the work raises besides what the log, the disk and the network do. The message is one line for an operator."""

from __future__ import annotations


class NotDone(Exception):
    """Nothing was changed, as what was asked for would do harm."""


class NotOffered(NotDone):
    """The shim that was asked knows nothing of that: it is older than the command."""


class BrokenOff(Exception):
    """It had begun, and could not be brought to its end."""
