"""The offsets log on the local disk: all partitions of all its topics, written and flushed together."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple, Self, TypeAlias

from protocol.own.record_sets import Appended, LoggedRecord
from protocol.partition import OFFSETS_TOPIC
from shim.log.directory.data_dir import DataDir
from shim.log.directory.opening import Opened, open_share, open_whole
from shim.log.directory.shares import Share, deal_out
from shim.log.disk.files import Files
from shim.log.errors import LogError
from shim.log.flush import Flusher
from shim.log.partition.partition import PartitionLog
from shim.log.segments.batching import PreparedBatch
from shim.log.settings import LogSettings
from shim.log.settling import Settling
from shim.log.staging import RecordsToWait, Staged, TopicStaging

_BETWEEN_ROLLS_MS: Final = 100
_CLOSED: Final = "the log is closed"  # another process may have the data directory by then

_logger = logging.getLogger(__name__)


class PartitionWrite(NamedTuple):
    """What one write appends to one partition of a topic.

    ``records`` is a list of record sets, each the records of one request: a set is never split between batches, so it
    is recovered whole or not at all. Sets share one batch while that stays within ``batching.MAX_BATCH_BYTES``; one
    that is in a transaction, or the end of one, is a batch by itself.
    ``timestamp_ms``: milliseconds since the epoch, of all the records.
    """

    partition: int
    records: Sequence[Appended]
    timestamp_ms: int
    topic: str = OFFSETS_TOPIC


class MayWait(NamedTuple):
    """What one write appends to partitions of a topic of which nobody need read it soon: records that are right each by
    itself.

    Once they are durable they may come into one batch with those of later writes, whose time is that of the first of
    them, and cannot be read before :meth:`OffsetsLog.settle`.
    """

    topic: str
    timestamp_ms: int
    records: RecordsToWait


# What goes into a log, and when: record sets, and the batches that they become.
_Writes: TypeAlias = list[tuple[PartitionLog, int, Sequence[Appended]]]
_Prepared: TypeAlias = list[tuple[PartitionLog, int, list[PreparedBatch]]]


class Maintained(NamedTuple):
    """``failed``: as :meth:`OffsetsLog.write` gives it. ``next_ms``: when to come again at the latest."""

    failed: dict[int, OSError]
    next_ms: int


class OffsetsLog:
    """The partitions of the topics in a data directory, each topic with the same number of them. Blocking.

    One thread at a time may :meth:`write` or :meth:`maintain`, and one may :meth:`recover`: while one writes, another
    may read back a partition that is not among those written. :meth:`close` comes when both are done.

    A partition takes writes after :meth:`recover` of it has been read to its end; so, too, after a write of it has
    failed. Partitions of the same number in several topics belong together: where one has failed, all are recovered.

    ``data_dir``: what it is in, and closes. ``num_partitions``: of each topic. ``share``: what of them this process
    has, where it has not all. ``notes_folder``: where it notes what is of its partitions alone. ``ended_clean``:
    whether :meth:`close` has found all in good order.
    """

    def __init__(self, opened: Opened, num_partitions: int, share: Share | None = None) -> None:
        self.data_dir = opened.data_dir
        self.num_partitions = num_partitions
        self.share = share
        self.notes_folder = self.data_dir.path if share is None else share.folder(self.data_dir.path)
        self.ended_clean = False
        self._files = opened.files
        self._settings = opened.settings
        self._handover = opened.handover
        self._journal = opened.journal
        self._flushes_first = opened.settings.flushes_first
        self._partitions: dict[tuple[str, int], PartitionLog] = dict(opened.partitions.items())
        self._checkpoint_due_ms: int | None = None
        self._cannot_sync = False
        self._settling = Settling(self._partitions.values())
        self._staging: dict[str, TopicStaging] = {}
        self._flusher = Flusher()
        self._closed = False

    @classmethod
    def open(
        cls,
        data_dir: Path,
        num_partitions: int,
        *,
        topics: Sequence[str] = (OFFSETS_TOPIC,),
        settings: LogSettings | None = None,
        files: Files | None = None,
        held: DataDir | None = None,
    ) -> Self:
        """Takes the data directory for this process, and makes what is not there yet, durably. Reads no records.
        ``held``: the directory, where it was taken before.

        Raises LogError as :meth:`DataDir.open`, when the directory holds another number of partitions, when a
        partition's folder is missing, when the checkpoint of recovery points is damaged, or the journal of another
        version; OSError; ValueError for a number of partitions below 1.
        """
        if num_partitions < 1:
            raise ValueError(f"{num_partitions} partitions")
        opened = open_whole(
            data_dir,
            num_partitions,
            topics=topics,
            settings=settings or LogSettings(),
            files=files or Files(),
            held=held,
        )
        return cls(opened, num_partitions)

    @classmethod
    def open_share(
        cls,
        data_dir: Path,
        num_partitions: int,
        share: Share,
        *,
        clean: bool,
        topics: Sequence[str] = (OFFSETS_TOPIC,),
        settings: LogSettings | None = None,
        files: Files | None = None,
    ) -> Self:
        """What another process, which has the directory, has dealt out to this one (:meth:`deal_out`), with the same
        number of partitions and topics. Reads no records. No other one may have the same share: who takes the place of
        one that is gone has to know that it is.

        ``clean``: whether all was in good order then, and nobody has had the share since.

        Raises LogError when a note is damaged; OSError.
        """
        opened = open_share(
            data_dir,
            num_partitions,
            share,
            clean=clean,
            topics=topics,
            settings=settings or LogSettings(),
            files=files or Files(),
        )
        return cls(opened, num_partitions, share)

    def deal_out(self, count: int) -> bool:
        """Leaves its partitions, which it has not read, to so many processes, each with its :class:`Share`, and keeps
        the directory. Gives whether all was in good order.

        Raises LogError where something cannot be put right from the journal; OSError.
        """
        for log in self._partitions.values():
            if log.needs_journal:
                raise LogError(f"{log.topic_partition} cannot be put right from the journal, and nobody could later")
        self._closed = True
        self._journal.discard()
        self._flusher.close()
        deal_out(self._files, self.data_dir.path, count, self._handover.note())
        return all(log.ends_clean for log in self._partitions.values())

    def partition_log(self, partition: int, topic: str = OFFSETS_TOPIC) -> PartitionLog:
        """Raises LogError when the log is closed, ValueError when there is no such partition."""
        if self._closed:
            raise LogError(_CLOSED)
        try:
            return self._partitions[topic, partition]
        except KeyError:
            raise _no_partition(topic, partition) from None

    def partition_logs(self) -> list[PartitionLog]:
        """Of all topics."""
        return list(self._partitions.values())

    def recover(
        self, partition: int, *, topic: str = OFFSETS_TOPIC, start_offset: int = 0, anchor: int | None = None
    ) -> Iterator[LoggedRecord]:
        """The partition's records on disk, in order; see :meth:`PartitionLog.recover`, also for what it raises."""
        return self.partition_log(partition, topic=topic).recover(start_offset, anchor)

    def log_end_offset(self, partition: int, *, topic: str = OFFSETS_TOPIC) -> int:
        """The offset after the last acknowledged record, but for those that wait. Raises LogError before the
        partition's first recovery."""
        return self.partition_log(partition, topic=topic).log_end_offset

    # --- writing -----------------------------------------------------------------------------------------------------

    def write(self, writes: Sequence[PartitionWrite], may_wait: MayWait | None = None) -> dict[int, OSError]:
        """Appends to each partition and makes it durable (as far as the flush policy says so). Gives those that failed,
        with why; all others are durable. Where one of several topics fails, its number counts as failed.

        Of a partition that failed nothing is acknowledged, and anything may be on disk: it refuses writes
        (RecoveryNeeded) until it has been recovered. Only a record set that is too large (EMSGSIZE) and RecoveryNeeded
        itself mean that nothing was written.

        Raises ValueError, nothing having been written, for a partition that is named twice or that there is not, or
        for a timestamp beyond 64 bits, but of what waits with others: the time of the first of them counts.
        """
        failed: dict[int, OSError] = {}
        at_once = self._logs_of(writes)
        staged = self._to_stage(may_wait, writes)
        try:
            if may_wait is not None:
                at_once += staged.stage(may_wait.records)
            written = self._written(at_once, failed)
            staged.drop(failed.keys())
            begins_segment = any(log.begins_segment for log, _, _ in written)
            if self._flushes_first and not begins_segment and self._journaled(written, staged):
                if staged:
                    self._settling.begin(staged.timestamp_ms)
            else:
                written += [(log, staged.timestamp_ms, []) for log in staged.write(failed)]
                written = _without(failed, written)
                failed |= self._flusher.sync([log for log, _, _ in written if self._flushes_first or log.must_sync])
                staged.drop(failed.keys())
        except BaseException:
            staged.drop_all()
            raise
        # What one topic has is not acknowledged when another topic has failed: the recovery takes it back.
        if failed:
            written = _without(failed, written)
        for log, timestamp_ms, _ in written:
            log.acknowledge(timestamp_ms)
        if begins_segment and written:
            # So that a recovery point is in the newest segment before anything in there that was flushed is
            # acknowledged: were that file to vanish, the one before it would look like the end of a sound log.
            self._note_recovery_points()
        return failed

    def _written(self, writes: _Writes, failed: dict[int, OSError]) -> _Prepared:
        """What is in the segments now; ``failed`` gets the partitions of which it is not all."""
        written: _Prepared = []
        for each in _prepared(writes, failed):
            log, _, batches = each
            if failed and log.number in failed:
                continue
            try:
                log.write(batches)
            except OSError as error:
                failed[log.number] = error
            else:
                written.append(each)
        return _without(failed, written)

    def _logs_of(self, writes: Sequence[PartitionWrite]) -> _Writes:
        """What is written at once. Raises as :meth:`write` does."""
        if self._closed:
            raise LogError(_CLOSED)
        its = self._partitions
        try:
            at_once = [(its[write[3], write[0]], write[2], write[1]) for write in writes]
        except KeyError as unknown:
            raise _no_partition(*unknown.args[0]) from None
        if len(at_once) > 1 and len({log for log, _, _ in at_once}) < len(at_once):
            raise _named_twice(log for log, _, _ in at_once)
        return at_once

    def _to_stage(self, may_wait: MayWait | None, writes: Sequence[PartitionWrite]) -> Staged:
        """Of a write that has these besides. Raises as :meth:`write` does."""
        if may_wait is None:
            return _NOTHING
        topic, timestamp_ms, records = may_wait
        staging = self._staging.get(topic)
        if staging is None:
            logs = {number: log for (its, number), log in self._partitions.items() if its == topic}
            staging = self._staging[topic] = TopicStaging(topic, logs)
        at_once = {write[0] for write in writes if write[3] == topic}
        if at_once and (twice := at_once.intersection(records.numbers)):
            raise _named_twice(staging.logs[number] for number in twice)
        return Staged(staging, timestamp_ms)

    def _journaled(self, written: _Prepared, staged: Staged) -> bool:
        """Has the journal make durable what was written, and what is to wait. False when it could not."""
        if not written and not staged:
            return True
        entries = [log.journal_entry(batches) for log, _, batches in written]
        if staged:
            entries.append(staged.entry())
        return self._journal.append(entries)

    def settle(self, partition: int, *, topic: str) -> None:
        """What waits of the partition can be read after that. For the thread that writes. Raises LogError when the log
        is closed, ValueError when there is no such partition, OSError."""
        self.partition_log(partition, topic=topic).settle()

    def maintain(self, now_ms: int) -> Maintained:
        """What is due by itself: what has waited for a second, flushes that ``log.flush.interval.ms`` asks for, a new
        segment where the active one is too old (one at a time, as writes wait for it), the syncs after which the
        journal may begin anew, and the checkpoint of the recovery points. To be called by the thread that writes, also
        when there is nothing to write, and soon when it is :attr:`maintenance_due`.

        ``now_ms``: milliseconds since the epoch, by the clock of the writes' timestamps.
        """
        interval = self._settings.flush_interval_ms
        due = [
            log
            for log in self._partitions.values()
            if (since := log.unsynced_since_ms) is not None and since + interval <= now_ms
        ]
        failed = self._flusher.flush(due)
        self._settling.settle_due(now_ms)
        checkpoint_due = self._checkpoint_due_ms is None or self._checkpoint_due_ms <= now_ms
        if checkpoint_due or self.maintenance_due:
            failed |= self._sync_all()
        # Where what waits cannot be written it is not tried, and nobody is kept waiting for that.
        to_roll = [log for log in self._partitions.values() if log.roll_due and self._settling.settle(log)]
        for log in to_roll[:1]:
            try:
                log.roll(now_ms)
            except OSError as error:
                failed[log.number] = error
        if checkpoint_due or self._checkpoint_due_ms is None:
            self._checkpoint_due_ms = now_ms + self._settings.flush_offset_checkpoint_interval_ms
            self._note_recovery_points()
        unsynced = [since for log in self._partitions.values() if (since := log.unsynced_since_ms) is not None]
        next_ms = min(self._checkpoint_due_ms, min(unsynced, default=now_ms) + interval)
        if self._settling.due_ms is not None:
            next_ms = min(next_ms, self._settling.due_ms)
        return Maintained(failed, min(next_ms, now_ms + _BETWEEN_ROLLS_MS) if to_roll[1:] else next_ms)

    @property
    def settle_due_ms(self) -> int | None:
        """By when to :meth:`maintain` for the sake of what waits, which may have been written by then; None when
        nothing does. For who has just written."""
        return self._settling.due_ms

    @property
    def maintenance_due(self) -> bool:
        """Whether there is something to :meth:`maintain` now, whatever the time."""
        return self._journal.is_full and not self._cannot_sync

    def _sync_all(self) -> dict[int, OSError]:
        """Syncs all segments, after which the journal may begin anew. Gives the partitions that have to be recovered:
        those whose sync has failed. What was acknowledged of them is made durable from the journal."""
        if self._journal.is_empty:
            return {}
        self._settling.settle_all()
        # Before it is asked what needs the journal: a recovery may have it written meanwhile.
        still = self._settling.still_waiting()
        logs = [log for log in self._partitions.values() if log.needs_journal]
        failed = self._flusher.flush(logs)
        self._cannot_sync = False
        try:
            for log in logs:
                if log.needs_journal:
                    log.redo()
            self._journal.begin_anew(still)
        except OSError as error:
            self._cannot_sync = True  # until the time for it has come again
            _logger.error("%s: the journal goes on, as it cannot begin anew: %s", self.data_dir.path, error)
        return failed

    def _note_recovery_points(self) -> None:
        try:
            self._handover.note()
        except OSError as error:  # what was noted before is as true as it was
            _logger.warning("%s: recovery points not noted, trying again later: %s", self.data_dir.path, error)

    # --- the end -----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Closes all files and gives the data directory back.

        Whatever was acknowledged is durable already; under a loose flush policy it is made so now. The next process is
        told that the log was closed in good order, unless a partition has failed or was not recovered.
        """
        if self._closed:
            return
        self._closed = True
        with ExitStack() as closing:  # each of them, whatever the others raise; the lock last
            closing.callback(self.data_dir.close)
            for log in self._partitions.values():
                closing.callback(log.close)
            closing.callback(self._journal.close)
            closing.callback(self._flusher.close)
            self._leave()

    def _leave(self) -> None:
        logs = self._partitions.values()
        for error in self._flusher.flush([log for log in logs if log.unsynced_since_ms is not None]).values():
            _logger.error("records that were acknowledged may be lost: %s", error)
        self._sync_all()
        try:
            if not self._cannot_sync and not self._settling.still_waiting():
                # Whoever changes a directory in good order, be it a version that knows no journal, finds none.
                self._journal.discard()
            self.ended_clean = self._handover.leave()
        except OSError as error:
            _logger.warning("%s: not noted that it was closed in good order: %s", self.data_dir.path, error)


_NOTHING: Final = Staged(TopicStaging("", {}), 0)


def _named_twice(logs: Iterable[PartitionLog]) -> ValueError:
    return ValueError(f"a partition named twice in one write: {[str(log.topic_partition) for log in logs]}")


def _no_partition(topic: str, partition: int) -> ValueError:
    return ValueError(f"there is no partition {topic}-{partition}")


def _without(failed: Mapping[int, OSError], written: _Prepared) -> _Prepared:
    return [each for each in written if each[0].number not in failed] if failed else written


def _prepared(writes: _Writes, failed: dict[int, OSError]) -> _Prepared:
    """What there is to write; ``failed`` gets the partitions of which nothing can be."""
    prepared = []
    for log, timestamp_ms, record_sets in writes:
        try:
            batches = log.prepare(record_sets, timestamp_ms)
        except OSError as error:
            failed[log.number] = error
        else:
            if batches:
                prepared.append((log, timestamp_ms, batches))
    return prepared
