"""What the log cannot be read for. The message is one line; it comes back from Spark's executors as text alone."""

from __future__ import annotations

import re
from typing import Final


class UnreadableLog(Exception):
    """There is nothing to read, not any more, or not that."""


class DamagedSegment(UnreadableLog):
    """A segment that is damaged from a byte on."""

    def __init__(self, path: str, position: int, reason: str) -> None:
        super().__init__(f"{path} is damaged at byte {position}: {reason}")
        self.reason = reason


_MEANWHILE: Final = "it was compacted or dropped meanwhile: read again, or read a backup (offset-shim log backup)"


def gone(path: str) -> UnreadableLog:
    return UnreadableLog(f"{path} is gone: {_MEANWHILE}")


def replaced(path: str) -> UnreadableLog:
    return UnreadableLog(f"{path} is another file by now: {_MEANWHILE}")


_TOLD: Final = re.compile(rf"{re.escape(__name__)}\.(?:UnreadableLog|DamagedSegment): (.+)")


def told_by(error: BaseException) -> str | None:
    """The message of an error of ours in what Spark says of it; None where it is of something else."""
    found = _TOLD.search(str(error))
    return found[1] if found else None
