"""What is on the disk after a crash or a failed write, and what of it counts.

A segment is only rolled when it is synced (partition/partition.py), so a torn write can be in the last one only, and
there only at or above the recovery point. Damage anywhere else may have hit acknowledged records: it is CorruptLog, and
nothing is cut.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from protocol.own.record_sets import LoggedRecord
from protocol.records.batches import UnsupportedBatch
from shim.log.disk.files import Files
from shim.log.disk.layout import index_name, name_empty_segment, segment_base_offset, segment_base_offsets, segment_name
from shim.log.disk.names import stands_in, take_away
from shim.log.errors import CorruptLog, LogError, SyncFailed
from shim.log.recovery.torn_tail import Known, cut_torn_tail, why_not_torn
from shim.log.segments.active import ActiveSegment, LogEnd
from shim.log.segments.index import batches_from
from shim.log.segments.segment import BadBytes, Segment, SoundBatch, sound_batches
from shim.log.segments.transactions import transaction_of, why_foreign

_DROPPED: Final = ".dropped"

_logger = logging.getLogger(__name__)


class LeftBehind(NamedTuple):
    """How the last process left the data directory.

    ``clean``: no write was under way when it ended, so no torn write explains any damage. ``loose``: several batches
    may have been on their way to the disk at once, which gets to them in any order.
    """

    clean: bool
    loose: bool


class Expected(NamedTuple):
    """What is known of a partition before it is read: as ``left`` by the last process, and by this one.

    ``end``: where the log has to end, and what follows is cut off; None at the first recovery, when the disk has to
    tell. ``made``: base offsets of the segments that this process has made behind that, rising; recovery takes from
    them those that are gone for good.
    """

    end: LogEnd | None
    made: list[int]
    left: Known


class Start(NamedTuple):
    """Which records are wanted: those from ``offset`` on.

    ``anchor``: where the batch is said to begin, in the segment that it is in, that ends at ``offset``. Nothing before
    it is read then, where all of that was synced once and the batch is there.
    """

    offset: int = 0
    anchor: int | None = None


class Recovered(NamedTuple):
    """The closed segments, rising, and the active one, open."""

    closed: list[Segment]
    active: ActiveSegment


def recover_segments(
    files: Files, folder: Path, expected: Expected, start: Start, check_current: Callable[[], None]
) -> Generator[LoggedRecord, None, Recovered]:
    """The records on disk that are wanted, in order. Of closed segments wholly before them only the end is read.

    ``check_current`` is called before anything is changed, and raises when this recovery was given up.

    Raises CorruptLog for damage that is not a torn tail, LogError for batches of a kind that this log does not hold,
    OSError.
    """
    bases = _segments_that_count(files, folder, expected)
    newest = folder / segment_name(bases[-1])
    if expected.end is None and not expected.left.clean and not files.size_of(newest):
        name_empty_segment(files, newest)
    closed = []
    for base_offset, next_offset in pairwise(bases):
        segment = yield from _closed(files, folder, base_offset, next_offset, start.offset)
        closed.append(segment)
    check_current()
    fd = files.open(folder / segment_name(bases[-1]))
    active = ActiveSegment(files, folder, bases[-1], fd)
    try:
        size = _size_to_read(files, fd, active.path, expected)
        try:
            if (
                start.anchor is not None
                and start.anchor >= 0
                and bases[-1] < start.offset <= expected.left.recovery_point
            ):
                _skip(files, fd, size, active, start.offset, start.anchor)
            _, position, offset = active.end
            for batch in sound_batches(files, fd, size, offset, position=position, unread_below=start.offset):
                yield from logged_records(active.path, batch, start.offset)
                active.holds(batch)
        except BadBytes as bad:
            check_current()
            if (reason := _why_not_torn(files, fd, size, active.end.offset, bad, expected)) is not None:
                raise CorruptLog(active.path, bad.position, reason) from None
            cut_torn_tail(files, fd, active.path, size, active.end, bad.reason)
        except UnsupportedBatch as unsupported:
            raise LogError(f"{active.path} at byte {active.end.position}: {unsupported.reason}") from None
        check_current()
        _check_end(active, expected)
    except BaseException:
        active.close()
        raise
    return Recovered(closed, active)


def _segments_that_count(files: Files, folder: Path, expected: Expected) -> Sequence[int]:
    """Base offsets of the segments, after those are gone that a failed write made and nothing was acknowledged in."""
    bases = segment_base_offsets(files, folder)
    if not bases or bases[0] != 0:
        raise CorruptLog(folder / segment_name(0), 0, "the first segment is missing")
    if expected.end is None:
        _drop(files, folder, _dropped_before(files, folder, bases))
        return segment_base_offsets(files, folder)
    if expected.end.base_offset not in bases:
        raise CorruptLog(folder / segment_name(expected.end.base_offset), 0, "the last segment is missing")
    if bases[-1] not in (expected.end.base_offset, *expected.made):
        raise CorruptLog(folder / segment_name(bases[-1]), 0, "the segment was not made by this process")
    _drop(files, folder, expected.made)
    return [base for base in bases if base <= expected.end.base_offset]


def _drop(files: Files, folder: Path, made: list[int]) -> None:
    """Removes the segments after the last one that counts: the newest first, and each durably before the next, and
    before the last one is cut. A newer one that comes back would leave a gap before it, or be taken for the active
    one."""
    while made:
        path = folder / segment_name(made[-1])
        dropped = folder / f"{path.name}{_DROPPED}"
        take_away(files, path, dropped)
        if files.exists(folder / index_name(made[-1])):
            files.unlink(folder / index_name(made[-1]))
        files.sync_directory(folder)
        files.unlink(dropped)
        made.pop()


def _dropped_before(files: Files, folder: Path, bases: Sequence[int]) -> list[int]:
    """Base offsets, rising, of segments that an earlier process has removed, and need not be gone for good."""
    found = []
    for name in files.names(folder):
        if not name.endswith(_DROPPED) or (base_offset := segment_base_offset(name.removesuffix(_DROPPED))) is None:
            continue
        if base_offset in bases and not stands_in(files, folder / segment_name(base_offset)):
            files.unlink(folder / name)  # it is gone for good: the name was given again since
        else:
            found.append(base_offset)
    for base_offset in reversed(bases):
        if base_offset not in found:
            if not stands_in(files, folder / segment_name(base_offset)):
                break
            found.append(base_offset)
    return sorted(found)


def _closed(
    files: Files, folder: Path, base_offset: int, next_offset: int, start_offset: int
) -> Generator[LoggedRecord, None, Segment]:
    path = folder / segment_name(base_offset)
    fd = files.open(path)
    try:
        segment = Segment(path, base_offset, next_offset, files.size(fd))
        if not segment.size:
            raise CorruptLog(path, 0, f"the segment is empty, and one that begins at offset {next_offset} follows")
        # Whether a segment below ends where the next one begins is found out all the same: it costs some kilobytes.
        first_wanted = min(start_offset, next_offset - 1)
        for batch in batches_from(files, fd, segment, first_wanted, unread_below=start_offset):
            yield from logged_records(path, batch, start_offset)
    finally:
        files.close(fd)
    return segment


def _skip(files: Files, fd: int, size: int, active: ActiveSegment, offset: int, anchor: int) -> None:
    """Leaves out everything up to the batch at ``anchor``, if it is what ends at ``offset``."""
    base_offset = active.end.base_offset
    try:
        first = next(sound_batches(files, fd, size, base_offset, unread_below=offset), None)
        last = next(sound_batches(files, fd, size, base_offset, position=anchor, gaps=True, unread_below=offset), None)
    except (BadBytes, UnsupportedBatch):
        return  # reading from the start on tells what is wrong
    if first is not None and last is not None and last.header.next_offset == offset:
        active.begins_with(first, last)


def _size_to_read(files: Files, fd: int, path: Path, expected: Expected) -> int:
    """Makes sure that the disk has what is about to be read. Gives how many bytes that are.

    A process that was killed may have left bytes in memory only, and a sync that failed may have left pages there that
    are taken for clean and are not on the disk. So: push out the former, forget the latter, and believe what the disk
    then says. It is an fsync, as cutting a file short need not be durable after an fdatasync.
    """
    if expected.end is not None:
        _cut_unacknowledged(files, fd, path, expected.end.position)
    if not expected.left.clean:
        try:
            files.fsync(fd)
        except OSError as error:
            raise SyncFailed(error.errno, error.strerror, error.filename) from error
        files.drop_cache(fd)
    return files.size(fd)


def _cut_unacknowledged(files: Files, fd: int, path: Path, end: int) -> None:
    """Cuts the segment back to where what counts of it ends, after a failed write or sync. Not durably.

    Why that is sound. Everything before that position was followed by a sync that succeeded, so it was on the disk
    before the failed call began; the failed call wrote behind it only. Where old and new bytes share a page, the old
    ones are the same in both versions of it, whichever the disk has. Everything behind that position was never
    acknowledged, may be whole, partial or missing on disk whatever the page cache shows, and was answered as failed.
    Syncing it again would prove nothing: after a failed sync Linux marks the pages clean, so the next sync has nothing
    to write and reports success. Cutting makes the end certain again, and the cut itself counts only after its own
    sync; the page that the new end falls into is written anew by it.

    Under a loose flush policy that position may be beyond the last sync. None has failed since then, so what is before
    it is in memory whole, and the next sync decides.
    """
    size = files.size(fd)
    if size < end:
        raise CorruptLog(path, size, f"the file ends here, {end} bytes were acknowledged")
    files.truncate(fd, end)
    if size > end:
        _logger.debug("%s: cut off %d bytes of a failed write at byte %d", path, size - end, end)


def logged_records(path: Path, batch: SoundBatch, start_offset: int = 0) -> Iterator[LoggedRecord]:
    """Those of a batch in that file, from that offset on. Raises LogError for one that this log does not write."""
    transaction = None
    if batch.header.is_transactional or batch.header.is_control:
        if (reason := why_foreign(batch)) is not None:
            raise LogError(f"{path} at byte {batch.position}: {reason}")
        transaction = transaction_of(batch)
    for key, value, _, timestamp, offset in batch.records:
        if key is None:
            raise CorruptLog(path, batch.position, f"the record at offset {offset} has no key")
        if offset >= start_offset:
            yield LoggedRecord(offset, timestamp, key, value, transaction)


def _why_not_torn(files: Files, fd: int, size: int, offset: int, bad: BadBytes, expected: Expected) -> str | None:
    if expected.end is not None:  # all that is read was acknowledged
        return bad.reason
    return why_not_torn(files, fd, size, offset, bad, expected.left)


def _check_end(active: ActiveSegment, expected: Expected) -> None:
    offset = active.end.offset
    if expected.end is not None and active.end != expected.end:
        reason = f"the log ends here at offset {offset}, acknowledged are {expected.end.offset}"
        raise CorruptLog(active.path, active.end.position, reason)
    if offset < expected.left.recovery_point:
        reason = f"the log ends here at offset {offset}, synced were {expected.left.recovery_point}"
        raise CorruptLog(active.path, active.end.position, reason)
