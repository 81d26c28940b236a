"""What the last process has left in the journal, for commands that work on the segments."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from protocol.topic_partition import TopicPartition
from shim.admin.files_to_read import FilesToRead
from shim.counted import counted
from shim.log.directory.handover import closed_clean
from shim.log.directory.shares import Noted, gather, noted_by_all, redo_journals, remove_shares, share_folders
from shim.log.disk.files import Files
from shim.log.journal.journal import JOURNAL_NAME, Redone
from shim.log.journal.journal_records import WaitingEntry, read_entries, read_waiting

_logger = logging.getLogger(__name__)


def redo_journal(files: Files, data_dir: Path) -> Noted:
    """Puts it into the segments, as a start does, but for partitions whose folder is missing. It stays: that folder may
    come back, and a start does the same again. Where several processes had the directory, all of theirs, and what they
    have noted is where one process notes it, unless a folder is missing, or a note malformed. For who has the
    directory. Gives the recovery points that a start has then, but for malformed notes. Raises LogError for a journal
    of another version, OSError."""
    noted = noted_by_all(files, data_dir)
    redone = _redo(files, data_dir, noted.points)
    if redone.ends:
        _logger.info("%s: taken over from the journal into %s", data_dir, counted(len(redone.ends), "partition"))
    if not (redone.failed or noted.malformed):
        gather(files, data_dir, clean=closed_clean(files, data_dir))
    return noted._replace(points=noted.points | redone.ends)


def see_journal(files: FilesToRead, data_dir: Path) -> Noted:
    """Has what a start would put into the segments be found in these files, but for partitions whose folder is missing.
    While nobody writes to the directory; whoever does so later puts it there, too. Gives the same as
    :func:`redo_journal`. Raises LogError for a journal of another version, OSError."""
    noted = noted_by_all(files, data_dir)
    return noted._replace(points=noted.points | _redo(files, data_dir, noted.points).ends)


def _redo(files: Files, data_dir: Path, points: Mapping[TopicPartition, int]) -> Redone:
    """``failed`` has those whose folder is missing, and no others. Raises LogError, OSError."""
    redone = redo_journals(files, data_dir, journals_that_count(files, data_dir), points)
    for error in redone.failed.values():
        if not isinstance(error, FileNotFoundError):
            raise error
    return redone


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
    for folder in journals_that_count(files, data_dir):
        path = folder / JOURNAL_NAME
        with suppress(FileNotFoundError):  # the shim may have stopped
            ends |= {entry.partition: entry.next_offset for entry in read_entries(path, files.read_file(path))}
    return ends


def waiting_in_journal(files: Files, data_dir: Path) -> list[WaitingEntry]:
    """What has not come to its segment yet, or has by now; also while a shim writes to the journal. Raises LogError for
    one of another version, OSError."""
    waiting: list[WaitingEntry] = []
    for folder in journals_that_count(files, data_dir):
        path = folder / JOURNAL_NAME
        with suppress(FileNotFoundError):  # the shim may have stopped
            waiting += read_waiting(path, files.read_file(path))
    return waiting


def journals_that_count(files: Files, data_dir: Path) -> list[Path]:
    """The folders that they are in, in the order in which a start goes through them."""
    if closed_clean(files, data_dir):
        return []
    folders = (*share_folders(files, data_dir), data_dir)
    return [folder for folder in folders if files.exists(folder / JOURNAL_NAME)]
