"""A backup of a data directory, which a shim may be using meanwhile.

Closed segments are linked, or copied where a link cannot be; the active one is copied up to its last sound batch. A
segment that ends above the recovery point is copied, too: a write that fails may take the roll back that closed it, and
the file is written to again. All that was acknowledged before the backup began is found in the segments: a running shim
has written it there, and what is in the journal of one that is gone is read as if it stood there. Of what waits in the
journal of a running shim the copies get the batches that it will write. While a shim is about to put its journal there
at its start, or the disk keeps it from it, there is no backup. A compaction may swap segments between two looks: a
partition whose closed segments changed meanwhile is done again.

The history is copied before the offsets, as a commit is written to both in the other order: who reads the backup finds
no commit in its history that is not in its offsets.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

from protocol.partition import OFFSETS_TOPIC
from protocol.topic_partition import TopicPartition
from shim.admin.at_rest.data_dir import DataDir, read_data_dir, refuse_existing, see_journal_if_at_rest
from shim.admin.at_rest.examine import Examination, examine
from shim.admin.at_rest.journal import ends_in_journal, waiting_in_journal
from shim.admin.errors import BrokenOff, NotDone
from shim.admin.files_to_read import FilesToRead
from shim.admin.progress import Progress
from shim.log.directory.handover import leave_clean, recovery_points
from shim.log.directory.meta_properties import META_NAME
from shim.log.directory.places import PLACES_NAME
from shim.log.disk.checkpoint import RECOVERY_POINT_CHECKPOINT, replace_file, write_checkpoint
from shim.log.disk.files import Files
from shim.log.disk.layout import make_data_dir, segment_base_offsets, segment_name
from shim.log.disk.names import stands_in
from shim.log.errors import CorruptLog, LogError
from shim.log.journal.journal import write_entries
from shim.log.journal.journal_records import WaitingEntry
from shim.log.recovery.torn_tail import copy_range
from shim.log.segments.segment import BadBytes, find_sound_batch, sound_batches
from shim.log.segments.swap import finish_swap

_ATTEMPTS: Final = 20
_UNFINISHED: Final = ".unfinished"


@dataclass(slots=True)
class BackedUp:
    """One partition. Sizes in bytes."""

    partition: TopicPartition
    linked: int = 0
    copied: int = 0
    size: int = 0


class _Changed(Exception):
    """The closed segments are not what they were a moment ago."""


def back_up(
    files: Files, source: Path, target: Path, progress: Progress, reading: FilesToRead | None = None
) -> tuple[list[BackedUp], Examination]:
    """Makes ``target``, which must not exist; it has its name only when it is whole and was read back. ``reading``: how
    ``source`` is read, in which nothing changes.

    Raises NotDone where it does, or one is inside of the other; CorruptLog for a log that is damaged; BrokenOff
    when a partition changes faster than it can be copied; LogError, OSError. A kill leaves ``<target>.unfinished``
    behind.
    """
    _refuse_nested(source, target)
    target = target.absolute()
    unfinished = target.with_name(target.name + _UNFINISHED)
    refuse_existing(files, (target, unfinished))
    reading = reading or FilesToRead()
    try:
        return _back_up(files, reading, source, target, unfinished, progress)
    finally:
        reading.forget()


def _back_up(
    files: Files, reading: FilesToRead, source: Path, target: Path, unfinished: Path, progress: Progress
) -> tuple[list[BackedUp], Examination]:
    data_dir = read_data_dir(reading, source)
    see_journal_if_at_rest(reading, data_dir.path)
    acknowledged = ends_in_journal(reading, data_dir.path)
    waiting = waiting_in_journal(reading, data_dir.path)
    if missing := data_dir.missing():
        raise CorruptLog(missing[0], 0, "the partition's folder is missing")
    make_data_dir(files, unfinished)
    try:
        done, examination = _fill(files, reading, data_dir, unfinished, waiting, progress)
        for examined in examination.partitions:
            if examined.end_offset < acknowledged.get(examined.partition, 0):
                raise BrokenOff(f"{examined.partition}: its last commits are in the journal only: try again later")
    except BaseException:
        shutil.rmtree(unfinished)
        raise
    files.rename(unfinished, target)
    files.sync_directory(target.parent)
    return done, examination


def _refuse_nested(source: Path, target: Path) -> None:
    """Raises NotDone."""
    # Not resolve(), which raises RuntimeError for a link to itself.
    real_target, real_source = Path(os.path.realpath(target)), Path(os.path.realpath(source))
    if real_target.is_relative_to(real_source) or real_source.is_relative_to(real_target):
        raise NotDone(f"{target} and the data directory {source} must be apart, neither inside of the other")


def _fill(
    files: Files,
    reading: FilesToRead,
    data_dir: DataDir,
    unfinished: Path,
    waiting: Sequence[WaitingEntry],
    progress: Progress,
) -> tuple[list[BackedUp], Examination]:
    done = []
    with progress("backing up", len(data_dir.partitions)) as ongoing:
        for partition, folder in sorted(data_dir.partitions.items(), key=lambda one: one[0].topic == OFFSETS_TOPIC):
            one = _partition(files, reading, data_dir.path, partition, unfinished / folder.name)
            ongoing.advance(1)
            done.append(one)
    for name in (META_NAME, PLACES_NAME):
        if reading.exists(data_dir.path / name):
            replace_file(files, unfinished / name, reading.read_file(data_dir.path / name))
    for error in write_entries(files, unfinished, waiting, {}).failed.values():
        raise error
    done.sort(key=lambda one: one.partition)
    return done, _finish(files, unfinished, progress)


def _finish(files: Files, unfinished: Path, progress: Progress) -> Examination:
    """Reads it back, and notes that all of it is durable and in good order. Raises CorruptLog when it is not."""
    copy = read_data_dir(files, unfinished)
    for folder in copy.partitions.values():
        finish_swap(files, folder)
    examination = examine(files, copy, "verifying", progress)
    for damage in examination.all_damages:
        raise CorruptLog(damage.path, damage.position, damage.reason)
    for examined in examination.partitions:
        if examined.misplaced:
            raise LogError(f"{examined.partition} holds groups of another partition: see log verify")
    ends = {examined.partition: examined.end_offset for examined in examination.partitions}
    write_checkpoint(files, unfinished / RECOVERY_POINT_CHECKPOINT, ends)
    leave_clean(files, unfinished)
    return examination


def _partition(files: Files, reading: FilesToRead, data_dir: Path, partition: TopicPartition, target: Path) -> BackedUp:
    source = data_dir / str(partition)
    for _ in range(_ATTEMPTS):
        files.mkdir(target)
        try:
            done = BackedUp(partition)
            recovery_point = recovery_points(reading, data_dir).get(partition, 0)
            _copy_partition(files, reading, done, source, target, recovery_point)
        except (_Changed, FileNotFoundError):
            shutil.rmtree(target)
        else:
            return done
    raise BrokenOff(f"{source} changed {_ATTEMPTS} times while it was copied: try again when it is compacted less")


def _copy_partition(
    files: Files, reading: FilesToRead, done: BackedUp, source: Path, target: Path, recovery_point: int
) -> None:
    """Raises _Changed and FileNotFoundError when it is to be done again, CorruptLog."""
    paths = _segments_in(reading, source)
    if not paths:
        raise CorruptLog(source / segment_name(0), 0, "the first segment is missing")
    *closed, active = paths
    # A compaction that broke off is completed in the copy, as at every start.
    closed += _swaps(reading, source)
    before = _signature(reading, source, closed)
    ends = {path: int(following.stem) for path, following in pairwise(paths)}
    for path in closed:
        size = reading.size_of(path)
        if ends.get(path, 0) <= recovery_point and _linked(path, target / path.name):
            done.linked += 1
        else:
            _copy(files, reading, path, target / path.name, size)
            done.copied += 1
        done.size += size
    end = _sound_end(reading, active)
    _copy(files, reading, active, target / active.name, end)
    done.copied += 1
    done.size += end
    files.sync_directory(target)
    if _signature(reading, source, closed) != before:
        raise _Changed


def _linked(source: Path, target: Path) -> bool:
    """False on another disk, or on one that has no links, or no more of this file. Raises FileNotFoundError."""
    try:
        target.hardlink_to(source)
    except FileNotFoundError:
        raise
    except OSError:
        return False
    return True


def _segments_in(files: Files, folder: Path) -> list[Path]:
    paths = [folder / segment_name(base_offset) for base_offset in segment_base_offsets(files, folder)]
    while paths and stands_in(files, paths[-1]):  # the next start takes it away
        paths.pop()
    return paths


def _swaps(files: Files, source: Path) -> list[Path]:
    return [source / name for name in files.names(source) if name.endswith(".swap")]


def _signature(files: Files, source: Path, closed: list[Path]) -> tuple[object, ...]:
    """Which files these are, and that there are no others up to the segment after them."""
    stats = [path.stat() for path in closed]
    swaps = _swaps(files, source)
    following = len(closed) - len(swaps) + 1
    return [(stat.st_ino, stat.st_size) for stat in stats], swaps, _segments_in(files, source)[:following]


def _sound_end(files: Files, path: Path) -> int:
    """Where the last sound batch of the active segment ends. Raises CorruptLog when sound ones follow behind others."""
    fd = files.open(path)
    end, offset = 0, int(path.stem)
    try:
        size = files.size(fd)
        try:
            for batch in sound_batches(files, fd, size, offset):
                end, offset = batch.end, batch.header.next_offset
        except BadBytes as bad:
            if bad.intact:
                raise _Changed from None
            if find_sound_batch(files, fd, bad.position + 1, size, offset) is not None:
                raise CorruptLog(path, bad.position, bad.reason) from None
    finally:
        files.close(fd)
    return end


def _copy(files: Files, reading: FilesToRead, source: Path, target: Path, size: int) -> None:
    """The first ``size`` bytes, durably."""
    fd = reading.open(source)
    try:
        copy = files.create(target)
        try:
            if copy_range(reading, fd, 0, size, files, copy) < size:
                raise _Changed
            files.fsync(copy)
        finally:
            files.close(copy)
    finally:
        reading.close(fd)
