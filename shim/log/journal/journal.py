"""The journal: what a flight writes to many partitions becomes durable by one flush, of one file.

A flight's batches are written to their segments, into the page cache, and then once more, as one record, to
``DIR/flush.journal``; its ``fdatasync`` is what the flight waits for. (Records that wait, the history's, are in that
one alone at first: waiting.py.) The segments are synced later, all together (a checkpoint), and the journal begins
anew, from the start of the file: so its blocks are there already, and its flush changes nothing but their content. What
a power failure takes from the segments a start puts back from the journal.

Why writing old entries again does no harm: what they have was acknowledged, or nobody knows that it was not, so it is
what the log has at that place for good, as long as the segment is the active one. (Where a batch of records that waited
has more than the journal, which did not take the rest, it stays as it is.) One that was closed since is left alone: the
cleaner may have put another in its place, and a segment is only closed when it is synced. So is what lies
below the recovery point. Nothing else changes such bytes but commands that work on a directory at rest, and the journal
is removed before: by them, or by an end in good order. So a new filling begins without a flush of its own, and what is
left of the last one, all of it synced, may be found again after a crash. Only where a write has failed, and its
partition is to be read back without it, has the journal to forget it first, durably (``Journal.heal``).
"""

from __future__ import annotations

import logging
import os
import threading
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Final, NamedTuple

from protocol.records.batches import HEADER_SIZE, CorruptBatch, TruncatedBatch, check_crc, read_header
from protocol.topic_partition import TopicPartition
from shim.log.disk.files import Files
from shim.log.disk.layout import segment_base_offsets, segment_name
from shim.log.journal.journal_records import (
    FIRST,
    RECORD_HEADER_SIZE,
    EncodedEntry,
    JournalEntry,
    WaitingEntry,
    entries_of,
    finish,
    header_of,
    id_of,
    parts_of,
    read,
    records_of,
)
from shim.log.journal.waiting import MOST_BYTES, MOST_KEPT, batches_of
from shim.log.segments.segment import find_sound_batch

JOURNAL_NAME: Final = "flush.journal"
_UNFINISHED: Final = ".unfinished"

FULL_BYTES: Final = 16 << 20
"""From this size on a checkpoint is due."""

_LARGEST_BYTES: Final = 64 << 20
"""A journal that cannot begin anew, as a segment cannot be synced, takes no more than this."""

_CHUNK_BYTES: Final = 256 << 10
"""By so much the file grows, in zeros: a flush of blocks that are there takes half the time."""

_MOST_WAITING_BYTES: Final = MOST_BYTES + MOST_KEPT

_logger = logging.getLogger(__name__)


class Redone(NamedTuple):
    """``ends``: up to which offset each partition is durable now. ``failed``: of which it could not be done, and why.
    Partitions that there is nothing of are in neither."""

    ends: dict[TopicPartition, int]
    failed: dict[TopicPartition, OSError]


