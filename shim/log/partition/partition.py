"""The log of one partition: appending to it, what of it is durable, and reading it back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from protocol.own.record_sets import Appended, LoggedRecord
from protocol.topic_partition import TopicPartition
from shim.log.disk.files import Files
from shim.log.errors import LogError, RecoveryNeeded, SyncFailed
from shim.log.journal.journal import Journal
from shim.log.journal.journal_records import EncodedEntry, encoded_entry
from shim.log.journal.waiting import Staging, Waiting
from shim.log.partition.deferred import Deferred
from shim.log.partition.ends import Ends
from shim.log.partition.snapshot import PartitionSnapshots
from shim.log.recovery.recovery import Expected, LeftBehind, Start, recover_segments
from shim.log.recovery.torn_tail import Known
from shim.log.segments.active import ActiveSegment, LastBatch
from shim.log.segments.batching import PreparedBatch, prepare_batches
from shim.log.segments.closed import ClosedSegments
from shim.log.segments.index import batches_from
from shim.log.segments.segment import Segment, SoundBatch, Unread, closed_batches
from shim.log.settings import LogSettings


class PartitionLog:
    """One partition's folder. A write is :meth:`prepare`, :meth:`write`, the journal's flush of :meth:`journal_entry`
    (or :meth:`sync`), and :meth:`acknowledge`.

    From :meth:`write` to :meth:`acknowledge` the partition counts as failed, so whatever interrupts a write, by
    whatever exception, leaves it refusing writes until it is recovered.

    Or it is :meth:`stage`, and the journal's flush: then it is written later, by :meth:`settle` or before whatever else
    is written. What comes behind the first that waits may come past this, too (log/staging.py).

    Threads: one writes, and does what is to be done between writes (:meth:`settle`, :meth:`roll`, :meth:`redo`);
    another may :meth:`flush` between writes, and another recovers. A partition that is to be recovered takes no writes,
    and none of its recoveries begins while ``_flush_lock`` is held; :meth:`redo` alone may run beside a recovery, and
    concludes from what it saw as it began. :meth:`closed_segments`, :meth:`read` and :meth:`swap_segments` may be
    called from any thread at any time.
    """

    def __init__(
        self,
        files: Files,
        folder: Path,
        topic_partition: TopicPartition,
        settings: LogSettings,
        left: LeftBehind,
        recovery_point: int,
        journal: Journal | None = None,
        *,
        needs_redo: bool = False,
    ) -> None:
        """``journal``: under the default flush policy, what makes writes durable before the segment is synced.
        ``needs_redo``: the last process left something in it that the segment may not have."""
        self.folder = folder
        self.topic_partition = topic_partition
        self.number = topic_partition.partition
        self._files = files
        self._settings = settings
        self._flushes_first = settings.flushes_first
        self._left = left
        self._active: ActiveSegment | None = None
        self._recovered = False
        self._recovery = 0
        self._journal = journal
        self._ends = Ends(folder, recovery_point, journaled=journal is not None)
        if needs_redo:
            self._ends.sync_failed()
        # Segments that the write under way has rolled, and the base offsets of those that it has made.
        self._rolled: list[Segment] = []
        self._made: list[int] = []
        # A roll that was asked for: of what is older than that; and where the log ended when one was tried last.
        self._roll_older_than_ms: int | None = None
        self._roll_tried_at = -1
        self._closed = ClosedSegments(files, folder)
        self._deferred = Deferred(folder, settings)
        self.snapshots = PartitionSnapshots(files, folder)
        # Held while a flush between writes is under way, and while a recovery begins.
        self._flush_lock = threading.Lock()

    @property
    def log_end_offset(self) -> int:
        """The offset after the last acknowledged record, but for those that wait. Raises LogError before the first
        recovery."""
        return self._ends.acknowledged.offset

    @property
    def last_batch(self) -> LastBatch | None:
        """The batch that the log ends with, which a snapshot of all of it is anchored to; None where none is in the
        active segment. For the thread that writes, between writes. Raises RecoveryNeeded.
        """
        active = self._active
        if active is None or not self._recovered:
            raise RecoveryNeeded(self.folder)
        return active.last_batch

    @property
    def recovery_point(self) -> int:
        """Every offset below it is on the disk, and stays there whatever fails."""
        return self._ends.recovery_point

    @property
    def recovered(self) -> bool:
        """Whether it takes writes: recovered, and no write of it has failed since or is under way."""
        return self._recovered

    @property
    def ends_clean(self) -> bool:
        """Whether the next process may rely on everything that is there: nothing torn, nothing that is not synced."""
        if not self._recovery:  # nobody has touched it
            return self._left.clean
        return self._recovered and self._ends.all_synced and self._deferred.waiting is None

    # --- writing -----------------------------------------------------------------------------------------------------

    def prepare(self, record_sets: Sequence[Appended], timestamp_ms: int) -> list[PreparedBatch]:
        """Batches that hold these record sets at the end of the log, behind what waits, which is written first.

        Raises RecoveryNeeded; OSError, of that, or (EMSGSIZE) for a record set beyond MAX_RECORD_SET_BYTES; ValueError
        for an impossible timestamp.
        """
        if not self._recovered:
            raise RecoveryNeeded(self.folder)
        if self._deferred.waiting is not None:
            self._deferred.settle(self._active, self._ends)
        return prepare_batches(self._ends.written.offset, record_sets, timestamp_ms)

    def write(self, batches: Sequence[PreparedBatch]) -> None:
        """Writes prepared batches after the end of the log, rolling its segment where that is due. Raises OSError.

        Under the default flush policy at most one batch at a time is durable nowhere: of several, each is synced before
        the next is written. The disk may get to the bytes of one sync in any order, so with two batches in it the
        second could survive a power failure that tears the first. With one, a sound batch after a bad one proves that
        the bad one was durable once, which is what recovery relies on.
        """
        active = self._active
        if active is None or not self._recovered:
            raise RecoveryNeeded(self.folder)
        self._recovered = False  # nothing waits: it was written by `prepare`
        for nth, batch in enumerate(batches):
            if nth and self._flushes_first:
                self.sync()
            if not active.has_room_for(batch, self._settings):
                active = self._roll(active)
            active.append(batch)
            self._ends.written = active.end

    def _roll(self, full: ActiveSegment) -> ActiveSegment:
        """The segment that comes after: made only when all of the full one is durable, so that a torn write can only
        ever be in the last segment; and written to only when its own name is."""
        if self._ends.unsynced_records:
            self.sync()
        self._active = ActiveSegment.create(self._files, self.folder, full.end.offset, self._made)
        self._ends.written = self._ends.synced = self._active.end
        self._rolled.append(full.finish())
        return self._active

    def journal_entry(self, batches: Sequence[PreparedBatch]) -> EncodedEntry:
        """What the write under way has written, none of it into a new segment."""
        base_offset, position, _ = self._ends.acknowledged
        data = batches[0].data if len(batches) == 1 else b"".join([batch.data for batch in batches])
        return encoded_entry(self.topic_partition, base_offset, position, self._ends.written.offset, data)

    # --- records that wait -------------------------------------------------------------------------------------------

    def stage(self, runs: Sequence[bytes], timestamp_ms: int, staging: Staging) -> bool:
        """These records wait, and the journal is to have them. Where it has not got them :meth:`write_staged` is to
        follow; where they are not acknowledged :meth:`drop_staged`, before anything else.

        False where they cannot wait: they are many, or the segment is to be rolled first, or the log takes no writes.
        From here until they are acknowledged, or dropped, no recovery may begin: it would not know of them.
        """
        active, waiting = self._active, self._deferred.waiting
        if active is None or not self._recovered or self._journal is None:
            return False
        if waiting is not None:
            return waiting.take(runs)
        return self._deferred.begin(self.number, active, runs, timestamp_ms, staging)

    def drop_staged(self, count: int) -> None:
        """So many, which were staged last, are not acknowledged."""
        self._deferred.drop(count)

    def write_staged(self) -> None:
        """As :meth:`write`, of what waits and what was staged. Raises OSError."""
        if not self._recovered:
            raise RecoveryNeeded(self.folder)
        self._refuse()
        self._deferred.write(self._active, self._ends)

    def settle(self) -> None:
        """Writes what waits: it counts, and can be read, from then on. Nothing while a recovery is due or under way."""
        with self._flush_lock:  # no recovery begins meanwhile
            if self._recovered and self._deferred.waiting is not None:
                self._deferred.settle(self._active, self._ends)

    @property
    def waiting(self) -> Waiting | None:
        """What waits; None when nothing does."""
        return self._deferred.waiting

    def _refuse(self) -> None:
        """It takes no writes from here on, and nothing that is to wait."""
        self._recovered = False
        if (waiting := self._deferred.waiting) is not None:
            waiting.close()

    # --- durable, and what counts ------------------------------------------------------------------------------------

    @property
    def needs_journal(self) -> bool:
        """Whether something that was acknowledged, and does not wait, may be in the journal only."""
        return self._ends.needs_journal

    def redo(self) -> None:
        """Makes certain that what was acknowledged is durable in the segment, where a sync of that has failed. Raises
        OSError."""
        if self._journal is not None:
            # Once: a recovery in another thread may write what waits meanwhile, and that is durable nowhere else; and a
            # sync of its own may fail.
            acknowledged = self._ends.acknowledged if self._ends.known else None
            sync_failures = self._ends.sync_failures
            try:
                end = self._journal.redo_partition(self.topic_partition, acknowledged.offset if acknowledged else None)
            except BaseException:
                # As after any sync that fails: what stood there, in the page cache, may be gone, too.
                self._ends.sync_failed()
                raise
            self._ends.redone(acknowledged, end, sync_failures)

    @property
    def begins_segment(self) -> bool:
        """Whether all that is in the newest segment, which is not the first, is of the write under way."""
        base_offset = self._ends.written.base_offset
        return base_offset > 0 and base_offset >= self._ends.acknowledged.offset

    @property
    def roll_due(self) -> bool:
        """Whether :meth:`roll_older_than` has asked for what is there, and it was not tried in vain."""
        asked_ms, active = self._roll_older_than_ms, self._active
        if asked_ms is None or active is None or not self._recovered:
            return False
        newest_ms = active.newest_timestamp_ms
        return newest_ms is not None and newest_ms < asked_ms and active.end.offset != self._roll_tried_at

    def roll(self, now_ms: int) -> None:
        """Begins a new segment, between writes. Nothing while a recovery is due or under way.

        Raises OSError: the partition refuses writes then until it is recovered, and it is not tried again before
        something else has been written. What is old takes room, no more; a recovery keeps clients waiting.
        """
        with self._flush_lock:  # no recovery begins meanwhile
            if not self._recovered or self._active is None:
                return
            if self._deferred.waiting is not None:
                self._deferred.settle(self._active, self._ends)
            self._recovered = False
            self._roll_tried_at = self._active.end.offset
            self._roll(self._active)
            self.acknowledge(now_ms)

    @property
    def must_sync(self) -> bool:
        """Whether what was written has to be synced before it is acknowledged, under a loose flush policy."""
        return self._ends.unsynced_records >= self._settings.flush_interval_messages

    @property
    def unsynced_since_ms(self) -> int | None:
        """The timestamp of the oldest write that was acknowledged and is not durable; None when all are."""
        return self._ends.unsynced_since_ms if self._recovered else None

    def sync(self) -> None:
        """Makes what was written durable. After an OSError all of it since the last sync is in doubt."""
        if self._active is None:
            raise RecoveryNeeded(self.folder)
        try:
            self._active.sync()
        except BaseException:
            self._ends.sync_failed()
            self._refuse()
            raise
        self._ends.sync_succeeded()

    def flush(self) -> None:
        """As :meth:`sync`, between writes. Nothing while a recovery is due or under way."""
        with self._flush_lock:  # no recovery begins meanwhile
            if self._recovered:
                self.sync()

    def acknowledge(self, timestamp_ms: int) -> None:
        """What was written counts from here on, and the partition takes the next write."""
        if self._rolled:
            # Not before: a write that fails takes its rolls back.
            self._closed.add(self._rolled)
            self._rolled = []
            self._made = []
        self._ends.acknowledge(timestamp_ms)
        if self._deferred.waiting is not None:
            self._deferred.acknowledged(self._ends.written)
        self._recovered = True

    # --- recovery ----------------------------------------------------------------------------------------------------

    def recover(self, start_offset: int = 0, anchor: int | None = None) -> Iterator[LoggedRecord]:
        """The records on disk from ``start_offset`` on, in order. The partition takes writes once the iterator is
        exhausted, not before.

        After a failed write, what was not acknowledged is cut off first. On the first recovery, when the end of what
        was acknowledged is not known, a torn tail is cut off, a copy of it kept beside the segment.

        ``anchor``: see :class:`Start`. What is below the recovery point and below ``start_offset`` need not be read.

        The iterator raises CorruptLog for damage that is not a torn tail, LogError for batches of a kind that this
        log does not hold, OSError. The records it gave by then are not to be used, and the partition refuses writes.
        """
        self._give_up()
        return self._recover(self._recovery, Start(start_offset, anchor))

    def _give_up(self) -> None:
        with self._flush_lock, self._closed.files_lock:
            self._refuse()
            self._recovery += 1
            self._closed.know(None)

    def _recover(self, recovery: int, start: Start) -> Iterator[LoggedRecord]:
        check_current = self._check_that_current(recovery)
        check_current()
        self._deferred.settle_before_reading(self._active, self._ends)
        self._close_active()
        with self._closed.files_lock:
            self._closed.finish_swap()
        if self._journal is not None and self._ends.known:
            self._journal.heal()
        if self._ends.needs_redo:
            self.redo()
        clean = self._left.clean and not self._ends.known
        left = Known(self.recovery_point, clean, self._left.loose)
        expected = Expected(self._ends.certain(), self._made, left)
        try:
            found = yield from recover_segments(self._files, self.folder, expected, start, check_current)
        except SyncFailed:
            self._ends.sync_failed()
            raise
        self._active = found.active
        self._rolled = []
        self._ends.recovered(found.active.end)
        self._closed.know(found.closed)
        self._deferred.recovered(found.active.end)
        self._recovered = True

    def _check_that_current(self, recovery: int) -> Callable[[], None]:
        """What raises when another recovery than this one has begun, or the log was closed."""

        def check() -> None:
            if recovery != self._recovery:
                raise LogError(
                    f"this reading of {self.folder} was given up: it is being recovered, or the log was closed"
                )

        return check

    # --- for other threads -------------------------------------------------------------------------------------------

    def closed_segments(self) -> list[Segment]:
        """Rising. Raises LogError before the first recovery and while one is under way."""
        return list(self._closed.listed())

    def swap_segments(self, old: Sequence[Segment], swap: Callable[[], None]) -> bool:
        """Compaction's last step; see :meth:`ClosedSegments.swap`. Appends go on meanwhile."""
        return self._closed.swap(old, swap)

    def roll_older_than(self, oldest_ms: int) -> None:
        """Asks the thread that writes for a new segment when all batches in the active one are older than that."""
        self._roll_older_than_ms = oldest_ms

    def read(self, offset: int = 0, *, unread: Unread | None = None) -> Iterator[SoundBatch]:
        """The batches from the one that holds ``offset`` on, or from the first after it, up to what was acknowledged
        when the last segment was opened.

        Those of whose header ``unread`` is true are given with no records, whatever they hold. Appends and swaps may go
        on meanwhile; a recovery ends it with LogError. Also raises CorruptLog, OSError.
        """
        return self._read(self._check_that_current(self._recovery), offset, unread)

    def _read(self, check_current: Callable[[], None], offset: int, unread: Unread | None) -> Iterator[SoundBatch]:
        is_last = False
        while not is_last:
            segment, is_last, fd = self._closed.open_at(offset, lambda: self._ends.acknowledged)
            try:
                for batch in self._batches_near(offset, segment, fd, unread, is_last=is_last):
                    check_current()
                    if batch.header.next_offset > offset:
                        yield batch
            finally:
                self._files.close(fd)
            offset = max(offset, segment.next_offset)

    def _batches_near(
        self, offset: int, segment: Segment, fd: int, unread: Unread | None, *, is_last: bool
    ) -> Iterator[SoundBatch]:
        """From one near to ``offset`` on. ``is_last``: the log ends in this segment."""
        if not is_last:
            return batches_from(self._files, fd, segment, offset, unread_below=offset, unread=unread)
        # Its index is with who appends to it. Meanwhile it may have been closed: then all of it is read over.
        active, position = self._active, 0
        if active is not None and active.path == segment.path:
            position = active.position_for(min(offset, segment.next_offset - 1))
        return closed_batches(self._files, fd, segment, position=position, unread_below=offset, unread=unread)

    def seekable(self, offset: int) -> int:
        """The highest offset, up to this one, that :meth:`read` begins near to: where a recovery has skipped the
        beginning of the active segment, that is its first one. For any thread."""
        active = self._active
        return offset if active is None else active.seekable(offset)

    # --- the end -----------------------------------------------------------------------------------------------------

    def _close_active(self) -> None:
        if self._active is not None:
            active, self._active = self._active, None
            active.close()

    def close(self) -> None:
        """Closes the segment. What was acknowledged is durable already; nothing is written here."""
        self._give_up()
        self._close_active()
