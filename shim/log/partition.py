"""The log of one partition: its active segment, what of it is durable, and its recovery."""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from protocol.batches import UnsupportedBatch, encode_batch, encoded_size
from shim.log.data_dir import segment_base_offsets, segment_name
from shim.log.errors import CorruptLog, LogError, RecoveryNeeded
from shim.log.files import Files
from shim.log.segment import BadBytes, SoundBatch, find_sound_batch, sound_batches

MAX_BATCH_BYTES: Final = 1 << 20
"""Record sets share a batch up to this size (about a broker's ``message.max.bytes``); a larger one is alone."""

MAX_RECORD_SET_BYTES: Final = 100 << 20
"""A larger record set is refused (its ``encoded_size``); the default of ``offsets.topic.segment.bytes``."""

_COPY_SIZE: Final = 1 << 20

_logger = logging.getLogger(__name__)

RecordSet = Sequence[tuple[bytes, bytes | None]]
"""(key, value) pairs that are recovered all together or not at all; value None is a tombstone."""


class LoggedRecord(NamedTuple):
    """One record of the log. ``timestamp``: milliseconds since the epoch; ``value`` None is a tombstone."""

    offset: int
    timestamp: int
    key: bytes
    value: bytes | None


class _End(NamedTuple):
    """Where the log ends: the next record's byte position in the segment, and its offset."""

    position: int
    offset: int


