"""The newest offset of every key, and how transactions ended, in the part of a log that was never cleaned."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import islice, repeat
from operator import itemgetter, le
from sys import getsizeof
from typing import Final, NamedTuple

from protocol.own.position import Producer
from protocol.records.batches import BatchHeader, Record
from protocol.records.record_columns import RecordColumns
from shim.log.segments.segment import SoundBatch
from shim.log.segments.transactions import transaction_of

_ENTRY_SIZE: Final = 152
"""Bytes that a key takes in an :class:`OffsetMap` besides its own object: at most 90 in the dict while it grows (the
old table and the new), 32 for the offset, 8 in the sorted ones, up to 15 by which the allocator rounds the key up."""


class OffsetMap:
    """The newest offset of every key in a stretch of the log, in about ``max_bytes`` of memory.

    By the key itself, where Kafka has a digest of 16 bytes: a digest would be an object here, too, so it would save a
    quarter of the memory at most, and taking it costs more than the look-up does. And keys do not collide.
    """

    def __init__(self, first_dirty_offset: int, max_bytes: int) -> None:
        self._newest: dict[bytes | None, int] = {}
        self.first_dirty_offset = first_dirty_offset
        self._max_bytes = max_bytes
        self.size_bytes = 0
        self.end_offset = first_dirty_offset
        """Up to here the log is in the map: the end of a batch."""
        self._kept: list[int] = []
        self._open: dict[Producer, _Open] = {}
        self._aborted: set[int] = set()

    def __len__(self) -> int:
        return len(self._newest)

    @property
    def is_full(self) -> bool:
        """It takes no further batch. Never before the first, so that each round of cleaning gets on."""
        return self.size_bytes >= self._max_bytes

    def add(self, batch: SoundBatch) -> None:
        """The batches of the log in their order. One that is added to a map not full is added whole."""
        newest, records, first = self._newest, batch.records, self.first_dirty_offset
        self.end_offset = batch.header.next_offset
        if batch.header.is_transactional:
            self._add_transactional(batch)
            return
        before = len(newest)
        if batch.header.base_offset < first:
            records = [record for record in records if record.offset >= first]
        if type(records) is RecordColumns:
            for key, offset in zip(records.keys, records.offsets, strict=True):
                newest[key] = offset
        else:
            for key, _, _, _, offset in records:
                newest[key] = offset
        if added := len(newest) - before:  # a dict has its newest keys at the end
            self.size_bytes += added * _ENTRY_SIZE + sum(map(getsizeof, islice(reversed(newest), added)))

    def _add_transactional(self, batch: SoundBatch) -> None:
        if batch.header.is_control:
            self.end_transaction(batch)
        elif (transaction := transaction_of(batch)) is not None:
            held = self._open.setdefault(transaction.producer, _Open([], []))
            held.batches.append(batch.header.base_offset)
            held.records.extend((record.key, record.offset) for record in batch.records)
            self.size_bytes += sum(_ENTRY_SIZE + getsizeof(record.key) for record in batch.records)

    @property
    def has_open(self) -> bool:
        """Whether the end of a transaction is still to be found. It is worth looking for when the map is full, too."""
        return bool(self._open)

    def end_transaction(self, batch: SoundBatch) -> None:
        """A control batch, which takes up next to nothing."""
        ended = transaction_of(batch)
        if ended is None:
            return
        newest = self._newest
        if ended.position is not None and batch.header.next_offset <= self.end_offset:
            newest[_position_key(ended.producer.followed)] = batch.header.base_offset
        held = self._open.pop(ended.producer, None)
        if held is not None and not ended.committed:
            self._aborted.update(held.batches)
        elif held is not None:
            for key, offset in held.records:
                newest[key] = max(offset, newest.get(key, -1))

    @property
    def first_open(self) -> tuple[Producer, int] | None:
        """The transaction that begins first of those whose end is still to be found, and its first batch's offset."""
        return min(((key, held.batches[0]) for key, held in self._open.items()), key=itemgetter(1), default=None)

    def complete(self) -> None:
        """To be called when nothing is added any more, and before all that follows."""
        self.end_offset = min([self.end_offset, *(held.batches[0] for held in self._open.values())])
        self._kept = sorted(self._newest.values())

    def records_kept(self, records: Iterable[Record]) -> list[Record]:
        """Those of which the map has no newer one."""
        newest_offset = self._newest.get
        return [record for record in records if newest_offset(record.key, -1) <= record.offset]

    def keeps(self, keys: Sequence[bytes | None], offsets: Sequence[int]) -> list[bool]:
        """Whether it would keep the records that have these, of each."""
        return list(map(le, map(self._newest.get, keys, repeat(-1)), offsets))

    def newest_end(self, followed: int) -> int:
        """The offset of the newest marker that says how far this partition has been followed; -1 if there is none."""
        return self._newest.get(_position_key(followed), -1)

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether a batch is one of a transaction that was aborted."""
        return header.base_offset in self._aborted

    def supersedes(self, header: BatchHeader) -> bool:
        """Whether the map has newer records of all the keys in a batch: then nobody needs to read it again.

        Never of a batch in a transaction: who it is of stands in its records.
        """
        return not header.is_transactional and self.supersedes_all(header.base_offset, header.next_offset)

    def supersedes_all(self, offset: int, next_offset: int) -> bool:
        """Likewise of batches from that offset to that, which are in no transaction."""
        if not self.first_dirty_offset <= offset <= next_offset <= self.end_offset:
            return False
        at = bisect_left(self._kept, offset)
        return at == len(self._kept) or self._kept[at] >= next_offset


class _Open(NamedTuple):
    """Of a transaction: base offsets of its batches, key and offset of its records."""

    batches: list[int]
    records: list[tuple[bytes | None, int]]


def _position_key(followed: int) -> bytes:
    """A key of no record: those of `__consumer_offsets` begin with a type that is not negative."""
    return b"\xff\xff" + followed.to_bytes(4, "big", signed=True)
