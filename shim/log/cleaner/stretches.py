"""Stretches of segments: what was read for the offset map need not be read again where nothing of it is left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from shim.log.cleaner.offset_map import OffsetMap
from shim.log.segments.segment import Segment, SoundBatch
from shim.log.segments.transactions import OF_TRANSACTIONS

_SIZE: Final = 1 << 16
"""Bytes: shorter ones are not told apart."""


class Stretch(NamedTuple):
    """Batches in a row, from byte ``position`` to byte ``end`` of a closed segment, and from ``offset`` to
    ``next_offset``, with so many ``records``; ``is_plain``: all of them are outside of transactions."""

    position: int
    end: int
    offset: int
    next_offset: int
    records: int
    is_plain: bool

    @classmethod
    def whole(cls, segment: Segment) -> Stretch:
        """All of a segment, of which nothing is known."""
        return cls(0, segment.size, segment.base_offset, segment.next_offset, 0, False)


class SegmentWalk:
    """The stretches of one segment, as its batches come by."""

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self._stretches: list[Stretch] = []
        self._begin(0, segment.base_offset)

    def _begin(self, position: int, offset: int) -> None:
        self._position, self._offset = position, offset
        self._records = self._attributes = 0

    def passed(self, batch: SoundBatch) -> None:
        header = batch.header
        self._records += header.record_count
        self._attributes |= header.attributes
        if batch.end - self._position >= _SIZE:
            is_plain = not self._attributes & OF_TRANSACTIONS
            next_offset = header.next_offset
            self._stretches.append(
                Stretch(self._position, batch.end, self._offset, next_offset, self._records, is_plain)
            )
            self._begin(batch.end, next_offset)

    def ended(self) -> list[Stretch]:
        """All that have come by, and what is behind them."""
        segment = self._segment
        if self._position == segment.size:
            return self._stretches
        rest = Stretch(self._position, segment.size, self._offset, segment.next_offset, 0, False)
        return [*self._stretches, rest]


def divided(stretches: Sequence[Stretch], newest: OffsetMap, end_offset: int) -> Iterator[tuple[Stretch, bool]]:
    """These of one segment, and of each whether something may be left of it; neighbours of which that is true are one.

    Something is left of what ends at ``end_offset``, and of what has to do with transactions.
    """
    unread: Stretch | None = None
    for each in stretches:
        if each.is_plain and each.next_offset != end_offset and newest.supersedes_all(each.offset, each.next_offset):
            if unread is not None:
                yield unread, True
                unread = None
            yield each, False
        elif unread is None:
            unread = each
        else:
            unread = unread._replace(
                end=each.end, next_offset=each.next_offset, records=unread.records + each.records, is_plain=False
            )
    if unread is not None:
        yield unread, True
