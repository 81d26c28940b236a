"""Offsets that were loaded and are not written over what the cluster has: it has later ones of the same group, so
somebody has committed there while no shim had it, and which are right is for people to say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import Final

from shim.log.checkpoint import TopicPartition
from shim.migration.compared import beside, differing, some_of
from shim.migration.mirror.alarms import Alarms
from shim.offsets.cluster.groups import Committed
from shim.offsets.store import Partition

_OTHERS: Final = (
    "the cluster has other offsets than were loaded here, and keeps them: {}; somebody has committed there while no "
    "shim had the group, see docs/migration.md, Coming back"
)


class Held:
    """For the event loop. The first look at a group after its partition was loaded decides. Of one of which any offset
    is further on in the cluster all are held that differ: those that are there alone, or were set back there, were
    committed there, too. What is committed here from then on is not.

    Times are commit timestamps, in ms.
    """

    def __init__(self) -> None:
        self._loaded_at: dict[int, int] = {}
        self._seen: dict[int, set[str]] = {}
        self._held: dict[str, Mapping[TopicPartition, int | None]] = {}
        self._alarms = Alarms()

    def loaded(self, number: int, now: int) -> None:
        """The partition of groups, from what was durable."""
        self._loaded_at[number] = now
        self._seen[number] = set()

    def of(
        self, number: int, group: str, own: Committed, times: Mapping[Partition, int], there: Committed
    ) -> Set[TopicPartition]:
        """Those of which nothing is to be written or deleted in the cluster. ``times``: of ``own``."""
        seen = self._seen.setdefault(number, set())
        if group not in seen:
            seen.add(group)
            self._look(group, own, times, there, self._loaded_at.get(number, 0))
        held = self._held.get(group)
        if held is None:
            return frozenset()
        differ = set(differing(own, there))
        # One that has expired here, or was deleted, was not committed.
        left = {at: time for at, time in held.items() if at in differ and times.get(at, time) == time}
        if not left:
            self.forget(group)
            return frozenset()
        self._held[group] = left
        self._alarms.saw(group, _OTHERS.format(some_of(beside(own, there, left))))
        return left.keys()

    def _look(
        self, group: str, own: Committed, times: Mapping[Partition, int], there: Committed, loaded_at: int
    ) -> None:
        held = {at: times.get(at) for at in differing(own, there) if times.get(at, -1) < loaded_at}
        if any(there[at].offset > own[at].offset for at in held if at in own and at in there):
            self._held[group] = held

    def __iter__(self) -> Iterator[str]:
        """Groups."""
        return iter(self._held)

    def alarm(self, group: str) -> str:
        """What somebody should look at; "" where nothing is held."""
        return self._alarms.line(group)

    def forget(self, group: str) -> None:
        """Nothing of it is held any more."""
        self._held.pop(group, None)
        self._alarms.over(group)
