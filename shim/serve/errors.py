"""Why a shim does not start."""

from __future__ import annotations


class CannotStart(Exception):
    """Why ``serve`` cannot go on; the message is one line fit for a terminal."""


class DiskHangs(CannotStart):
    """A call of the log has not come back: Python waits for its threads at exit, and this one may never end."""
