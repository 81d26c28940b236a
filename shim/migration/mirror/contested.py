"""Groups that the cluster has not taken a turn of: what was committed there by others until it does, as the guard does
not look at offsets of a group that waits. They have members there, or the cluster was out of reach.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Set
from typing import Final

from protocol.topic_partition import TopicPartition
from shim.migration.compared import further_on
from shim.migration.mirror.last_written import Written
from shim.offsets.cluster.groups import Committed

_SENT_LAST: Final = 8
"""So many offsets of a partition are known to be the shim's that were sent and may have arrived;"""
_HAD_LAST: Final = 8
"""and so many that a transaction may have put in force here and there."""


class _Contest:
    __slots__ = ("had", "had_transaction", "sent", "theirs")

    def __init__(self) -> None:
        self.sent: dict[TopicPartition, deque[int]] = {}
        self.had: dict[TopicPartition, tuple[int, ...]] = {}
        """Apart from what was sent, so that it pushes out none of that."""
        self.had_transaction = False
        self.theirs: Committed = {}
        """What was seen there since, and may be others'."""


class Contested:
    """For the event loop. A group is kept in mind until it is written, whatever a turn fails of meanwhile: what a write
    has done that was not answered nobody knows, and then it cannot be seen there any more."""

    def __init__(self) -> None:
        self._contests: dict[str, _Contest] = {}
        self._in_use: set[str] = set()
        self._written = Written()
        """What the cluster had of the shim before."""

    @property
    def in_use(self) -> Set[str]:
        """Those of them that have members there, as far as is known."""
        return self._in_use

    def __contains__(self, group: str) -> bool:
        return group in self._contests

    def __iter__(self) -> Iterator[str]:
        return iter(self._contests)

    def failed(self, group: str, written: Committed | None, sent: Committed, *, in_use: bool = False) -> None:
        """A turn of it has. ``written``: what the cluster had of the shim before; where that is not known nobody can
        tell who has written what is there, and others' is only what members have, with ``in_use``. ``sent``: what may
        be there of the shim by now."""
        if group not in self._contests:
            if written is None and not in_use:
                return
            self._contests[group] = _Contest()
            self._written.update(group, written or {}, ())
        if in_use:
            self._in_use.add(group)
        contest = self._contests[group]
        for at, its in sent.items():
            contest.sent.setdefault(at, deque(maxlen=_SENT_LAST)).append(its.offset)

    def had(self, group: str, own: Committed | None) -> None:
        """Where its contest is on: what the shim has of it by now, which a transaction may have put in force there,
        too. None while one is open: from then on others' is only what members have, as it may have been one of many."""
        contest = self._contests.get(group)
        if contest is None:
            return
        if own is None:
            contest.had_transaction = True
            return
        written = self._written.get(group) or {}
        for at, its in own.items():
            had = contest.had.get(at, ())
            if its.offset != _offset(written, at) and its.offset not in had:
                contest.had[at] = (*had, its.offset)[-_HAD_LAST:]

    def saw(self, group: str, own: Committed, there: Committed, partitions: Iterable[TopicPartition]) -> None:
        """``partitions``: those that are about to be written. Others' is what is further on there than here, or there
        alone, and was not written by the shim."""
        contest = self._contests.get(group)
        written = self._written.get(group)
        if contest is None:
            return
        is_known = written is not None and not contest.had_transaction  # there may have been no room for it
        if not is_known and group not in self._in_use:
            return
        for at in further_on(own, there, partitions):
            its = there[at]
            if its.offset in contest.sent.get(at, ()) or its.offset in contest.had.get(at, ()):
                # It has arrived, and stays the shim's whatever is sent yet.
                self._written.update(group, {at: its}, ())
            elif _offset(written or {}, at) != its.offset:
                contest.theirs[at] = its

    def written(self, group: str, own: Committed) -> Committed:
        """The contest is over: the cluster has ``own``. Gives what of others' is written over."""
        contest = self._contests.get(group)
        self.forget(group)
        theirs = {} if contest is None else contest.theirs
        return {at: its for at, its in theirs.items() if _offset(own, at) != its.offset}

    def forget(self, group: str) -> None:
        self._contests.pop(group, None)
        self._in_use.discard(group)
        self._written.forget(group)


def _offset(offsets: Committed, at: TopicPartition) -> int | None:
    return offsets[at].offset if at in offsets else None
