"""The offset table: the committed offset of every (group, topic, partition) of one offsets partition.

At 16 million entries (1,000 groups, 160 topics, 100 partitions, no metadata) an entry takes less than 32 bytes, all
included; `python -m benchmarks.log memory` measures that and less dense shapes.
"""

import sys
from collections.abc import Callable, Iterator, KeysView
from struct import Struct
from typing import Final

from protocol.commit_rows import CommitRows
from protocol.offsets_log import CommittedOffset
from shim.coordinator.state.dump_reader import DumpReader
from shim.coordinator.state.topic_offsets import TopicOffsets

# Magic, version, number of groups, number of entries.
_HEAD: Final = Struct("<4sHIQ")
_MAGIC: Final = b"OFTB"
_VERSION: Final = 1
_LENGTH: Final = Struct("<I")


class OffsetTable:
    """Committed offsets by group, topic and partition (any int32)."""

    __slots__ = ("_count", "_dumping", "_groups", "_topics")

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, TopicOffsets]] = {}
        self._topics: dict[str, int] = {}  # how many groups have an offset for it
        self._count = 0
        self._dumping: TableDump | None = None

    def get(self, group: str, topic: str, partition: int) -> CommittedOffset | None:
        """The committed offset, or None."""
        topics = self._groups.get(group)
        offsets = topics.get(topic) if topics is not None else None
        return offsets.get(partition) if offsets is not None else None

    def of_topic(self, group: str, topic: str) -> TopicOffsets | None:
        """The group's offsets for the topic, to be looked at only, and until the next one is set or deleted."""
        topics = self._groups.get(group)
        return topics.get(topic) if topics is not None else None

    def set(self, group: str, topic: str, partition: int, committed: CommittedOffset) -> None:
        """Keep the committed offset, in place of an earlier one.

        Raises ValueError or struct.error, with nothing changed, for a number that its type on the wire cannot hold.
        """
        if self._dumping is not None:
            self._dumping.keep(group)
        topics = self._groups.get(group)
        offsets = topics.get(topic) if topics is not None else None
        if offsets is not None:
            self._count += offsets.set(partition, committed)
            return
        offsets = TopicOffsets()
        self._count += offsets.set(partition, committed)
        # One string a topic, however many groups (in other offsets partitions, too) have offsets for it.
        topic = sys.intern(topic)
        self._groups.setdefault(group, {})[topic] = offsets
        self._topics[topic] = self._topics.get(topic, 0) + 1

    def set_rows(self, group: str, topic: str, rows: CommitRows, commit_timestamp: int) -> None:
        """:meth:`set` for each row, without metadata and expire timestamp."""
        topics = self._groups.get(group)
        offsets = topics.get(topic) if topics is not None else None
        if offsets is None:
            for partition, offset, leader_epoch in rows.values():
                self.set(group, topic, partition, CommittedOffset(offset, leader_epoch, "", commit_timestamp))
            return
        if self._dumping is not None:
            self._dumping.keep(group)
        self._count += offsets.set_rows(rows, commit_timestamp)

    def delete(self, group: str, topic: str, partition: int) -> None:
        """Forget the committed offset; nothing happens when there is none."""
        if self._dumping is not None:
            self._dumping.keep(group)
        topics = self._groups.get(group)
        offsets = topics.get(topic) if topics is not None else None
        if topics is None or offsets is None or not offsets.delete(partition):
            return
        self._count -= 1
        if not offsets:
            del topics[topic]
            self._topics[topic] -= 1
            if not self._topics[topic]:
                del self._topics[topic]
        if not topics:
            del self._groups[group]

    def topics(self, group: str) -> tuple[str, ...]:
        """The topics for which the group has an offset, in order of first appearance."""
        return tuple(self._groups.get(group, ()))

    def partitions(self, group: str, topic: str) -> list[int]:
        """The partitions of the topic for which the group has an offset, by number."""
        offsets = self._groups.get(group, {}).get(topic)
        return offsets.partitions() if offsets is not None else []

    def has_expire_timestamps(self, group: str, topic: str) -> bool:
        """Whether any offset of the group for the topic has one."""
        offsets = self._groups.get(group, {}).get(topic)
        return offsets is not None and offsets.has_expire_timestamps

    def has_offsets(self, group: str) -> bool:
        """True when the group has any offset."""
        return group in self._groups

    def of_group(self, group: str) -> Iterator[tuple[str, int, CommittedOffset]]:
        """Every (topic, partition, committed offset) of the group.

        Topics come in order of first appearance, a topic's partitions one after the other by number. Nothing of the
        group may be set or deleted meanwhile.
        """
        for topic, offsets in self._groups.get(group, {}).items():
            for partition, committed in offsets:
                yield topic, partition, committed

    def __len__(self) -> int:
        return self._count

    def groups(self) -> KeysView[str]:
        """The groups that have any offset."""
        return self._groups.keys()

    def all_topics(self) -> KeysView[str]:
        """The topics for which any group has an offset."""
        return self._topics.keys()

    def dump(self) -> list[bytes]:
        """The whole table as bytes, in pieces that belong one after the other; see :meth:`begin_dump`."""
        dump = TableDump(self._groups, self._count)
        while dump.step():
            pass
        return dump.pieces()

    def begin_dump(self) -> "TableDump":
        """A dump of the table as it is now, made in steps; what is set or deleted between them does not show.

        One at a time: the dump that was begun before is brought to its end, unless it was given up.
        """
        while self._dumping is not None and self._dumping.step():
            pass
        self._dumping = TableDump(self._groups, self._count)
        return self._dumping

    @classmethod
    def restore(cls, raw: bytes | bytearray | memoryview, check: Callable[[], None] = lambda: None) -> "OffsetTable":
        """The table of which `raw` is the dump, all pieces joined. Raises DecodeError for anything else, and what
        `check` raises, which is called for each group.
        """
        dump = DumpReader(raw)
        magic, version, num_groups, count = dump.unpack(_HEAD)
        if (magic, version) != (_MAGIC, _VERSION):
            dump.fail(f"no dump of version {_VERSION}: {magic!r}, version {version}")
        table = cls()
        for _ in range(num_groups):
            check()
            group, num_topics = dump.name(), dump.unpack(_LENGTH)[0]
            if group in table._groups or not num_topics:
                dump.fail("a group twice, or without a topic")
            topics = table._groups[group] = {}
            for _ in range(num_topics):
                topic = sys.intern(dump.name())
                if topic in topics:
                    dump.fail("a topic twice")
                topics[topic] = offsets = TopicOffsets.restore(dump)
                table._topics[topic] = table._topics.get(topic, 0) + 1
                table._count += len(offsets)
        dump.end()
        if table._count != count:
            dump.fail(f"{table._count} offsets instead of {count}")
        return table


