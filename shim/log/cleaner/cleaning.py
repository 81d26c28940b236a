"""One round of cleaning: a partition's closed segments written anew without what has a newer record.

The newest offset of every key in the part that was never cleaned is gathered, as much of that part as the map has room
for. Then every segment up to there is written anew, small neighbours into one (compaction.py), and put in the place of
the old ones (segments/swap.py). A stretch of which nothing is left is not read a second time for that (stretches.py).

A round that breaks off anywhere leaves a log that is right. Its groups are swapped in the order of the log, so a
tombstone never goes before what it stands for, and snapshots that may hold that go before the first swap
(partition/snapshot.py). Only after a whole round does the checkpoint say that the part is clean: until then the next
round takes it for dirty again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from protocol.own.position import Producer
from protocol.records.batches import BatchHeader
from protocol.topic_partition import TopicPartition
from shim.config import Settings
from shim.log.cleaner.compaction import (
    CleanedBatch,
    TransactionsSeen,
    cleaned_batch,
    cleaned_marker,
    group_segments,
)
from shim.log.cleaner.new_segment import NewSegment
from shim.log.cleaner.offset_map import OffsetMap
from shim.log.cleaner.stretches import SegmentWalk, Stretch, divided
from shim.log.cleaner.throttler import CleaningStopped, Throttler
from shim.log.disk.files import Files
from shim.log.errors import LogError
from shim.log.partition.partition import PartitionLog
from shim.log.segments.segment import Segment, SoundBatch, closed_batches, sound_columns
from shim.log.segments.swap import cleaned_path, remove_left_overs, swap
from shim.log.segments.transactions import why_foreign

_DEFAULT: Final = Settings()
_PAID_AT_ONCE: Final = 4096
"""Bytes of small batches, which take a fraction of a turn."""


@dataclass(frozen=True, slots=True)
class CleanerSettings:
    """Times in milliseconds, sizes in bytes; Kafka's defaults.

    ``min_cleanable_ratio``        log.cleaner.min.cleanable.ratio
    ``delete_retention_ms``        log.cleaner.delete.retention.ms
    ``dedupe_buffer_size``         log.cleaner.dedupe.buffer.size
    ``io_max_bytes_per_second``    log.cleaner.io.max.bytes.per.second, read and written
    ``segment_bytes``              offsets.topic.segment.bytes: how large small segments become together
    ``segment_index_bytes``        log.index.size.max.bytes, likewise
    """

    min_cleanable_ratio: float = _DEFAULT.log_cleaner_min_cleanable_ratio
    delete_retention_ms: int = _DEFAULT.log_cleaner_delete_retention_ms
    dedupe_buffer_size: int = _DEFAULT.log_cleaner_dedupe_buffer_size
    io_max_bytes_per_second: float = _DEFAULT.log_cleaner_io_max_bytes_per_second
    segment_bytes: int = _DEFAULT.offsets_topic_segment_bytes
    segment_index_bytes: int = 10 << 20

    @classmethod
    def of(cls, settings: Settings) -> Self:
        return cls(
            min_cleanable_ratio=settings.log_cleaner_min_cleanable_ratio,
            delete_retention_ms=settings.log_cleaner_delete_retention_ms,
            dedupe_buffer_size=settings.log_cleaner_dedupe_buffer_size,
            io_max_bytes_per_second=settings.log_cleaner_io_max_bytes_per_second,
            segment_bytes=settings.offsets_topic_segment_bytes,
        )


@dataclass(slots=True)
class CleanerStats:
    """What one round did. ``[first_dirty_offset, end_offset)`` was dirty and is clean; ``seconds`` include waiting.

    ``bytes_read`` counts twice what was read for the offset map and again for cleaning. ``records_read`` does not, and
    has those, too, that need not be read again, as nothing is left of them.
    """

    partition: TopicPartition
    first_dirty_offset: int
    end_offset: int
    ratio: float
    keys: int = 0
    map_bytes: int = 0
    segments_written: int = 0
    records_read: int = 0
    records_written: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    seconds: float = 0.0
    waits_for: tuple[Producer, int] | None = None
    """Where nothing could be cleaned: the transaction whose end is not in these segments, and where it begins."""


class CleaningRound:
    """Cleans ``segments``, the closed ones of a partition, as of ``now_ms`` (milliseconds since the epoch)."""

    def __init__(
        self,
        files: Files,
        partition: PartitionLog,
        segments: Sequence[Segment],
        settings: CleanerSettings,
        throttler: Throttler,
        stats: CleanerStats,
        now_ms: int,
    ) -> None:
        self._files = files
        self._partition = partition
        self._segments = segments
        self._settings = settings
        self._throttler = throttler
        self._stats = stats
        self._now_ms = now_ms
        self._rewritten_to = 0
        self._snapshots_are_gone = False
        self._seen = TransactionsSeen()
        self._stretches: dict[Segment, list[Stretch]] = {}

    def run(self, first_dirty_offset: int) -> int:
        """Gives the offset up to which the partition is clean now: as before, when that is where a transaction begins
        of which the end is not in these segments.

        Raises CleaningStopped; CorruptLog and LogError for what cannot be cleaned; OSError. What was swapped by then
        stays; of the rest nothing is changed.
        """
        remove_left_overs(self._files, self._partition.folder)
        newest = self._offset_map(first_dirty_offset)
        newest.complete()
        self._stats.keys = len(newest)
        self._stats.map_bytes = newest.size_bytes
        if newest.end_offset <= first_dirty_offset:
            self._stats.waits_for = newest.first_open
            return first_dirty_offset
        covered = [segment for segment in self._segments if segment.base_offset < newest.end_offset]
        if covered:  # where the map is full inside a segment, what is behind that stays as it is, and moves
            self._rewritten_to = covered[-1].next_offset
        for group in group_segments(covered, self._settings.segment_bytes, self._settings.segment_index_bytes):
            self._clean_group(group, newest)
        remove_left_overs(self._files, self._partition.folder)
        return newest.end_offset

    def _offset_map(self, first_dirty: int) -> OffsetMap:
        newest = OffsetMap(first_dirty, self._settings.dedupe_buffer_size)
        for segment in self._segments:
            if segment.next_offset <= first_dirty:
                continue
            walk = SegmentWalk(segment)
            with self._reading(segment, Stretch.whole(segment), unread_below=first_dirty) as batches:
                for batch in batches:
                    if not newest.is_full:
                        if batch.header.next_offset > first_dirty:
                            newest.add(batch)
                    elif not newest.has_open:
                        self._stretches[segment] = walk.ended()
                        return newest
                    elif batch.header.is_control:
                        newest.end_transaction(batch)
                    walk.passed(batch)
            self._stretches[segment] = walk.ended()
        return newest

    def _clean_group(self, group: Sequence[Segment], newest: OffsetMap) -> None:
        """Writes a group of segments into one, and puts it in their place, unless nothing would change."""
        stats = self._stats
        folder = self._partition.folder
        changed = len(group) > 1
        with self._new_segment(cleaned_path(folder, group[0].base_offset)) as cleaned:
            for segment in group:
                stretches = self._stretches.pop(segment, None) or [Stretch.whole(segment)]
                for stretch, may_be_left in divided(stretches, newest, group[-1].next_offset):
                    if not may_be_left:
                        changed = True
                        stats.records_read += stretch.records
                        continue
                    with self._reading(segment, stretch, unread=newest.supersedes) as batches:
                        for batch in batches:
                            is_last = batch.header.next_offset == group[-1].next_offset
                            data, record_count = self._cleaned(batch, newest, keep_empty=is_last)
                            changed = changed or data != batch.raw
                            cleaned.append(data)
                            stats.records_read += batch.header.record_count
                            stats.records_written += record_count
            if not changed:
                return
            cleaned.finish()
            self._outdate_snapshots()
            replaced = [segment.base_offset for segment in group]
            if not self._partition.swap_segments(group, lambda: swap(self._files, folder, replaced)):
                raise CleaningStopped
            stats.segments_written += 1
        remove_left_overs(self._files, folder)

    def _cleaned(self, batch: SoundBatch, newest: OffsetMap, *, keep_empty: bool) -> CleanedBatch:
        now_ms, retention_ms = self._now_ms, self._settings.delete_retention_ms
        if batch.header.is_control:
            return cleaned_marker(batch, newest, self._seen, now_ms, retention_ms, keep_empty=keep_empty)
        if batch.header.is_transactional:
            self._seen.data(batch)
        return cleaned_batch(batch, newest, now_ms, retention_ms, keep_empty=keep_empty)

    def _outdate_snapshots(self) -> None:
        if not self._snapshots_are_gone:
            self._partition.snapshots.outdate(self._rewritten_to)
            self._snapshots_are_gone = True

    @contextmanager
    def _reading(
        self,
        segment: Segment,
        stretch: Stretch,
        *,
        unread_below: int = 0,
        unread: Callable[[BatchHeader], bool] | None = None,
    ) -> Iterator[Iterator[SoundBatch]]:
        fd = self._files.open(segment.path)
        try:
            batches = closed_batches(
                self._files,
                fd,
                segment._replace(size=stretch.end, next_offset=stretch.next_offset),
                position=stretch.position,
                offset=stretch.offset,
                unread_below=unread_below,
                unread=unread,
                read=sound_columns,
            )
            yield self._paid_for(batches, segment.path)
        finally:
            self._files.close(fd)

    def _paid_for(self, batches: Iterator[SoundBatch], path: Path) -> Iterator[SoundBatch]:
        unpaid = 0
        for batch in batches:
            if (reason := why_foreign(batch)) is not None:
                raise LogError(f"{path} at byte {batch.position}: {reason}")
            unpaid += batch.end - batch.position
            if unpaid >= _PAID_AT_ONCE:
                self._pay(unpaid)
                unpaid = 0
            yield batch
        self._pay(unpaid)

    def _pay(self, size: int) -> None:
        self._stats.bytes_read += size
        self._throttler.spend(size)

    @contextmanager
    def _new_segment(self, path: Path) -> Iterator[NewSegment]:
        """A new file of this name. If it still has it at the end, it came to nothing, and is removed."""
        segment = NewSegment(self._files, self._files.create(path), self._throttler, self._stats)
        try:
            yield segment
        finally:
            segment.close()
            with suppress(OSError):  # what is left over is removed before the next round, and at the next start
                if self._files.exists(path):
                    self._files.unlink(path)
