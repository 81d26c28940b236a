"""What compaction keeps: the newest record of each key, at the offset that it always had. No files in here.

The rules are those of Kafka's log cleaner (as of Kafka 4.3, with KIP-534's delete horizon), so that its tools and
brokers read what comes out: a batch keeps base offset and last offset, whatever of its records is left; a batch
without any is dropped. Kafka keeps one all the same where it ends a round of cleaning; here it is kept where it ends a
segment. So the last batch of a closed segment always ends where the next segment starts, compacted or not, and a
segment that is missing is always found to be missing.

Transactions, as in Kafka: nothing is touched from the first one on of which the end is not known. Up to there, the
records of an aborted one go at once, and stand for nothing; those of a committed one are records like others. The
marker that ended it stays until nothing is left of its records, and then for as long as a tombstone does. One thing is
our own: of the markers that say how far another log has been taken over (:mod:`protocol.own.position`), the newest
stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import Final, NamedTuple

from protocol.own.position import Producer
from protocol.records.batches import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    BatchHeader,
    rewrite_batch,
    rewrite_framed,
)
from protocol.records.record_columns import RecordColumns
from shim.log.cleaner.offset_map import OffsetMap
from shim.log.segments.index import ENTRY_SIZE, INTERVAL_BYTES
from shim.log.segments.segment import Segment, SoundBatch
from shim.log.segments.transactions import transaction_of

# Batch attributes.
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20
_DELETE_HORIZON: Final = 0x40
_MAX_INT64: Final = 2**63 - 1
_MAX_OFFSET_RANGE: Final = 2**31 - 1  # relative offsets in an index are int32


class Dirtiness(NamedTuple):
    """Bytes of a partition's closed segments without, and with, anything that was never cleaned."""

    clean_bytes: int
    dirty_bytes: int

    @property
    def ratio(self) -> float:
        """What ``log.cleaner.min.cleanable.ratio`` is compared with: 0 of a log without closed segments."""
        return self.dirty_bytes / ((self.clean_bytes + self.dirty_bytes) or 1)


def dirtiness(segments: Sequence[Segment], first_dirty_offset: int) -> Dirtiness:
    """A segment that is clean in part counts as dirty."""
    dirty = sum(segment.size for segment in segments if segment.next_offset > first_dirty_offset)
    return Dirtiness(sum(segment.size for segment in segments) - dirty, dirty)


def group_segments(segments: Sequence[Segment], max_bytes: int, max_index_bytes: int) -> list[list[Segment]]:
    """Neighbours that become one segment: what they take now is within both limits, their offsets within an int32.

    Cleaned, they take less, as a rule: a batch that is given a delete horizon can grow by some bytes a record. An
    emptied segment keeps one batch's header (61 bytes), so with ``max_bytes`` below two of them they stay apart for
    good: the setting begins above.
    """
    groups: list[list[Segment]] = []
    size = index_size = 0
    for segment in segments:
        index_entries = segment.size // INTERVAL_BYTES
        size += segment.size
        index_size += index_entries * ENTRY_SIZE
        if (
            groups
            and size <= max_bytes
            and index_size <= max_index_bytes
            and segment.next_offset - 1 - groups[-1][0].base_offset <= _MAX_OFFSET_RANGE
        ):
            groups[-1].append(segment)
        else:
            groups.append([segment])
            size = segment.size
            index_size = index_entries * ENTRY_SIZE
    return groups


class TransactionsSeen:
    """Whose records are in the log before a marker: told of the batches in their order."""

    def __init__(self) -> None:
        self._seen: set[Producer] = set()

    def data(self, batch: SoundBatch) -> None:
        if (transaction := transaction_of(batch)) is not None:
            self._seen.add(transaction.producer)

    def ended(self, producer: Producer) -> bool:
        """Whether there was any record of the transaction that ends now."""
        was_there = producer in self._seen
        self._seen.discard(producer)
        return was_there


class CleanedBatch(NamedTuple):
    """What is left of a batch: its bytes, none when it is dropped, and how many records are in them."""

    data: bytes
    record_count: int