class TableDump:
    """A dump in the making, a group at a time.

    Nothing in the bytes tells whether one of them was changed; a checksum is for whoever keeps them.
    """

    __slots__ = ("_done", "_given_up", "_head", "_names", "_pending")

    def __init__(self, groups: dict[str, dict[str, TopicOffsets]], count: int) -> None:
        self._head = _HEAD.pack(_MAGIC, _VERSION, len(groups), count)
        self._pending = dict(groups)
        self._done = dict.fromkeys(groups, b"")  # in the table's order
        self._names: dict[str, bytes] = {}
        self._given_up = False

    def give_up(self) -> None:
        """Nobody will ask for the pieces: no step does anything any more, and nothing is left here."""
        self._given_up = True
        self._pending, self._done, self._names = {}, {}, {}

    def step(self) -> bool:
        """Dump one more group. False when there is none left."""
        if self._pending:
            self._keep(*self._pending.popitem())
        return bool(self._pending)

    def keep(self, group: str) -> None:
        """The group is about to be changed: if it is not dumped yet, it is dumped now."""
        topics = self._pending.pop(group, None)
        if topics is not None:
            self._keep(group, topics)

    def _keep(self, group: str, topics: dict[str, TopicOffsets]) -> None:
        names = self._names
        pieces = [_name(group), _LENGTH.pack(len(topics))]
        for topic, offsets in topics.items():
            name = names.get(topic)
            if name is None:
                name = names[topic] = _name(topic)
            pieces += (name, offsets.dump())
        self._done[group] = b"".join(pieces)

    def pieces(self) -> list[bytes]:
        """All of it, in pieces that belong one after the other. Once, after the last step: nothing is left here."""
        if self._pending or self._given_up:
            raise RuntimeError("the dump is not at its end")
        done, self._done = self._done, {}
        return [self._head, *done.values()]


def _name(text: str) -> bytes:
    raw = text.encode("utf-8", "surrogatepass")
    return _LENGTH.pack(len(raw)) + raw
