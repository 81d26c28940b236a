"""What was decided, as it is written to an offsets partition on a topic: plain records all, which a broker takes from
whoever writes there, and of which compaction keeps what is needed (:mod:`protocol.own.topic_log`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from protocol.offsets_log import OffsetCommitKey, decode_key, encode_key, encode_value
from protocol.own.position import Position, Producer, position_of
from protocol.own.record_sets import DroppingSet, EndOfTransaction, TransactionalSet
from protocol.own.topic_log import (
    PendingKey,
    Settled,
    encode_own,
    own_state,
    pending,
    pending_key,
    position_record,
    still_pending,
)
from protocol.records.batch_layout import HEADER_SIZE
from protocol.records.batches import encoded_size
from shim.runtime.flight import Batch, Record, RecordSet

SET_BYTES: Final = (16 << 20) - HEADER_SIZE
"""Of one record set that can be divided, so that a batch with it is no larger than the topic's
``max.message.bytes``."""


def topic_sets(batch: Batch, most_bytes: int = SET_BYTES) -> list[RecordSet]:
    """The record sets that say what ``batch`` says, each to be written whole, one after the other.

    There is one, but for the end of a transaction that is larger than ``most_bytes``: the last of its sets has the
    position. After a crash before that the marker is read again, and settles what is left.
    """
    match batch:
        case TransactionalSet():
            return [_pending(batch)]
        case EndOfTransaction():
            return list(_shares(_ended(batch), most_bytes))
        case DroppingSet():
            return [[*batch.records, *map(_tombstone, batch.dropped)]]
        case _:
            return [batch]


def state_sets(records: Iterable[Record], most_bytes: int = SET_BYTES) -> list[RecordSet]:
    """The record sets that say what these records of `__offset_shim_state` say: one, but for those that are larger than
    ``most_bytes``, which are notes of many offsets, each right by itself."""
    return list(_shares(([(own_state(key), value)] for key, value in records), most_bytes))


def _pending(batch: TransactionalSet) -> list[Record]:
    position, producer = _of(batch)
    records: list[Record] = []
    for raw_key, raw_value in batch.records:
        key = decode_key(raw_key)
        assert isinstance(key, OffsetCommitKey), "transactions commit offsets"
        assert raw_value is not None, "transactions delete nothing"
        records.append(encode_own(pending(producer, key, raw_value, batch.begun or position)))
    return [*records, encode_own(position_record(position))]


def _ended(batch: EndOfTransaction) -> Iterator[list[Record]]:
    """Records that belong into one set."""
    position, producer = _of(batch)
    for settled in batch.settled:
        yield [*_in_force(settled), _tombstone(pending_key(producer, settled.key))]
    yield [encode_own(position_record(position))]


def _in_force(settled: Settled) -> Iterator[Record]:
    key, value, later = settled
    if value is not None:
        yield encode_key(key), encode_value(value)
        for each in later:
            yield encode_own(still_pending(key, each))


def _tombstone(key: PendingKey) -> Record:
    return encode_own((key, None))


def _of(batch: TransactionalSet | EndOfTransaction) -> tuple[Position, Producer]:
    position = position_of(batch.headers)
    assert position is not None, "what was taken over has its position"
    return position, Producer(position.partition, batch.producer_id)


def _shares(groups: Iterable[list[Record]], most_bytes: int) -> Iterator[list[Record]]:
    """The groups one after the other, as many in each share as fit."""
    share: list[Record] = []
    room = most_bytes
    for group in groups:
        size = encoded_size(group)
        if share and size > room:
            yield share
            share, room = [], most_bytes
        share += group
        room -= size
    yield share
