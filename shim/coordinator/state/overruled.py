"""Offsets that transactions had pending, and that a later record here has overtaken or deleted.

They do not come into force then, as at a broker. But the cluster has them pending, too, and nothing of that record:
whoever keeps the cluster's own offsets has to tell it, before the transaction ends there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

Partition = tuple[str, int]


class Overruled(NamedTuple):
    """``at``: rises from one to the next. ``offsets``: what was pending."""

    at: int
    offsets: frozenset[int]


class OverruledOffsets:
    """Of one offsets partition, by group, topic and partition, until somebody has brought them to the cluster.
    ``most``: so many partitions; of those beyond it is not known."""

    __slots__ = ("_count", "_groups", "_most", "_noted")

    def __init__(self, most: int = 100_000) -> None:
        self._groups: dict[str, dict[Partition, Overruled]] = {}
        self._most = most
        self._count = 0
        self._noted = 0

    def note(self, group: str, partition: Partition, offsets: frozenset[int]) -> None:
        """A commit or a deletion of that partition has come behind these."""
        before = self._groups.get(group, {}).get(partition)
        if before is None and self._count >= self._most:
            return
        self._count += before is None
        self._noted += 1
        noted = Overruled(self._noted, offsets if before is None else offsets | before.offsets)
        self._groups.setdefault(group, {})[partition] = noted

    def of(self, group: str) -> Mapping[Partition, Overruled]:
        """A copy."""
        return dict(self._groups.get(group, {}))

    def brought(self, group: str, those: Mapping[Partition, Overruled]) -> None:
        """``those``: as :meth:`of` gave them; what has been noted since is left."""
        its = self._groups.get(group, {})
        for partition, each in those.items():
            if its.get(partition) == each:
                del its[partition]
                self._count -= 1
        if not its:
            self._groups.pop(group, None)

    def forget(self, group: str) -> None:
        """The cluster's own are right, of that one."""
        self._count -= len(self._groups.pop(group, {}))

    def clear(self) -> None:
        self._groups.clear()
        self._count = 0