def cleaned_batch(
    batch: SoundBatch, newest: OffsetMap, now_ms: int, delete_retention_ms: int, *, keep_empty: bool
) -> CleanedBatch:
    """The batch with those of its records of which the map has no newer one; the same bytes where nothing changes.

    A tombstone that is the newest of its key stays for ``delete_retention_ms`` more, so that whoever reads the log
    from its beginning in less than that sees it: the batch gets a delete horizon, if it has none yet (the attribute,
    and the horizon in place of the base timestamp). Once that is over, tombstones go. What they stood for went when
    the horizon was set, or goes in the same swap at the latest. That holds only of what is in the map, or has a
    horizon: where the map begins too late (a checkpoint that is of another copy of the log), what a tombstone before it
    stands for may be there still. So such a one is given no horizon, and stays.

    The records of a batch that the map supersedes need not have been read.

    A batch of which nothing is left is dropped, or, with ``keep_empty``, a header that says no more than up to which
    offset the log goes. Batches behind the end of the map stay as they are.
    """
    header, records = batch.header, batch.records
    if header.next_offset > newest.end_offset:
        return CleanedBatch(batch.raw, header.record_count)
    if not records or newest.is_aborted(header):
        return _nothing_of(header, keep_empty)
    horizon = header.delete_horizon
    if type(records) is RecordColumns and horizon is None and not records.has_tombstones:
        return _copied(batch, records, newest, keep_empty)
    left = newest.records_kept(records)
    if horizon is not None and now_ms >= horizon:
        left = [record for record in left if record.value is not None]
    if not left:
        return _nothing_of(header, keep_empty)
    first_tombstone = next((record.offset for record in left if record.value is None), -1)
    if horizon is None and first_tombstone >= newest.first_dirty_offset:
        horizon = min(now_ms + delete_retention_ms, _MAX_INT64)
    elif len(left) == header.record_count:
        return CleanedBatch(batch.raw, header.record_count)
    header = header._replace(
        attributes=header.attributes if horizon is None else header.attributes | _DELETE_HORIZON,
        base_timestamp=left[0].timestamp if horizon is None else horizon,
        max_timestamp=header.max_timestamp if header.is_log_append_time else max(each.timestamp for each in left),
    )
    return CleanedBatch(rewrite_batch(header, left), len(left))


def _copied(batch: SoundBatch, columns: RecordColumns, newest: OffsetMap, keep_empty: bool) -> CleanedBatch:
    """As :func:`cleaned_batch`, where all records have values and the same timestamp: those that are left stay as they
    are, if that is the base timestamp."""
    header = batch.header
    kept = newest.keeps(columns.keys, columns.offsets)
    count = sum(kept)
    if not count:
        return _nothing_of(header, keep_empty)
    if count == header.record_count:
        return CleanedBatch(batch.raw, count)
    if columns.timestamp == header.base_timestamp:
        return CleanedBatch(
            rewrite_framed(header._replace(max_timestamp=columns.timestamp), count, columns.framed(kept)), count
        )
    header = header._replace(base_timestamp=columns.timestamp, max_timestamp=columns.timestamp)
    return CleanedBatch(rewrite_batch(header, list(compress(columns, kept))), count)


def _nothing_of(header: BatchHeader, keep_empty: bool) -> CleanedBatch:
    return CleanedBatch(_empty_batch(header) if keep_empty else b"", 0)


def cleaned_marker(
    batch: SoundBatch,
    newest: OffsetMap,
    seen: TransactionsSeen,
    now_ms: int,
    delete_retention_ms: int,
    *,
    keep_empty: bool,
) -> CleanedBatch:
    """As :func:`cleaned_batch`, of a control batch. Those before it have been ``seen`` as they are in the log, not as
    this round leaves them: so a marker goes only when the last record of its transaction has gone for good.

    One that says a position goes only when the map has a newer one: a round over a stretch without any leaves them all.
    """
    header = batch.header
    ended = transaction_of(batch)
    has_records = ended is not None and seen.ended(ended.producer)
    if header.next_offset > newest.end_offset or has_records:
        return CleanedBatch(batch.raw, header.record_count)
    if ended is not None:
        if ended.position is not None and newest.newest_end(ended.producer.followed) <= header.base_offset:
            return CleanedBatch(batch.raw, header.record_count)
        if header.delete_horizon is None:
            horizon = min(now_ms + delete_retention_ms, _MAX_INT64)
            marked = header._replace(attributes=header.attributes | _DELETE_HORIZON, base_timestamp=horizon)
            return CleanedBatch(rewrite_batch(marked, batch.records), header.record_count)
        if now_ms < header.delete_horizon:
            return CleanedBatch(batch.raw, header.record_count)
    return _nothing_of(header, keep_empty)


def _empty_batch(header: BatchHeader) -> bytes:
    """A batch without records that spans the same offsets, and is of no transaction."""
    empty = header._replace(
        attributes=header.attributes & ~(_DELETE_HORIZON | _TRANSACTIONAL | _CONTROL), base_timestamp=NO_TIMESTAMP
    )
    if header.is_transactional:
        empty = empty._replace(producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH)
    return rewrite_batch(empty, ())
