"""Record sets into batches. Touches no file."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, cast

from protocol.own.record_sets import Appended, DroppingSet, EndOfTransaction, RecordSet, Runs, TransactionalSet
from protocol.records.batches import (
    ControlRecordType,
    EndTransactionMarker,
    Record,
    encode_end_transaction,
    encode_records,
    encoded_size,
    frame_records,
    framed_batch,
    read_header,
)
from protocol.records.record_runs import frame_runs, runs_size
from shim.counted import counted

MAX_BATCH_BYTES: Final = 1 << 20
"""Record sets share a batch up to this size (about a broker's ``message.max.bytes``); a larger one is alone."""

MAX_RECORD_SET_BYTES: Final = 100 << 20
"""A larger record set is refused (its ``encoded_size``); the default of ``offsets.topic.segment.bytes``."""

_new: Final[Any] = tuple.__new__  # it skips the constructors of named tuples


class PreparedBatch(NamedTuple):
    """A batch as it goes to the disk, and what its header says. ``max_timestamp``: milliseconds since the epoch."""

    data: bytes
    base_offset: int
    next_offset: int
    max_timestamp: int
    crc: int


def prepare_batches(offset: int, appended: Sequence[Appended], timestamp_ms: int) -> list[PreparedBatch]:
    """Batches that hold what is appended from ``offset`` on, in that order; none when there are no records.

    Raises OSError (EMSGSIZE) for a record set beyond MAX_RECORD_SET_BYTES, ValueError for an impossible timestamp.
    """
    if _PLAIN.issuperset(map(type, appended)):  # the rule, and what follows is the same with others among them
        return _plain_batches(offset, cast("Sequence[RecordSet | Runs]", appended), timestamp_ms)
    batches: list[PreparedBatch] = []
    plain: list[RecordSet | Runs] = []
    for each in appended:
        if not isinstance(each, _ALONE):
            plain.append(each.records if isinstance(each, DroppingSet) else each)
            continue
        batches += _plain_batches(offset, plain, timestamp_ms)
        plain = []
        offset = batches[-1].next_offset if batches else offset
        batches.append(_alone(offset, each, timestamp_ms))
        offset = batches[-1].next_offset
    batches += _plain_batches(offset, plain, timestamp_ms)
    return batches


_ALONE: Final = (TransactionalSet, EndOfTransaction)
_PLAIN: Final = frozenset((list, Runs))
_TRANSACTIONAL: Final = 0x10  # the batch attribute


def _alone(offset: int, each: TransactionalSet | EndOfTransaction, timestamp_ms: int) -> PreparedBatch:
    data = _encoded(offset, each, timestamp_ms)
    header = read_header(data)
    return PreparedBatch(data, offset, header.next_offset, header.max_timestamp, header.crc)


def _encoded(offset: int, each: TransactionalSet | EndOfTransaction, timestamp_ms: int) -> bytes:
    if isinstance(each, EndOfTransaction):
        marker = EndTransactionMarker(
            ControlRecordType.COMMIT if each.committed else ControlRecordType.ABORT, each.coordinator_epoch
        )
        producer_id, epoch = each.producer_id, each.producer_epoch
        return encode_end_transaction(
            offset, marker, timestamp_ms, producer_id=producer_id, producer_epoch=epoch, headers=each.headers
        )
    _check_size(len(each.records), encoded_size(each.records))
    records = [
        Record(key, value, each.headers, timestamp_ms, offset + delta)
        for delta, (key, value) in enumerate(each.records)
    ]
    return encode_records(
        records, attributes=_TRANSACTIONAL, producer_id=each.producer_id, producer_epoch=each.producer_epoch
    )


def _plain_batches(offset: int, record_sets: Sequence[RecordSet | Runs], timestamp_ms: int) -> list[PreparedBatch]:
    batches = []
    parts: list[bytes | bytearray] = []
    most = count = 0  # bytes, and records, of the parts
    for each in record_sets:
        if isinstance(each, Runs):
            records = each.total
            most_of_set = runs_size(each.runs, records)
        else:
            records = len(each)
            most_of_set = encoded_size(each)
        most += most_of_set
        if most > MAX_BATCH_BYTES:  # as it is where the set alone is too large
            _check_size(records, most_of_set)
            if count:
                batches.append(_plain_batch(offset, count, parts, timestamp_ms))
                offset += count
                parts, count = [], 0
            most = most_of_set
        if isinstance(each, Runs):
            count = frame_runs(each.runs, parts, count)
        else:
            frame_records(each, parts, count)
            count += records
    if count:
        batches.append(_plain_batch(offset, count, parts, timestamp_ms))
    return batches


def _plain_batch(offset: int, count: int, parts: list[bytes | bytearray], timestamp_ms: int) -> PreparedBatch:
    data, crc = framed_batch(offset, count, parts, timestamp_ms)
    made: PreparedBatch = _new(PreparedBatch, (data, offset, offset + count, timestamp_ms, crc))
    return made


def _check_size(records: int, most: int) -> None:
    if most > MAX_RECORD_SET_BYTES:
        reason = f"{counted(records, 'record')} of one request: {most} bytes, {MAX_RECORD_SET_BYTES} are allowed"
        raise OSError(errno.EMSGSIZE, reason)
