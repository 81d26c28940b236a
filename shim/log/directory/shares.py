"""A data directory that several processes have together: each some partitions, and what it notes of them.

::

    DIR/workers/<number>/flush.journal                      as in DIR, of this process's partitions alone
    DIR/workers/<number>/recovery-point-offset-checkpoint
    DIR/workers/<number>/cleaner-offset-checkpoint

Somebody has the whole directory, with its lock, for as long as any of them works: it deals the partitions out before
they begin (`OffsetsLog.deal_out`), and gathers what they have left when all have ended, or when their successors begin.
So a start finds these folders only after a crash. Whoever it is, and however many share then, has all journals in the
segments first: no journal is ever believed that somebody could have written past.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from protocol.topic_partition import TopicPartition
from shim.counted import counted
from shim.log.directory.handover import leave_clean
from shim.log.disk.checkpoint import (
    CLEANER_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    read_checkpoint,
    read_cleaned,
    write_checkpoint,
)
from shim.log.disk.files import Files
from shim.log.errors import LogError
from shim.log.journal.journal import Journal, Redone
from shim.workers_folder import SHARES_NAME, share_folder

_NOTES: Final = (RECOVERY_POINT_CHECKPOINT, CLEANER_OFFSET_CHECKPOINT)

_logger = logging.getLogger(__name__)


class Share(NamedTuple):
    """What number ``number`` of ``of`` processes has: of each topic the partitions p with p mod ``of`` = ``number``."""

    number: int
    of: int

    def holder(self, partition: int) -> int:
        """The number of who has it."""
        return partition % self.of

    def has(self, partition: int) -> bool:
        return self.holder(partition) == self.number

    def folder(self, data_dir: Path) -> Path:
        """Where its notes are."""
        return share_folder(data_dir, self.number)


def share_folders(files: Files, data_dir: Path) -> list[Path]:
    """The folders that processes which shared the directory have left, or have."""
    folder = data_dir / SHARES_NAME
    return [folder / name for name in files.names(folder) if name.isdecimal()] if files.exists(folder) else []


def gather(files: Files, data_dir: Path, *, clean: bool) -> None:
    """Have everything as if one process had had all of it, durably: what is in the journals in the segments, and what
    is noted in one place. For who has the directory, before anything else looks at it; nothing where nobody shared it.

    ``clean``: all that there is was closed in good order, so journals that are there are not of the last process.

    Raises LogError for a malformed note, or a journal of another version; OSError, also where something of a journal
    cannot be written: all is as it was then, and the next one does the same again.
    """
    folders = share_folders(files, data_dir)
    if not folders:
        remove_shares(files, data_dir)  # one that was being made, or removed
        return
    points, malformed = noted_by_all(files, data_dir)
    for error in malformed.values():
        raise error
    cleaned = read_cleaned(files, data_dir)
    for folder in folders:
        cleaned |= read_cleaned(files, folder)
    if not clean:
        points |= _redone(files, data_dir, folders, points)
    write_checkpoint(files, data_dir / RECOVERY_POINT_CHECKPOINT, points)
    write_checkpoint(files, data_dir / CLEANER_OFFSET_CHECKPOINT, cleaned)
    remove_shares(files, data_dir)


class Noted(NamedTuple):
    """``points``: up to where each partition was synced, by all notes that can be read. ``malformed``: the others, by
    their path."""

    points: dict[TopicPartition, int]
    malformed: dict[Path, LogError]


def noted_by_all(files: Files, data_dir: Path) -> Noted:
    """By who had the directory, and by those that shared it. Raises OSError."""
    noted = Noted({}, {})
    for folder in (data_dir, *share_folders(files, data_dir)):
        path = folder / RECOVERY_POINT_CHECKPOINT
        try:
            points = read_checkpoint(files, path)
        except LogError as error:
            noted.malformed[path] = error
        else:
            noted.points.update({at: max(offset, noted.points.get(at, 0)) for at, offset in points.items()})
    return noted


def redo_journals(
    files: Files, data_dir: Path, folders: Iterable[Path], points: Mapping[TopicPartition, int]
) -> Redone:
    """What is in the journals in these folders in the segments, durably, one journal after the other. ``points``: up to
    where that is known; what is found out is above them. Raises LogError for a journal of another version; OSError."""
    redone = Redone({}, {})
    for folder in folders:
        journal = Journal(files, data_dir, folder)
        try:
            ends, failed = journal.redo_all({**points, **redone.ends})
        finally:
            journal.close()
        redone.ends.update(ends)
        redone.failed.update(failed)
    return redone


def _redone(
    files: Files, data_dir: Path, folders: Iterable[Path], points: Mapping[TopicPartition, int]
) -> Mapping[TopicPartition, int]:
    """Up to where each partition is durable now. Raises LogError, OSError."""
    ends, failed = redo_journals(files, data_dir, folders, points)
    for error in failed.values():
        raise error
    if ends:
        _logger.info(
            "%s: taken over from the journals in %s into %s",
            data_dir,
            data_dir / SHARES_NAME,
            counted(len(ends), "partition"),
        )
    return ends


def deal_out(files: Files, data_dir: Path, count: int, points: Mapping[TopicPartition, int]) -> None:
    """Makes the folders of so many processes, with what each has to know: all that is in the segments is durable up to
    ``points``. Durable when this returns. Raises OSError."""
    cleaned = read_cleaned(files, data_dir)
    files.mkdir(data_dir / SHARES_NAME)
    for share in (Share(number, count) for number in range(count)):
        folder = share.folder(data_dir)
        files.mkdir(folder)
        for name, offsets in zip(_NOTES, (points, cleaned), strict=True):
            write_checkpoint(
                files, folder / name, {at: each for at, each in offsets.items() if share.has(at.partition)}
            )
    files.sync_directory(data_dir / SHARES_NAME)
    files.sync_directory(data_dir)


def remove_shares(files: Files, data_dir: Path) -> None:
    """Durably, with everything in them: what it told is told elsewhere. Raises OSError."""
    folder = data_dir / SHARES_NAME
    if not files.exists(folder):
        return
    for each in share_folders(files, data_dir):
        for name in files.names(each):
            files.unlink(each / name)
        files.rmdir(each)
    for name in files.names(folder):
        files.unlink(folder / name)
    files.rmdir(folder)
    files.sync_directory(data_dir)


def end_in_good_order(files: Files, data_dir: Path) -> None:
    """All that shared the directory have closed their shares in good order: so was all of it. Durable when this
    returns. Raises LogError, OSError: the next process then starts as after a crash."""
    gather(files, data_dir, clean=True)
    leave_clean(files, data_dir)
