"""What the log on disk raises besides OSError."""

from __future__ import annotations

import errno
from pathlib import Path


class LogError(Exception):
    """The data directory, or a partition in it, cannot be used as asked. The message is one line for an operator."""


class CorruptLog(LogError):
    """Damage that no torn write explains: it may have hit acknowledged records, so nothing is cut and nothing served.

    ``path`` is the file, ``position`` the first byte of it that cannot be used.
    """

    def __init__(self, path: Path, position: int, reason: str) -> None:
        super().__init__(f"{path} is damaged at byte {position}: {reason}")
        self.path = path
        self.position = position
        self.reason = reason


def unusable(data_dir: Path, error: OSError) -> str:
    """Why a data directory cannot be used, in a line; with the file in it that this is about, where that is known."""
    which = "" if error.filename in (None, str(data_dir)) else f" ({error.filename})"
    return f"data directory {data_dir}: {error.strerror or error}{which}"


class RecoveryNeeded(OSError):
    """A write to a partition that has not been recovered, or not since its last failed write. Nothing was written."""

    def __init__(self, path: Path) -> None:
        super().__init__(errno.EIO, "the partition takes no writes before it is recovered", str(path))


class SyncFailed(OSError):
    """What was written since the last sync that succeeded may be lost, whatever can be read of it."""
