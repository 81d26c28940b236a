"""What a process has of a data directory before it has read anything: the partitions, and what the last one left."""

from __future__ import annotations

import logging
from collections.abc import Container, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from protocol.topic_partition import TopicPartition
from shim.log.directory.data_dir import DataDir
from shim.log.directory.handover import LOOSE_FLUSH, Handover, closed_clean, recovery_points, take_over
from shim.log.directory.shares import Share, gather
from shim.log.disk.files import Files
from shim.log.disk.layout import open_partitions
from shim.log.journal.journal import Journal, Redone
from shim.log.partition.partition import PartitionLog
from shim.log.recovery.recovery import LeftBehind
from shim.log.settings import LogSettings

_logger = logging.getLogger(__name__)


class Opened(NamedTuple):
    """The directory is held by ``data_dir``, or by the process that has dealt it out."""

    data_dir: DataDir
    partitions: Mapping[TopicPartition, PartitionLog]
    handover: Handover
    journal: Journal
    settings: LogSettings
    files: Files


def open_whole(
    data_dir: Path,
    num_partitions: int,
    *,
    topics: Sequence[str],
    settings: LogSettings,
    files: Files,
    held: DataDir | None,
) -> Opened:
    """As :meth:`OffsetsLog.open`, also for what it raises; nothing is held then."""
    with ExitStack() as undone:
        held = held or DataDir.open(data_dir, files=files)
        undone.callback(held.close)
        data_dir = held.path
        # Before anything else looks at the segments.
        clean = closed_clean(files, data_dir)
        gather(files, data_dir, clean=clean)
        points = recovery_points(files, data_dir)
        journal = Journal(files, data_dir)
        undone.callback(journal.close)
        redone = Redone({}, {}) if clean else journal.redo_all(points)
        folders = {
            TopicPartition(topic, partition): folder
            for topic in topics
            for partition, folder in enumerate(open_partitions(files, data_dir, topic, num_partitions))
        }
        _begin(journal, redone, folders, settings)
        left = take_over(files, data_dir, flushes_first=settings.flushes_first)
        partitions = _partitions(files, folders, settings, left, points, journal, redone)
        handover = Handover(files, data_dir, settings, left, points, partitions.values())
        undone.pop_all()
        return Opened(held, partitions, handover, journal, settings, files)


def open_share(
    data_dir: Path,
    num_partitions: int,
    share: Share,
    *,
    clean: bool,
    topics: Sequence[str],
    settings: LogSettings,
    files: Files,
) -> Opened:
    """As :meth:`OffsetsLog.open_share`, also for what it raises."""
    data_dir = data_dir.absolute()
    notes = share.folder(data_dir)
    with ExitStack() as undone:
        points = recovery_points(files, notes)
        journal = Journal(files, data_dir, notes)
        undone.callback(journal.close)
        redone = journal.redo_all(points)  # of one that is gone
        folders = {
            at: data_dir / str(at)
            for topic in topics
            for number in filter(share.has, range(num_partitions))
            for at in (TopicPartition(topic, number),)
        }
        _begin(journal, redone, folders, settings)
        files.sync_directory(notes)
        left = LeftBehind(clean, files.exists(data_dir / LOOSE_FLUSH))
        partitions = _partitions(files, folders, settings, left, points, journal, redone)
        handover = Handover(files, data_dir, settings, left, points, partitions.values(), notes)
        undone.pop_all()
        return Opened(DataDir(files, data_dir, None, None), partitions, handover, journal, settings, files)


def _begin(journal: Journal, redone: Redone, folders: Container[TopicPartition], settings: LogSettings) -> None:
    """A new filling, unless something of the old one is still to be put right. Raises OSError."""
    for at, error in redone.failed.items():
        if at not in folders or not settings.flushes_first:  # nobody would try it again
            raise error
        _logger.error("%s cannot be put right from the journal, which goes on with that: %s", at, error)
    if not redone.failed:
        journal.discard()
        journal.begin_anew()


def _partitions(
    files: Files,
    folders: Mapping[TopicPartition, Path],
    settings: LogSettings,
    left: LeftBehind,
    points: dict[TopicPartition, int],
    journal: Journal,
    redone: Redone,
) -> dict[TopicPartition, PartitionLog]:
    of_writes = journal if settings.flushes_first else None
    ends = points | redone.ends
    return {
        at: PartitionLog(files, folder, at, settings, left, ends.get(at, 0), of_writes, needs_redo=at in redone.failed)
        for at, folder in folders.items()
    }
