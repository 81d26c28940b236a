"""What a batch has to do with transactions: in which it is, which it ends, what of that may be in this log."""

from __future__ import annotations

from typing import Final

from protocol.own.position import Producer, position_of
from protocol.own.record_sets import InTransaction
from protocol.records.batches import (
    ControlRecordType,
    CorruptBatch,
    Record,
    control_record_type,
    end_transaction_marker,
)
from shim.log.segments.segment import SoundBatch

NO_PARTITION = -1
OF_TRANSACTIONS: Final = 0x30
"""The batch attributes that say that it is transactional, and of control records."""


def transaction_of(batch: SoundBatch) -> InTransaction | None:
    """None for a batch outside of transactions, and for one without records.

    To be called for a batch that is not :func:`foreign <why_foreign>`.
    """
    header = batch.header
    if not header.is_transactional or not batch.records:
        return None
    first = batch.records[0]
    position = position_of(first.headers)
    committed = _ends(first) is ControlRecordType.COMMIT if header.is_control else None
    producer = Producer(position.partition if position is not None else NO_PARTITION, header.producer_id)
    return InTransaction(producer, header.producer_epoch, committed, position)


def why_foreign(batch: SoundBatch) -> str | None:
    """What a batch is that brokers write, and this log does not; None for one that may be in here."""
    header = batch.header
    if not header.attributes & OF_TRANSACTIONS:
        return None
    if header.is_transactional and header.producer_id < 0:
        return "a transactional batch without a producer"
    if not header.is_control:
        return None
    if not header.is_transactional or len(batch.records) > 1:
        return "a control batch that ends no transaction"
    for record in batch.records:
        try:
            if _ends(record) is None:
                return f"a control batch of type {control_record_type(record)}"
            end_transaction_marker(record)
        except CorruptBatch as corrupt:
            return f"a control batch: {corrupt.reason}"
    return None


def _ends(record: Record) -> ControlRecordType | None:
    found = control_record_type(record)
    return next((each for each in (ControlRecordType.ABORT, ControlRecordType.COMMIT) if each == found), None)
