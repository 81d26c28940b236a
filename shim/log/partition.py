"""The log of one partition: appending to it, what of it is durable, and reading it back."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from shim.log.active import ActiveSegment, LogEnd
from shim.log.batching import PreparedBatch, RecordSet, prepare_batches
from shim.log.checkpoint import TopicPartition
from shim.log.closed import ClosedSegments
from shim.log.errors import LogError, RecoveryNeeded, SyncFailed
from shim.log.files import Files
from shim.log.index import starting_point
from shim.log.recovery import Known, LoggedRecord, recover_segments
from shim.log.segment import Segment, SoundBatch, closed_batches
from shim.log.settings import LogSettings
from shim.log.shutdown import LeftBehind

_logger = logging.getLogger(__name__)


class PartitionLog:
    """One partition's folder. A write is :meth:`prepare`, :meth:`write`, :meth:`sync` and :meth:`acknowledge`.

    From :meth:`write` to :meth:`acknowledge` the partition counts as failed, so whatever interrupts a write, by
    whatever exception, leaves it refusing writes until it is recovered.

    One thread at a time writes or recovers. :meth:`closed_segments`, :meth:`read` and :meth:`swap_segments` may be
    called from others meanwhile.
    """

    def __init__(
        self,
        files: Files,
        folder: Path,
        topic_partition: TopicPartition,
        settings: LogSettings,
        left: LeftBehind,
        recovery_point: int,
    ) -> None:
        self.folder = folder
        self.topic_partition = topic_partition
        self._files = files
        self._settings = settings
        self._left = left
        self._checkpointed = recovery_point
        self._active: ActiveSegment | None = None
        self._recovered = False
        self._recovery = 0
        # Where the log ends: of what was acknowledged, of what was synced, of what was written. None until the first
        # recovery has found out. Under the default flush policy the last two are beyond the first only while a write
        # is under way or has failed; under a looser one what was synced may be behind.
        self._acknowledged: LogEnd | None = None
        self._synced = self._written = LogEnd(0, 0, 0)
        self._sync_failed = False
        self._unsynced_since_ms: int | None = None
        # Segments that the write under way has rolled, and the newest one that any write may have made.
        self._rolled: list[Segment] = []
        self._newest_base = 0
        self._closed = ClosedSegments(files, folder)

    @property
    def log_end_offset(self) -> int:
        """The offset after the last acknowledged record. Raises LogError before the first recovery."""
        return self._acknowledged_end().offset

    @property
    def recovery_point(self) -> int:
        """Every offset below it is on the disk, and stays there whatever fails."""
        if self._acknowledged is None:
            return self._checkpointed
        return min(self._acknowledged.offset, self._synced.offset)

    @property
    def recovered(self) -> bool:
        """Whether it takes writes: recovered, and no write of it has failed since or is under way."""
        return self._recovered

    @property
    def ends_clean(self) -> bool:
        """Whether the next process may rely on everything that is there: nothing torn, nothing that is not synced."""
        if not self._recovery:  # nobody has touched it
            return self._left.clean
        return self._recovered and self._acknowledged == self._synced

    # --- writing -----------------------------------------------------------------------------------------------------

    def prepare(self, record_sets: Sequence[RecordSet], timestamp_ms: int) -> list[PreparedBatch]:
        """Batches that hold these record sets at the end of the log; touches no file.

        Raises RecoveryNeeded; OSError (EMSGSIZE) for a record set beyond MAX_RECORD_SET_BYTES; ValueError for an
        impossible timestamp.
        """
        if not self._recovered:
            raise RecoveryNeeded(self.folder)
        return prepare_batches(self._written.offset, record_sets, timestamp_ms)

    def write(self, batches: Sequence[PreparedBatch]) -> None:
        """Writes prepared batches after the end of the log, rolling its segment where that is due. Raises OSError.

        Under the default flush policy at most one batch at a time is not yet durable: of several, each is synced before
        the next is written. The disk may get to the bytes of one sync in any order, so with two batches in it the
        second could survive a power failure that tears the first. With one, a sound batch after a bad one proves that
        the bad one was durable once, which is what recovery relies on.
        """
        self._recovered = False
        active = self._active
        if active is None:
            raise RecoveryNeeded(self.folder)
        for batch in batches:
            if self._settings.flushes_first and self._synced != self._written:
                self.sync()
            if not active.has_room_for(batch, self._settings):
                active = self._roll(active)
            active.append(batch)
            self._written = active.end

    def _roll(self, full: ActiveSegment) -> ActiveSegment:
        """The segment that comes after: made only when all of the full one is durable, so that a torn write can only
        ever be in the last segment; and written to only when its own name is."""
        if self._synced != self._written:
            self.sync()
        self._newest_base = full.end.offset
        self._active = ActiveSegment.create(self._files, self.folder, full.end.offset)
        self._written = self._synced = self._active.end
        self._rolled.append(full.finish())
        return self._active

    @property
    def must_sync(self) -> bool:
        """Whether what was written has to be synced before it is acknowledged."""
        unsynced = self._written.offset - self._synced.offset
        return unsynced >= self._settings.flush_interval_messages

    @property
    def unsynced_since_ms(self) -> int | None:
        """The timestamp of the oldest write that was acknowledged and is not synced; None when all are."""
        return self._unsynced_since_ms if self._recovered else None

    def sync(self) -> None:
        """Makes what was written durable. After an OSError all of it since the last sync is in doubt."""
        if self._active is None:
            raise RecoveryNeeded(self.folder)
        try:
            self._active.sync()
        except BaseException:
            self._sync_failed = True
            self._recovered = False
            raise
        self._synced = self._written
        self._unsynced_since_ms = None

    def flush(self) -> None:
        """As :meth:`sync`, between writes, under a loose flush policy. Nothing while a recovery is due or under way."""
        with self._closed.files_lock:  # no recovery begins meanwhile
            if self._recovered:
                self.sync()

    def acknowledge(self, timestamp_ms: int) -> None:
        """What was written counts from here on, and the partition takes the next write."""
        if self._rolled:
            # Not before: a write that fails takes its rolls back.
            self._closed.add(self._rolled)
            self._rolled = []
        self._acknowledged = self._written
        if self._unsynced_since_ms is None and self._synced != self._written:
            self._unsynced_since_ms = timestamp_ms
        self._recovered = True

    # --- recovery ----------------------------------------------------------------------------------------------------

    def recover(self, start_offset: int = 0) -> Iterator[LoggedRecord]:
        """The records on disk from ``start_offset`` on, in order. The partition takes writes once the iterator is
        exhausted, not before.

        After a failed write, what was not acknowledged is cut off first. On the first recovery, when the end of what
        was acknowledged is not known, a torn tail is cut off, a copy of it kept beside the segment.

        The iterator raises CorruptLog for damage that is not a torn tail, LogError for batches of a kind that this
        log does not hold, OSError. The records it gave by then are not to be used, and the partition refuses writes.
        """
        self._give_up()
        return self._recover(self._recovery, start_offset)

    def _give_up(self) -> None:
        with self._closed.files_lock:
            self._recovered = False
            self._recovery += 1
            self._closed.know(None)

    def _recover(self, recovery: int, start_offset: int) -> Iterator[LoggedRecord]:
        def check_current() -> None:
            if recovery != self._recovery:
                raise LogError(f"this recovery of {self.folder} was given up: another was begun, or the log was closed")

        check_current()
        self._close_active()
        with self._closed.files_lock:
            self._closed.finish_swap()
        first = self._acknowledged is None
        end = self._certain_end()
        known = Known(end, self._newest_base, self.recovery_point, first and self._left.clean, self._left.loose)
        try:
            found = yield from recover_segments(self._files, self.folder, known, start_offset, check_current)
        except SyncFailed:
            self._sync_failed = True
            raise
        self._active = found.active
        self._written = found.active.end
        self._synced = found.active.end  # before what was acknowledged: the recovery point may be asked for meanwhile
        self._acknowledged = found.active.end
        self._newest_base = found.active.end.base_offset
        self._sync_failed = False
        self._unsynced_since_ms = None
        self._rolled = []
        self._closed.know(found.closed)
        self._recovered = True

    def _certain_end(self) -> LogEnd | None:
        """Where the log has to end, as far as it is known.

        A sync that failed has left nothing certain but what was synced before it. Under a loose flush policy that may
        be less than what was acknowledged.
        """
        end = self._acknowledged
        if end is None or not self._sync_failed or self._synced.offset >= end.offset:
            return end
        _logger.error(
            "%s: a flush failed: %d records that were acknowledged before it are lost, from offset %d on",
            self.folder,
            end.offset - self._synced.offset,
            self._synced.offset,
        )
        return self._synced

    # --- for other threads -------------------------------------------------------------------------------------------

    def closed_segments(self) -> list[Segment]:
        """Rising. Raises LogError before the first recovery and while one is under way."""
        return list(self._closed.listed())

    def swap_segments(self, old: Sequence[Segment], swap: Callable[[], None]) -> bool:
        """Compaction's last step; see :meth:`ClosedSegments.swap`. Appends go on meanwhile."""
        return self._closed.swap(old, swap)

    def read(self, offset: int = 0) -> Iterator[SoundBatch]:
        """The batches from the one that holds ``offset`` on, or from the first after it, up to what is acknowledged.

        Appends and swaps may go on meanwhile; a recovery ends it with LogError. Also raises CorruptLog, OSError.
        """
        recovery = self._recovery
        is_last = False
        while not is_last:
            segment, is_last, fd = self._closed.open_at(offset, self._acknowledged_end)
            try:
                position, due = (
                    (0, segment.base_offset) if is_last else starting_point(self._files, fd, segment, offset)
                )
                for batch in closed_batches(self._files, fd, segment, position=position, offset=due):
                    if recovery != self._recovery:
                        raise LogError(f"{self.folder} was recovered while it was read")
                    if batch.header.next_offset > offset:
                        yield batch
            finally:
                self._files.close(fd)
            offset = max(offset, segment.next_offset)

    def _acknowledged_end(self) -> LogEnd:
        if self._acknowledged is None:
            raise LogError(f"the end of {self.folder} is not known before it is recovered")
        return self._acknowledged

    # --- the end -----------------------------------------------------------------------------------------------------

    def _close_active(self) -> None:
        if self._active is not None:
            active, self._active = self._active, None
            active.close()

    def close(self) -> None:
        """Closes the segment. What was acknowledged is durable already; nothing is written here."""
        self._give_up()
        self._close_active()
