"""What the last process has left in the journal, for commands that work on the segments."""

from __future__ import annotations

import logging
from contextlib import suppress
from pathlib import Path

from shim.log import LogError
from shim.log.data_dir import DataDirLock
from shim.log.files import Files
from shim.log.handover import CLEAN_SHUTDOWN, recovery_points
from shim.log.journal import JOURNAL_NAME, Journal, has_entries

_logger = logging.getLogger(__name__)


def take_over_journal(files: Files, data_dir: Path) -> None:
    """Puts it into the segments, as a start does, and removes the journal, durably: otherwise a start would put it over
    what a command has changed. For who has the directory. Raises OSError."""
    if not has_entries(files, data_dir):
        return
    if not files.exists(data_dir / CLEAN_SHUTDOWN):
        points = {}
        with suppress(LogError):  # malformed, which is told; all of it is written again then
            points = recovery_points(files, data_dir)
        journal = Journal(files, data_dir)
        try:
            ends = journal.redo_all(points)
        finally:
            journal.close()
        _logger.info("%s: taken over from the journal into %d partitions", data_dir, len(ends))
    files.unlink(data_dir / JOURNAL_NAME)
    files.sync_directory(data_dir)


def take_over_if_at_rest(files: Files, data_dir: Path) -> None:
    """Likewise, if no other process has the directory: one that has it has written to the segments all that is in its
    journal. Raises OSError."""
    if not has_entries(files, data_dir):
        return
    try:
        lock = DataDirLock(files, data_dir)
    except LogError:
        return
    try:
        take_over_journal(files, data_dir)
    finally:
        lock.release()
