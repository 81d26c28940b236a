"""What the last process has left in the journal, for commands that work on the segments."""

from __future__ import annotations

import logging
from contextlib import suppress
from pathlib import Path

from shim.counted import counted
from shim.log import LogError
from shim.log.checkpoint import TopicPartition
from shim.log.data_dir import DataDirLock
from shim.log.files import Files
from shim.log.handover import closed_clean, recovery_points
from shim.log.journal import JOURNAL_NAME, Journal
from shim.log.journal_records import WaitingEntry, read_entries, read_waiting
from shim.log.shares import gather, remove_shares, share_folders

_logger = logging.getLogger(__name__)


def redo_journal(files: Files, data_dir: Path) -> None:
    """Puts it into the segments, as a start does, but for partitions whose folder is missing. It stays: that folder may
    come back, and a start does the same again. Where several processes had the directory, all of theirs, and what they
    have noted is where one process notes it, unless a folder is missing, or a note malformed. For who has the
    directory. Raises LogError for a journal of another version, OSError."""
    missing = [_redo_one(files, data_dir, folder) for folder in _journals_that_count(files, data_dir)]
    if not any(missing):
        with suppress(LogError):
            gather(files, data_dir, clean=closed_clean(files, data_dir))


def _redo_one(files: Files, data_dir: Path, folder: Path) -> bool:
    """Whether the folder of a partition is missing."""
    points = {}
    with suppress(LogError):  # malformed, which is told; all of it is written again then
        points = recovery_points(files, folder)
    journal = Journal(files, data_dir, folder)
    try:
        ends, failed = journal.redo_all(points)
    finally:
        journal.close()
    for partition, error in failed.items():
        if not isinstance(error, FileNotFoundError):
            raise OSError(error.errno, error.strerror, str(data_dir / str(partition))) from error
    _logger.info("%s: taken over from the journal into %s", folder, counted(len(ends), "partition"))
    return bool(failed)


def redo_if_at_rest(files: Files, data_dir: Path) -> None:
    """Likewise, if no other process has the directory: one that has it does it itself. Raises LogError for a journal of
    another version, OSError."""
    if not _journals_that_count(files, data_dir):
        return
    try:
        lock = DataDirLock(files, data_dir)
    except LogError:
        return
    try:
        redo_journal(files, data_dir)
    finally:
        lock.release()


def remove_journal(files: Files, data_dir: Path) -> None:
    """Durably, before segments are changed: a start would put it over that. Also where nothing is found in it, as that
    need not be what the disk has; and where there is none, as the sync of that may have failed in a command before.
    Raises OSError."""
    journal = data_dir / JOURNAL_NAME
    if not files.exists(journal):
        files.close(files.create(journal))  # so that the sync has something to write
    files.unlink(journal)
    files.sync_directory(data_dir)
    remove_shares(files, data_dir)


def ends_in_journal(files: Files, data_dir: Path) -> dict[TopicPartition, int]:
    """Of each partition the offset up to which its log has to go, by the journal; also while a shim writes to that.
    Raises LogError for a journal of another version, OSError."""
    ends: dict[TopicPartition, int] = {}
    for folder in _journals_that_count(files, data_dir):
        path = folder / JOURNAL_NAME
        with suppress(FileNotFoundError):  # the shim may have stopped
            ends |= {entry.partition: entry.next_offset for entry in read_entries(path, files.read_file(path))}
    return ends


def waiting_in_journal(files: Files, data_dir: Path) -> list[WaitingEntry]:
    """What has not come to its segment yet, or has by now; also while a shim writes to the journal. Raises LogError for
    one of another version, OSError."""
    waiting: list[WaitingEntry] = []
    for folder in _journals_that_count(files, data_dir):
        path = folder / JOURNAL_NAME
        with suppress(FileNotFoundError):  # the shim may have stopped
            waiting += read_waiting(path, files.read_file(path))
    return waiting


def _journals_that_count(files: Files, data_dir: Path) -> list[Path]:
    """The folders that they are in."""
    if closed_clean(files, data_dir):
        return []
    folders = (data_dir, *share_folders(files, data_dir))
    return [folder for folder in folders if files.exists(folder / JOURNAL_NAME)]
