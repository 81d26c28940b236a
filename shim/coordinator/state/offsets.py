"""The offsets that the records of a log make: those that are committed, and those of transactions that have not ended.

This is the one place that says what a record does to an offset. The coordinator goes by it as it decides and as it
recovers, and so does whoever reads a log at rest.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set
from typing import Any, Final

from protocol.commit_rows import CommitRows
from protocol.offsets_log import CommittedOffset, OffsetCommitKey, OffsetCommitValue
from protocol.own.position import Position, Producer
from protocol.own.topic_log import Settled
from shim.coordinator.state.offset_table import OffsetTable
from shim.coordinator.state.overruled import OverruledOffsets
from shim.coordinator.state.transactions import Transactions

_new: Final[Any] = tuple.__new__  # it skips the constructors of named tuples


class Before:
    """Of some groups, and of each offset that a commit has changed since they were put in here, what was committed
    there before the first one; None for nothing. Whoever puts groups in takes them away.

    What a transaction has put in force since is not a change, nor is a deletion. ``most``: so many offsets; of those
    beyond it is not known that they have changed.
    """

    __slots__ = ("_room", "groups")

    def __init__(self, most: int = 100_000) -> None:
        self.groups: dict[str, dict[tuple[str, int], CommittedOffset | None]] = {}
        self._room = most

    def add(self, group: str) -> None:
        self.groups.setdefault(group, {})

    def take(self, group: str) -> Mapping[tuple[str, int], CommittedOffset | None]:
        """It is asked about no more."""
        before = self.groups.pop(group, {})
        self._room += len(before)
        return before

    def note(self, group: str, topic: str, partition: int, committed: OffsetTable) -> None:
        """It is about to be changed."""
        before = self.groups[group]
        if self._room and (topic, partition) not in before:
            before[topic, partition] = committed.get(group, topic, partition)
            self._room -= 1

    def leave_out(self, group: str, topic: str, partition: int) -> None:
        """A transaction has put something in force there."""
        before = self.groups[group]
        if (topic, partition) in before:
            del before[topic, partition]
            self._room += 1


class Moved:
    """Of some groups, the offsets that have become others since somebody took them from here, whatever they are by now:
    nothing else tells of an offset that has gone on and come back. The same once more is no move, nor is a deletion
    of something, which is there to be seen."""

    def __init__(self) -> None:
        self.groups: dict[str, set[tuple[str, int]]] = {}

    def add(self, group: str) -> None:
        """From now on."""
        self.groups[group] = set()

    def forget(self, group: str) -> None:
        self.groups.pop(group, None)

    def take(self, group: str) -> Set[tuple[str, int]]:
        """By topic and partition."""
        moved = self.of(group)
        if moved:
            self.add(group)
        return moved

    def of(self, group: str) -> Set[tuple[str, int]]:
        """As :meth:`take`, and leave them here."""
        return self.groups.get(group, frozenset())

    def note(self, group: str, topic: str, partition: int, offset: int, committed: OffsetTable) -> None:
        """That is about to be committed."""
        before = committed.get(group, topic, partition)
        if before is None or before.offset != offset:
            self.groups[group].add((topic, partition))

    def leave_out(self, group: str, topic: str, partition: int) -> None:
        """It has what it was to be told of."""
        if group in self.groups:
            self.groups[group].discard((topic, partition))


class Offsets:
    """Of one offsets partition, or of several. To be looked at from outside, and changed by records."""

    __slots__ = ("before", "committed", "in_force", "moved", "overruled", "touched", "transactions")

    def __init__(self) -> None:
        self.committed = OffsetTable()
        self.transactions = Transactions()
        self.overruled = OverruledOffsets()
        self.touched: dict[str, None] = {}
        """Groups whose committed offsets have changed, in that order, until somebody has taken them from here."""
        self.before = Before()
        self.moved = Moved()
        self.in_force: dict[str, None] = {}
        """Groups of which transactions have put something in force. For nobody, as ``before`` and ``moved`` are, until
        somebody's own takes its place."""

    def note_deleted(self, group: str, topic: str, partition: int) -> None:
        """Somebody has deleted it, and there was none, or a pending one alone. Nothing else tells of that, and it is a
        move all the same: it is to be looked for now, so that what is written later is not taken for older."""
        if group in self.moved.groups:
            self.moved.groups[group].add((topic, partition))
            self.touched[group] = None

    # -- records

    def commit(self, key: OffsetCommitKey, value: OffsetCommitValue) -> None:
        """A record outside of transactions: it wins over what is pending, however that ends."""
        if self.transactions.pending:
            self._overtake(key)
        if key.group in self.before.groups:
            self.before.note(key.group, key.topic, key.partition, self.committed)
        self._set(key, value)

    def commit_rows(self, group: str, topic: str, rows: CommitRows, commit_timestamp: int) -> None:
        """:meth:`commit` for each row, without metadata and expire timestamp."""
        if self.transactions.pending:
            for partition, _, _ in rows.values():
                self._overtake(OffsetCommitKey(group, topic, partition))
        self.touched[group] = None
        if group in self.before.groups:
            for partition, _, _ in rows.values():
                self.before.note(group, topic, partition, self.committed)
        if group in self.moved.groups:
            for partition, offset, _ in rows.values():
                self.moved.note(group, topic, partition, offset, self.committed)
        self.committed.set_rows(group, topic, rows, commit_timestamp)

    def delete(self, key: OffsetCommitKey) -> None:
        """A tombstone: it takes what is pending, too."""
        self.touched[key.group] = None
        if key.group in self.moved.groups and self.committed.get(key.group, key.topic, key.partition) is None:
            self.note_deleted(key.group, key.topic, key.partition)
        self.committed.delete(key.group, key.topic, key.partition)
        if self.transactions.pending and (dropped := self.transactions.forget(key)) is not None:
            self.overruled.note(key.group, (key.topic, key.partition), dropped)

    def _overtake(self, key: OffsetCommitKey) -> None:
        if overtaken := self.transactions.overtake(key):
            self.overruled.note(key.group, (key.topic, key.partition), overtaken)

    def add_pending(
        self,
        producer: Producer,
        position: Position | None,
        key: OffsetCommitKey,
        value: OffsetCommitValue,
    ) -> None:
        """A record of a transaction."""
        self.transactions.taken_over(position)
        self.transactions.add(producer, key, value, position)

    def end(self, producer: Producer, position: Position | None, *, committed: bool) -> list[Settled]:
        """A marker. Gives what was pending, and what has become of it."""
        self.transactions.taken_over(position)
        settled = self.transactions.end(producer, committed=committed)
        for key, value, _ in settled:
            if value is not None:
                if key.group in self.before.groups:
                    self.before.leave_out(key.group, key.topic, key.partition)
                self.in_force[key.group] = None
                self._set(key, value)
        return settled

    def settle(self, producer: Producer, key: OffsetCommitKey) -> None:
        """The tombstone of what is pending: on a topic, where its transaction has ended, or it was deleted.

        What compaction has left does not say which. Where nothing is committed it may have been deleted.
        """
        was_pending = self.transactions.settle(producer, key)
        its = self.committed.get(key.group, key.topic, key.partition)
        if its is None:
            if not was_pending:
                self.overruled.note(key.group, (key.topic, key.partition), frozenset())
        elif was_pending:
            self.overruled.came_into_force(key.group, (key.topic, key.partition), its.offset)

    def _set(self, key: OffsetCommitKey, value: OffsetCommitValue) -> None:
        self.touched[key.group] = None
        if key.group in self.moved.groups:
            self.moved.note(key.group, key.topic, key.partition, value.offset, self.committed)
        self.committed.set(key.group, key.topic, key.partition, committed_offset(value))

    # -- committed or pending

    def has_group(self, group: str) -> bool:
        return self.committed.has_offsets(group) or self.transactions.has_group(group)

    def groups(self) -> list[str]:
        return list(dict.fromkeys((*self.committed.groups(), *self.transactions.groups())))

    def topics(self) -> set[str]:
        return {*self.committed.all_topics(), *self.transactions.topics()}

    def has(self, group: str, topic: str, partition: int) -> bool:
        return self.committed.get(group, topic, partition) is not None or (
            (topic, partition) in self.transactions.of_group(group)
        )

    def partitions(self, group: str, topic: str) -> list[int]:
        """Of one topic of the group's, each once."""
        pending = [partition for each, partition in self.transactions.of_group(group) if each == topic]
        return list(dict.fromkeys((*self.committed.partitions(group, topic), *pending)))

    def by_topic(self, group: str) -> Mapping[str, Collection[int]]:
        """The partitions of each topic of the group's."""
        found = {
            topic: dict.fromkeys(self.committed.partitions(group, topic)) for topic in self.committed.topics(group)
        }
        for topic, partition in self.transactions.of_group(group):
            found.setdefault(topic, {})[partition] = None
        return found


def committed_offset(value: OffsetCommitValue) -> CommittedOffset:
    """What a record's value commits."""
    offset, leader_epoch, metadata, commit_timestamp, expire_timestamp, _, _ = value
    committed: CommittedOffset = _new(
        CommittedOffset, (offset, leader_epoch, metadata, commit_timestamp, expire_timestamp)
    )
    return committed
