"""Groups that have members in the cluster, where they cannot be written: what these have committed there by the time
that they can, as the guard does not look at offsets of a group that waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from typing import NamedTuple

from shim.log.checkpoint import TopicPartition
from shim.migration.compared import further_on
from shim.offsets.cluster.groups import Committed


class _Contest(NamedTuple):
    """``written``: what the shim had written before; ``theirs``: what was seen there since, and may be members'."""

    written: Committed
    theirs: Committed


class Contested:
    """For the event loop. A group is kept in mind until it is written, whatever a turn fails of meanwhile: what a write
    has done that was not answered nobody knows, and then it cannot be seen there any more."""

    def __init__(self) -> None:
        self._contests: dict[str, _Contest] = {}

    @property
    def groups(self) -> Set[str]:
        return self._contests.keys()

    def __iter__(self) -> Iterator[str]:
        return iter(self._contests)

    def in_use(self, group: str, written: Committed | None) -> None:
        """It has members there. ``written``: what the cluster had of the shim by then, where that is known."""
        if group not in self._contests:
            self._contests[group] = _Contest(written or {}, {})

    def saw(self, group: str, own: Committed, there: Committed, partitions: Iterable[TopicPartition]) -> None:
        """``partitions``: those that are about to be written. Members' is what is further on there than here, or there
        alone, and was not written by the shim."""
        contest = self._contests.get(group)
        if contest is not None:
            for at in further_on(own, there, partitions):
                if at not in contest.written or contest.written[at].offset != there[at].offset:
                    contest.theirs[at] = there[at]

    def written(self, group: str, own: Committed) -> Committed:
        """The contest is over: the cluster has ``own``. Gives what of members' is written over."""
        contest = self._contests.pop(group, None)
        theirs = {} if contest is None else contest.theirs
        return {at: its for at, its in theirs.items() if at not in own or own[at].offset != its.offset}

    def forget(self, group: str) -> None:
        self._contests.pop(group, None)
