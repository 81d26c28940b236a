"""Record sets into batches. Touches no file."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from protocol.own.position import Header, Position
from protocol.own.topic_log import PendingKey, Settled
from protocol.records.batches import (
    BatchHeader,
    ControlRecordType,
    EndTransactionMarker,
    Record,
    encode_end_transaction,
    encode_framed,
    encode_records,
    encoded_size,
    frame_records,
    read_header,
)
from protocol.records.record_runs import Run, frame_runs, runs_size

MAX_BATCH_BYTES: Final = 1 << 20
"""Record sets share a batch up to this size (about a broker's ``message.max.bytes``); a larger one is alone."""

MAX_RECORD_SET_BYTES: Final = 100 << 20
"""A larger record set is refused (its ``encoded_size``); the default of ``offsets.topic.segment.bytes``."""

RecordSet = Sequence[tuple[bytes, bytes | None]]
"""(key, value) pairs that are recovered all together or not at all; value None is a tombstone."""


class Runs(NamedTuple):
    """A record set of records that are framed many at once, and how many they are."""

    runs: Sequence[Run]
    records: int


class TransactionalSet(NamedTuple):
    """A record set of a producer's transaction: a transactional batch by itself. Each record gets the headers, as
    compaction may leave any of them."""

    producer_id: int
    producer_epoch: int
    records: RecordSet
    headers: tuple[Header, ...] = ()
    begun: Position | None = None
    """See :class:`shim.coordinator.TransactionBatch`; of no use here, where the first batch says so itself."""


class EndOfTransaction(NamedTuple):
    """The marker that ends a producer's transaction in the partition: a control batch by itself."""

    producer_id: int
    producer_epoch: int
    committed: bool
    coordinator_epoch: int
    headers: tuple[Header, ...] = ()
    settled: Sequence[Settled] = ()
    """What it makes of the records before it; of no use here, where those stay as long as it does."""


class DroppingSet(NamedTuple):
    """A record set with tombstones that take what is pending in transactions, too. ``dropped``: that, of no use here,
    where a tombstone does so for as long as there is a record before it."""

    records: RecordSet
    dropped: Sequence[PendingKey]


Appended: TypeAlias = RecordSet | Runs | TransactionalSet | EndOfTransaction | DroppingSet


class PreparedBatch(NamedTuple):
    """A batch as it goes to the disk."""

    data: bytes
    header: BatchHeader


def prepare_batches(offset: int, appended: Sequence[Appended], timestamp_ms: int) -> list[PreparedBatch]:
    """Batches that hold what is appended from ``offset`` on, in that order; none when there are no records.

    Raises OSError (EMSGSIZE) for a record set beyond MAX_RECORD_SET_BYTES, ValueError for an impossible timestamp.
    """
    batches: list[PreparedBatch] = []
    plain: list[RecordSet | Runs] = []
    for each in appended:
        if not isinstance(each, _ALONE):
            plain.append(each.records if isinstance(each, DroppingSet) else each)
            continue
        batches += _plain_batches(offset, plain, timestamp_ms)
        plain = []
        offset = batches[-1].header.next_offset if batches else offset
        data = _alone(offset, each, timestamp_ms)
        batches.append(PreparedBatch(data, read_header(data)))
        offset = batches[-1].header.next_offset
    batches += _plain_batches(offset, plain, timestamp_ms)
    return batches


_ALONE: Final = (TransactionalSet, EndOfTransaction)
_TRANSACTIONAL: Final = 0x10  # the batch attribute


def _alone(offset: int, each: TransactionalSet | EndOfTransaction, timestamp_ms: int) -> bytes:
    if isinstance(each, EndOfTransaction):
        marker = EndTransactionMarker(
            ControlRecordType.COMMIT if each.committed else ControlRecordType.ABORT, each.coordinator_epoch
        )
        producer_id, epoch = each.producer_id, each.producer_epoch
        return encode_end_transaction(
            offset, marker, timestamp_ms, producer_id=producer_id, producer_epoch=epoch, headers=each.headers
        )
    _check_size(each.records)
    records = [
        Record(key, value, each.headers, timestamp_ms, offset + delta)
        for delta, (key, value) in enumerate(each.records)
    ]
    return encode_records(
        records, attributes=_TRANSACTIONAL, producer_id=each.producer_id, producer_epoch=each.producer_epoch
    )


def _plain_batches(offset: int, record_sets: Sequence[RecordSet | Runs], timestamp_ms: int) -> list[PreparedBatch]:
    batches = []
    shares = [record_sets] if sum(map(_size, record_sets)) <= MAX_BATCH_BYTES else _shares(record_sets)
    for share in shares:
        count = 0
        parts: list[bytes | bytearray] = []
        for each in share:
            if isinstance(each, Runs):
                count = frame_runs(each.runs, parts, count)
            else:
                frame_records(each, parts, count)
                count += len(each)
        if count:
            data = encode_framed(offset, count, parts, timestamp_ms)
            offset += count
            batches.append(PreparedBatch(data, read_header(data)))
    return batches


def _shares(record_sets: Sequence[RecordSet | Runs]) -> Iterator[list[RecordSet | Runs]]:
    share: list[RecordSet | Runs] = []
    share_size = 0
    for record_set in record_sets:
        size = _check_size(record_set)
        if share and share_size + size > MAX_BATCH_BYTES:
            yield share
            share, share_size = [], 0
        share.append(record_set)
        share_size += size
    if share:
        yield share


def _size(record_set: RecordSet | Runs) -> int:
    """An upper bound of the bytes that it takes in a batch."""
    if isinstance(record_set, Runs):
        return runs_size(record_set.runs)
    return encoded_size(record_set)


def _check_size(record_set: RecordSet | Runs) -> int:
    size = _size(record_set)
    if size > MAX_RECORD_SET_BYTES:
        count = record_set.records if isinstance(record_set, Runs) else len(record_set)
        reason = f"{count} records of one request: {size} bytes, {MAX_RECORD_SET_BYTES} are allowed"
        raise OSError(errno.EMSGSIZE, reason)
    return size
