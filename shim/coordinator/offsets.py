"""The offset table: the committed offset of every (group, topic, partition) of one offsets partition."""

from collections.abc import Iterator
from typing import NamedTuple


class CommittedOffset(NamedTuple):
    """A committed offset. `leader_epoch` is -1 when unknown; times are milliseconds since the epoch, -1 for none."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: int
    expire_timestamp: int = -1


class OffsetTable:
    """Committed offsets by group, topic and partition."""

    __slots__ = ("_groups",)

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, dict[int, CommittedOffset]]] = {}

    def get(self, group: str, topic: str, partition: int) -> CommittedOffset | None:
        """The committed offset, or None."""
        topics = self._groups.get(group)
        partitions = topics.get(topic) if topics is not None else None
        return partitions.get(partition) if partitions is not None else None

    def set(self, group: str, topic: str, partition: int, committed: CommittedOffset) -> None:
        """Keep the committed offset, in place of an earlier one."""
        self._groups.setdefault(group, {}).setdefault(topic, {})[partition] = committed

    def delete(self, group: str, topic: str, partition: int) -> None:
        """Forget the committed offset; nothing happens when there is none."""
        topics = self._groups.get(group)
        partitions = topics.get(topic) if topics is not None else None
        if topics is None or partitions is None or partitions.pop(partition, None) is None:
            return
        if not partitions:
            del topics[topic]
        if not topics:
            del self._groups[group]

    def topics(self, group: str) -> tuple[str, ...]:
        """The topics for which the group has an offset."""
        return tuple(self._groups.get(group, ()))

    def has_offsets(self, group: str) -> bool:
        """True when the group has any offset."""
        return group in self._groups

    def of_group(self, group: str) -> Iterator[tuple[str, int, CommittedOffset]]:
        """Every (topic, partition, committed offset) of the group; a topic's partitions follow one another."""
        for topic, partitions in self._groups.get(group, {}).items():
            for partition, committed in partitions.items():
                yield topic, partition, committed

    def __len__(self) -> int:
        return sum(len(partitions) for topics in self._groups.values() for partitions in topics.values())
