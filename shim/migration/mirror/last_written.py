"""What the shim has written last of the cluster's own offsets, of as many groups as there is room for."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from protocol.topic_partition import TopicPartition
from shim.coordinator.state.offset_table import OffsetTable
from shim.offsets.cluster.groups import Committed

_MOST: Final = 1_000_000


class _Known(NamedTuple):
    offsets: int
    stamp: int


class Written:
    """``most``: so many offsets, and groups, in all; those go first that have had no turn for the longest time."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._table = OffsetTable()
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._stamps = 0

    def __contains__(self, group: str) -> bool:
        return group in self._known

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def get(self, group: str) -> Committed | None:
        """None where that is not known."""
        if group not in self._known:
            return None
        return {TopicPartition(topic, number): its for topic, number, its in self._table.of_group(group)}

    def count(self, group: str) -> int:
        """Its offsets."""
        return self._known[group].offsets if group in self._known else 0

    def stamp(self, group: str) -> int | None:
        """Another one whenever something else is known; None where nothing is."""
        return self._known[group].stamp if group in self._known else None

    def update(self, group: str, changed: Committed, gone: Collection[TopicPartition]) -> None:
        """Of a group of which nothing is known ``changed`` is all there is."""
        known = self._known.get(group)
        if known is None or changed or gone:
            before = len(self._table)
            for at, committed in changed.items():
                self._table.set(group, at.topic, at.partition, committed)
            for at in gone:
                self._table.delete(group, at.topic, at.partition)
            self._stamps += 1
            offsets = (known.offsets if known is not None else 0) + len(self._table) - before
            self._known[group] = _Known(offsets, self._stamps)
        self._known.move_to_end(group)
        while len(self._table) + len(self._known) > self._most:
            self.forget(next(iter(self._known)))

    def forget(self, group: str) -> None:
        if self._known.pop(group, None) is None:
            return
        for topic in self._table.topics(group):
            for number in self._table.partitions(group, topic):
                self._table.delete(group, topic, number)