class PartitionLog:
    """One partition's folder. A write is :meth:`prepare`, :meth:`write`, :meth:`sync` and :meth:`acknowledge`.

    From :meth:`write` to :meth:`acknowledge` the partition counts as failed, so whatever interrupts a write, by
    whatever exception, leaves it refusing writes until it is recovered.
    """

    def __init__(self, files: Files, folder: Path) -> None:
        self._files = files
        self._folder = folder
        self._path = folder / segment_name(0)
        self._fd = -1
        self._recovered = False
        self._recovery = 0
        # The end of what was acknowledged; None until the first recovery has found out.
        self._durable: _End | None = None
        # The end of what was written; beyond the durable end only while a write is under way or has failed.
        self._written = _End(0, 0)

    @property
    def log_end_offset(self) -> int:
        """The offset after the last acknowledged record. Raises LogError before the first recovery."""
        if self._durable is None:
            raise LogError(f"the end of {self._folder} is not known before it is recovered")
        return self._durable.offset

    # --- writing -----------------------------------------------------------------------------------------------------

    def prepare(self, record_sets: Sequence[RecordSet], timestamp_ms: int) -> list[tuple[bytes, int]]:
        """Batches, each with the offset after it, that hold these record sets at the end of the log; touches no file.

        Raises RecoveryNeeded; OSError (EMSGSIZE) for a record set beyond MAX_RECORD_SET_BYTES; ValueError for an
        impossible timestamp.
        """
        if not self._recovered:
            raise RecoveryNeeded(self._folder)
        offset = self._written.offset
        records = record_sets[0] if len(record_sets) == 1 else [record for each in record_sets for record in each]
        if not records:
            return []
        if encoded_size(records) <= MAX_BATCH_BYTES:
            return [(encode_batch(offset, records, timestamp_ms), offset + len(records))]
        batches = []
        for share in self._shares(record_sets):
            batches.append((encode_batch(offset, share, timestamp_ms), offset + len(share)))
            offset += len(share)
        return batches

    def _shares(self, record_sets: Sequence[RecordSet]) -> Iterator[RecordSet]:
        share: list[tuple[bytes, bytes | None]] = []
        share_size = 0
        for record_set in record_sets:
            size = encoded_size(record_set)
            if size > MAX_RECORD_SET_BYTES:
                reason = f"{len(record_set)} records of one request: {size} bytes, {MAX_RECORD_SET_BYTES} are allowed"
                raise OSError(errno.EMSGSIZE, reason, str(self._folder))
            if share and share_size + size > MAX_BATCH_BYTES:
                yield share
                share, share_size = [], 0
            share += record_set
            share_size += size
        if share:
            yield share

    def write(self, batches: Sequence[tuple[bytes, int]]) -> None:
        """Writes prepared batches after the end of the log. Raises OSError.

        At most one batch at a time is not yet durable: of several, each is synced before the next is written. The
        disk may get to the bytes of one sync in any order, so with two batches in it the second could survive a power
        failure that tears the first. With one, a sound batch after a bad one proves that the bad one was durable
        once, which is what recovery relies on.
        """
        self._recovered = False
        position = self._written.position
        first = True
        for batch, next_offset in batches:
            if not first:
                self._files.fdatasync(self._fd)
            first = False
            self._files.write_at(self._fd, batch, position)
            position += len(batch)
            self._written = _End(position, next_offset)

    def sync(self) -> None:
        """Makes what was written durable. After an OSError all of it since the last acknowledged write is in doubt."""
        self._files.fdatasync(self._fd)

    def acknowledge(self) -> None:
        """What was written is durable, and the partition takes the next write."""
        self._durable = self._written
        self._recovered = True

    # --- recovery ----------------------------------------------------------------------------------------------------

    def recover(self) -> Iterator[LoggedRecord]:
        """The records on disk, in order. The partition takes writes once the iterator is exhausted, not before.

        After a failed write, what was not acknowledged is cut off first. On the first recovery, when the end of what
        was acknowledged is not known, a torn tail is cut off, a copy of it kept beside the segment.

        The iterator raises CorruptLog for damage that is not a torn tail, LogError for batches of a kind that this
        log does not hold, OSError. The records it gave by then are not to be used, and the partition refuses writes.
        """
        self._recovered = False
        self._recovery += 1
        return self._recover(self._recovery)

    def _recover(self, recovery: int) -> Iterator[LoggedRecord]:
        self._check_current(recovery)
        self._close_segment()
        self._check_segments()
        files = self._files
        fd = files.open(self._path)
        try:
            self._drop_unacknowledged(fd)
            # A process that was killed may have left bytes in memory only, and a sync that failed may have left pages
            # there that are taken for clean and are not on the disk. So: push out the former, forget the latter, and
            # believe what the disk then says.
            files.fdatasync(fd)
            files.drop_cache(fd)
            size = files.size(fd)
            end = _End(0, 0)
            try:
                for batch in sound_batches(files, fd, size, 0):
                    yield from self._records(batch)
                    end = _End(batch.end, batch.header.next_offset)
            except BadBytes as bad:
                self._check_current(recovery)
                self._cut_torn_tail(fd, size, end, bad)
            except UnsupportedBatch as unsupported:
                raise LogError(f"{self._path} at byte {end.position}: {unsupported.reason}") from None
            self._check_current(recovery)
            if self._durable is not None and end != self._durable:
                reason = f"the log ends here at offset {end.offset}, acknowledged are {self._durable.offset}"
                raise CorruptLog(self._path, end.position, reason)
        except BaseException:
            files.close(fd)
            raise
        self._fd = fd
        self._durable = self._written = end
        self._recovered = True

    def _check_current(self, recovery: int) -> None:
        if recovery != self._recovery:
            raise LogError(f"this recovery of {self._folder} was given up: another was begun, or the log was closed")

    def _check_segments(self) -> None:
        bases = segment_base_offsets(self._files, self._folder)
        if not bases or bases[0] != 0:
            raise CorruptLog(self._path, 0, "the first segment is missing")
        if len(bases) > 1:
            raise LogError(f"{self._folder} holds {len(bases)} segments, more than this version of the log can read")

    def _drop_unacknowledged(self, fd: int) -> None:
        """Cuts the segment back to the end of what was acknowledged, where that is known: after a failed write or sync.

        Why that is sound. Everything before that position was followed by a sync that succeeded, so it was on the
        disk before the failed call began; the failed call wrote behind it only. Where old and new bytes share a page,
        the old ones are the same in both versions of it, whichever the disk has. Everything behind that position was
        never acknowledged, may be whole, partial or missing on disk whatever the page cache shows, and was answered
        as failed. Syncing it again would prove nothing: after a failed sync Linux marks the pages clean, so the next
        sync has nothing to write and reports success. Cutting makes the end certain again, and the cut itself counts
        only after its own sync; the page that the new end falls into is written anew by it.
        """
        if self._durable is None:
            return
        size = self._files.size(fd)
        if size < self._durable.position:
            raise CorruptLog(self._path, size, f"the file ends here, {self._durable.position} bytes were acknowledged")
        self._files.truncate(fd, self._durable.position)
        self._files.fsync(fd)
        if size > self._durable.position:
            lost = size - self._durable.position
            _logger.warning(
                "%s: cut off %d bytes of a failed write at byte %d", self._path, lost, self._durable.position
            )

    def _records(self, batch: SoundBatch) -> Iterator[LoggedRecord]:
        header = batch.header
        if header.is_control or header.is_transactional:
            raise LogError(f"{self._path} at byte {batch.position}: a transactional or control batch")
        for key, value, _, timestamp, offset in batch.records:
            if key is None:
                raise CorruptLog(self._path, batch.position, f"the record at offset {offset} has no key")
            yield LoggedRecord(offset, timestamp, key, value)

    def _cut_torn_tail(self, fd: int, size: int, end: _End, bad: BadBytes) -> None:
        """Cuts the segment at ``end`` when a torn write explains all that follows, else raises CorruptLog."""
        if bad.intact or self._durable is not None:
            raise CorruptLog(self._path, bad.position, bad.reason)
        later = find_sound_batch(self._files, fd, end.position + 1, size, end.offset)
        if later is not None:
            reason = f"{bad.reason}; this is no torn write, as a sound batch follows at byte {later}"
            raise CorruptLog(self._path, bad.position, reason)
        copy = self._keep_copy(fd, end.position, size)
        self._files.truncate(fd, end.position)
        self._files.fsync(fd)
        _logger.warning(
            "%s: cut off a torn write of %d bytes at byte %d (offset %d): %s; kept as %s",
            self._path,
            size - end.position,
            end.position,
            end.offset,
            bad.reason,
            copy.name,
        )

    def _keep_copy(self, fd: int, start: int, size: int) -> Path:
        """A durable copy of the bytes from ``start`` on. Raises OSError (as when the disk is full), nothing cut."""
        files = self._files
        copy, copy_fd = self._new_copy(f"{self._path.name}.cut-{start}")
        try:
            try:
                position = start
                while position < size and (data := files.read_at(fd, min(_COPY_SIZE, size - position), position)):
                    files.write_at(copy_fd, data, position - start)
                    position += len(data)
                if position < size:
                    raise OSError(errno.EIO, f"unreadable from byte {position} on", str(self._path))
                files.fsync(copy_fd)
            finally:
                files.close(copy_fd)
            files.sync_directory(self._folder)
        except BaseException:
            files.unlink(copy)
            raise
        return copy

    def _new_copy(self, name: str) -> tuple[Path, int]:
        number = 0
        while True:
            copy = self._folder / (f"{name}-{number}" if number else name)
            try:
                return copy, self._files.create(copy)
            except FileExistsError:
                number += 1

    # --- the end -----------------------------------------------------------------------------------------------------

    def _close_segment(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            self._files.close(fd)

    def close(self) -> None:
        """Closes the segment. What was acknowledged is durable already; nothing is written here."""
        self._recovered = False
        self._recovery += 1
        self._close_segment()
