"""What the records of an offsets partition have made, as what would make it anew, in whatever log; and what differs
between two of it.

Of a log that was compacted not more is left than this: a group of which nothing is there, and a transaction of which
nothing is pending, are not in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any, NamedTuple

from protocol.offsets_log import (
    CommittedOffset,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from protocol.own.position import Position, Producer
from protocol.own.state_log import GroupHandsValue, WrittenKey, WrittenValue
from shim.coordinator.state.partition_state import PartitionState


class PendingOffset(NamedTuple):
    """``begun``: where its transaction began, if that is known."""

    producer: Producer
    key: OffsetCommitKey
    value: OffsetCommitValue
    begun: Position | None


class Contents:
    """Of a partition about which nothing is decided meanwhile. Each part comes in an order of its own."""

    def __init__(self, state: PartitionState) -> None:
        self._state = state
        self._transactions = state.offsets.transactions

    @property
    def is_empty(self) -> bool:
        """Whether no record is needed to make it."""
        return next(self._items(), None) is None

    def groups(self) -> Iterator[tuple[GroupMetadataKey, GroupMetadataValue]]:
        """But for those that have offsets alone."""
        recorded = self._state.recorded
        for name in sorted(recorded):
            if (value := recorded[name]) is not None:
                yield GroupMetadataKey(name), value

    def group_ids(self) -> list[str]:
        """Of which there is a record, or was one."""
        return sorted(self._state.recorded)

    def offsets(self) -> Iterator[tuple[OffsetCommitKey, OffsetCommitValue]]:
        """Those that are committed."""
        committed = self._state.offsets.committed
        for group in sorted(committed.groups()):
            for topic in sorted(committed.topics(group)):
                of_topic = committed.of_topic(group, topic)
                for partition, offset in of_topic or ():
                    yield OffsetCommitKey(group, topic, partition), _value(offset)

    def overtaken(self) -> Iterator[PendingOffset]:
        """Offsets that are pending, though a committed one has won, however their transactions end. They have the value
        of that. Raises ValueError where there is none: nobody would have won."""
        for producer in sorted(self._transactions.pending):
            for key, pending in sorted(self._transactions.pending[producer].items(), key=lambda each: each[0]):
                if pending.value is None:
                    won = self._state.offsets.committed.get(key.group, key.topic, key.partition)
                    if won is None:
                        raise ValueError(f"{key} is overtaken by nothing")
                    yield PendingOffset(producer, key, _value(won), self._transactions.begun(producer))

    def pending(self) -> list[PendingOffset]:
        """The others, in the order of their records."""
        found = [
            (each.written, PendingOffset(producer, key, each.value, self._transactions.begun(producer)))
            for producer, offsets in self._transactions.pending.items()
            for key, each in offsets.items()
            if each.value is not None
        ]
        return [pending for _, pending in sorted(found, key=lambda each: each[0])]

    def overruled(self) -> list[OffsetCommitKey]:
        """What the cluster has to be told of. There may be more of it in another log, which is no difference."""
        return sorted(self._state.offsets.overruled.keys())

    def open_transactions(self) -> list[Producer]:
        """Of which there are records and no end, also where nothing is pending any more."""
        return sorted(self._transactions.open_producers())

    @property
    def positions(self) -> Mapping[int, Position]:
        """By partition of the cluster's, how far that was taken over."""
        return self._transactions.positions

    @property
    def hands(self) -> Mapping[str, GroupHandsValue]:
        return self._state.hands

    def written(self) -> Iterator[tuple[WrittenKey, WrittenValue]]:
        for group in sorted(self._state.written):
            for (topic, partition), value in sorted(self._state.written[group].items(), key=lambda each: each[0]):
                yield WrittenKey(group, topic, partition), value

    def difference(self, other: Contents) -> str | None:
        """The first thing that is not the same in the other, in a line; None where there is none."""
        for its, others in zip_longest(self._items(), other._items()):
            if its != others:
                return f"{its!r} is {others!r} there"
        return None

    def _items(self) -> Iterator[tuple[Any, ...]]:
        """Each key with what it has; of what is pending of one offset the order counts, and no other."""
        yield from self.groups()
        yield from self.offsets()
        for overtaken in self.overtaken():
            yield "overtaken", overtaken.producer, overtaken.key, overtaken.begun
        in_order = sorted(self.pending(), key=lambda each: each.key)  # it leaves those of one key as they are
        yield from in_order
        yield from sorted(self.positions.items())
        yield from sorted(self.hands.items(), key=lambda each: each[0])
        yield from self.written()


def _value(committed: CommittedOffset) -> OffsetCommitValue:
    offset, leader_epoch, metadata, commit_timestamp, expire_timestamp = committed
    return OffsetCommitValue(offset, leader_epoch, metadata, commit_timestamp, expire_timestamp)