class Journal:
    """Of a data directory that this process has. One thread appends, another may :meth:`heal`, and
    :meth:`redo_partition`."""

    def __init__(self, files: Files, data_dir: Path, folder: Path | None = None) -> None:
        """What is in the file stands until :meth:`begin_anew`. ``folder``: where the file is, if not in the directory
        itself. Raises OSError."""
        self._files = files
        self._data_dir = data_dir
        self._path = (folder or data_dir) / JOURNAL_NAME
        self._lock = threading.RLock()
        self._fd = files.open(self._path) if files.exists(self._path) else -1
        self._id = bytes(16)
        self._end = FIRST
        self._size = 0
        # Whether there may be something in the file that is not to be believed.
        self._doubtful = True
        self._unusable_told = False
        # With what the file began, where a crash may bring the one back that had its name before.
        self._unnamed: Sequence[EncodedEntry] | None = None

    @property
    def is_full(self) -> bool:
        return self._end >= FULL_BYTES

    @property
    def is_empty(self) -> bool:
        return self._end == FIRST

    def append(self, entries: Sequence[EncodedEntry]) -> bool:
        """Makes the entries durable. False when that failed, with a line in the log: then they have to be made durable
        where they stand, and after a crash they may be found here all the same."""
        with self._lock:
            parts = parts_of(entries)
            size = sum(map(len, parts))
            if self._end + size > _LARGEST_BYTES:
                return False
            try:
                if self._unnamed is not None:
                    self._begin_in_another_file(self._unnamed)
                self._append(parts, size)
            except OSError as error:
                if not self._unusable_told:
                    _logger.error("%s cannot be used, each partition is flushed for itself: %s", self._path, error)
                self._unusable_told = True
                return False
            self._unusable_told = False
            return True

    def _append(self, parts: list[bytes], size: int) -> None:
        """A record with these entries, of so many bytes, behind an empty first part. Raises OSError."""
        if self._doubtful:
            self._write_header()
        finish(parts, size, self._end, self._id)
        end = self._end + RECORD_HEADER_SIZE + size
        self._doubtful = True
        self._write(parts, end)
        self._files.fdatasync(self._fd)
        self._end = end
        self._doubtful = False

    def _write(self, parts: Iterable[bytes], end: int) -> None:
        """A record that ends there. It may be large, so there is one copy of it, no more."""
        size = max(self._size, -(-end // _CHUNK_BYTES) * _CHUNK_BYTES)
        zeros = bytes(size - max(self._size, end))
        self._files.write_at(self._fd, b"".join((*parts, zeros)), self._end)
        self._size = size

    def begin_anew(self, still: Sequence[EncodedEntry] = ()) -> None:
        """Everything that is in it is synced where it stands, and need not be found again, but what ``still`` waits.
        The file is made where there is none; its name is durable when the caller has synced the folder. Raises OSError:
        then it goes on."""
        with self._lock:
            if still or self._unnamed is not None:
                self._begin_in_another_file(still)
                return
            doubtful, self._doubtful = self._doubtful, True
            if self._fd < 0:
                self._fd = self._files.create(self._path)
                doubtful = False
            self._id = os.urandom(16)
            self._end = FIRST
            self._size = self._files.size(self._fd)
            with suppress(OSError):  # a full disk: then it comes with the first record
                self._write_header()
                # What has failed is forgotten, but not durably.
                self._doubtful = doubtful

    def _begin_in_another_file(self, still: Sequence[EncodedEntry]) -> None:
        """In this one they could be lost: the new filling's header may be on the disk before its first record is, or
        half of that over what it was.

        Where the name cannot be synced nothing is relied on before it is given anew, to yet another file: the next sync
        of the folder may find nothing to write, and succeed, though the name is not on the disk."""
        path = self._unfinished
        self._remove_unfinished()
        before = (self._fd, self._id, self._end, self._size, self._doubtful)
        self._fd = self._files.create(path)
        self._id, self._end, self._size, self._doubtful = os.urandom(16), FIRST, 0, True
        try:
            parts = parts_of(still)
            self._append(parts, sum(map(len, parts)))
            self._files.rename(path, self._path)
        except BaseException:
            unused = self._fd
            self._fd, self._id, self._end, self._size, self._doubtful = before
            with suppress(OSError):  # a full disk has no room for it, either
                self._remove_unfinished()
            self._files.close(unused)
            raise
        self._unnamed = still
        self._files.close(before[0])
        self._files.sync_directory(self._path.parent)
        self._unnamed = None

    @property
    def _unfinished(self) -> Path:
        return self._path.with_name(self._path.name + _UNFINISHED)

    def _remove_unfinished(self) -> None:
        if self._files.exists(self._unfinished):
            self._files.unlink(self._unfinished)

    def discard(self) -> None:
        """Removes the file, everything that is in it being synced; :meth:`begin_anew` makes another. Raises OSError."""
        with self._lock:
            self._remove_unfinished()
            if self._fd >= 0:
                self._files.unlink(self._path)
                self._unnamed = None
                self.close()

    def heal(self) -> None:
        """Makes certain, durably, that of what has failed nothing is found again. To be called before a partition of
        which a write has failed is read back. Raises OSError."""
        with self._lock:
            if self._unnamed is not None:
                self._begin_in_another_file(self._unnamed)
            if self._doubtful:
                self._write_header()
                self._files.write_at(self._fd, bytes(RECORD_HEADER_SIZE), self._end)
                self._files.fdatasync(self._fd)
                self._doubtful = False

    def _write_header(self) -> None:
        self._files.write_at(self._fd, header_of(self._id), 0)

    def redo_partition(self, partition: TopicPartition, below: int | None = None) -> int | None:
        """Writes what is here of the partition to its active segment again, durably: ``below`` that offset, where it is
        known how far the log goes, as what waits beyond that is not in the segment yet. Gives the offset up to which
        that is, None where there was nothing. Raises OSError."""
        with self._lock:
            content = self._files.read_at(self._fd, self._end, 0)
            placed = _placed([entry for entry in read(self._path, content) if entry.partition == partition])
            if below is not None:
                placed = [each for each in placed if each.waited is None or each.waited < below]
            return _write_to_active(self._files, self._data_dir / str(partition), placed, below) if placed else None

    def redo_all(self, recovery_points: Mapping[TopicPartition, int]) -> Redone:
        """What a start does with what the last process left, before anything else looks at the segments. What comes is
        then appended behind that, unless it begins anew. Raises LogError for a journal of another version, OSError.
        """
        with self._lock:
            if self._fd < 0:
                return Redone({}, {})
            content = self._files.read_at(self._fd, self._files.size(self._fd), 0)
            identity = id_of(self._path, content)
            records = list(records_of(self._path, content, identity))
            if identity is not None and records:
                self._id, self._end, self._size = identity, records[-1][1], len(content)
            entries = list(entries_of(self._path, content, records))
            return write_entries(self._files, self._data_dir, entries, recovery_points)

    def close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            self._files.close(fd)


def write_entries(
    files: Files,
    data_dir: Path,
    entries: Sequence[JournalEntry | WaitingEntry],
    recovery_points: Mapping[TopicPartition, int],
) -> Redone:
    """Writes the entries to their segments, durably, where these are active and the entries not below the recovery
    point."""
    redone = Redone({}, {})
    for partition, of_partition in groupby(sorted(entries, key=_partition_of), _partition_of):
        point = recovery_points.get(partition, 0)
        if wanted := [entry for entry in _placed(list(of_partition)) if entry.next_offset > point]:
            try:
                end = _write_to_active(files, data_dir / str(partition), wanted)
            except OSError as error:
                redone.failed[partition] = error
            else:
                if end is not None:
                    redone.ends[partition] = end
    return redone


class _Placed(NamedTuple):
    """What belongs there. ``waited``: of a batch of records that waited its base offset."""

    base_offset: int
    position: int
    next_offset: int
    data: bytes
    waited: int | None


def _placed(entries: Sequence[JournalEntry | WaitingEntry]) -> list[_Placed]:
    """Of one partition. A batch of records that waited comes first, and anything that was written to its place later
    behind it."""
    waited = batches_of(entry for entry in entries if isinstance(entry, WaitingEntry))
    placed = [
        _Placed(each.base_offset, each.position, each.batch.next_offset, each.batch.data, each.batch.base_offset)
        for each in waited
    ]
    placed += [_Placed(*entry[1:], None) for entry in entries if isinstance(entry, JournalEntry)]
    return placed


def _write_to_active(
    files: Files, folder: Path, placed: Sequence[_Placed], acknowledged: int | None = None
) -> int | None:
    """Gives the offset behind all that. ``acknowledged``: the one behind all that counts, where that is known."""
    newest = max(segment_base_offsets(files, folder), default=-1)
    wanted = [each for each in placed if each.base_offset == newest]
    if not wanted:
        return None
    begins = sorted(each.position for each in wanted)
    fd = files.open(folder / segment_name(newest))
    try:
        for each in wanted:
            data = each.data if each.waited is None else _longest(files, fd, each, begins, acknowledged)
            if data:
                files.write_at(fd, data, each.position)
        files.fsync(fd)
    finally:
        files.close(fd)
    return max(each.next_offset for each in wanted)


def _longest(files: Files, fd: int, its: _Placed, begins: Sequence[int], acknowledged: int | None) -> bytes:
    """The batch as it stands in the segment, if that has all of these records: it may have more, where the journal did
    not take them. Otherwise this one.

    So it is, too, where the disk cannot read what stands there, as the journal cannot begin anew, for anybody, before
    that is written. But where there is surely more of it that was synced without the journal: less in its place would
    be damage, so none is given, and it is left as it is.
    """
    try:
        stands = _standing(files, fd, its.position)
        header = read_header(stands)
        check_crc(stands, 0, header)
    except CorruptBatch:
        return its.data
    except OSError as error:
        is_all = _is_all(files, fd, its, begins, acknowledged)
        counts = "what the journal has counts" if is_all else "it is left, as there is more of it than in the journal"
        _logger.warning("what stands where a batch belongs cannot be read, %s: %s", counts, error)
        return its.data if is_all else b""
    has_all = header.base_offset == its.waited and header.next_offset >= its.next_offset
    return stands[: header.size] if has_all else its.data


def _is_all(files: Files, fd: int, its: _Placed, begins: Sequence[int], acknowledged: int | None) -> bool:
    """Whether the journal has all of the batch, as far as that can be told by what comes behind it. ``begins``: where
    that stands of which the journal knows, rising."""
    end = its.position + len(its.data)
    following = bisect_left(begins, end)
    if following < len(begins):
        return begins[following] == end
    if acknowledged is not None:
        return its.next_offset >= acknowledged
    try:
        behind = find_sound_batch(files, fd, end, files.size(fd), its.next_offset)
    except OSError:  # nobody can tell
        return True
    return behind in (None, end)


def _standing(files: Files, fd: int, position: int) -> bytes:
    """The batch there, and no more: what is behind it the disk need not be able to read. Raises OSError."""
    head = files.read_at(fd, HEADER_SIZE, position)
    try:
        read_header(head)
    except TruncatedBatch as truncated:
        return head + files.read_at(fd, min(truncated.size, _MOST_WAITING_BYTES) - len(head), position + len(head))
    return head


_partition_of = attrgetter("partition")
