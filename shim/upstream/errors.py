"""What goes wrong on the network, in words."""

from __future__ import annotations

import os


class UpstreamError(Exception):
    """A broker could not be reached, hung, or answered with something that is not the protocol."""


def reason_of(error: OSError) -> str:
    """A few words fit for one line: the system's own, where the event loop puts long ones of its own in their place."""
    if isinstance(error, TimeoutError):
        return "timed out"
    return os.strerror(error.errno) if error.errno else str(error) or type(error).__name__
