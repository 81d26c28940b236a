"""What the mirror keeps in mind of groups, until it has no more to do with them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Set
from typing import Final, Protocol, TypeVar

from protocol.own.state_log import ZOOKEEPER_IS_RIGHT
from protocol.topic_partition import TopicPartition
from shim.coordinator import GroupCoordinator
from shim.migration.mirror.contested import Contested
from shim.migration.mirror.held import Held
from shim.migration.mirror.in_force import of_others
from shim.migration.mirror.last_written import Written
from shim.offsets.cluster.groups import Committed
from shim.upstream.errors import ARRIVES_WITHIN_SECONDS

_What = TypeVar("_What")


class _OfGroups(Protocol):
    """Something of each of these groups."""

    def __iter__(self) -> Iterator[str]: ...

    def forget(self, group: str) -> None: ...


class ByGroup(dict[str, _What]):
    def forget(self, group: str) -> None:
        self.pop(group, None)


class InMind:
    """``written``: what was written last, or found there. ``contested``, ``held``: see there. ``nowhere``: the offsets
    that the cluster had no partition for, when it was last given them. ``again``: groups that are to have another turn,
    as a transaction has put something in force there, which the log has yet to read, with when that was seen;
    ``in_force_here``: those of which the log has read it since their last turn began, so that the cluster may have
    something else than was written last."""

    def __init__(self) -> None:
        self.written = Written()
        self.contested = Contested()
        self.held = Held()
        self.nowhere = ByGroup[Set[TopicPartition]]()
        self.again = ByGroup[float]()
        self.in_force_here = ByGroup[None]()
        self._unanswered = ByGroup[float]()
        self._all: Final[tuple[_OfGroups, ...]] = (
            self._unanswered,
            self.nowhere,
            self.contested,
            self.again,
            self.in_force_here,
            self.held,
            self.written,
        )

    def __iter__(self) -> Iterator[str]:
        """Groups, each once or more."""
        for each in self._all:
            yield from each

    def forget(self, group: str) -> None:
        for each in self._all:
            each.forget(group)

    def unanswered(self, group: str) -> None:
        """Something was sent to the cluster that may be done there yet: its connection is broken off, and what of it
        is on its way arrives soon, or never."""
        self._unanswered[group] = time.monotonic() + ARRIVES_WITHIN_SECONDS

    def may_arrive_seconds(self, group: str) -> float:
        """For how long yet; 0.0 for nothing."""
        return max(0.0, self._unanswered.get(group, 0.0) - time.monotonic())

    def look(self, coordinator: GroupCoordinator, group: str, own: Committed, there: Committed) -> None:
        """``there``: what the cluster has answered just now, after ``own`` was read. Nothing is held where
        another place says what is right. Raises StoreUnavailable."""
        if self.held.is_due(group):
            holds = coordinator.step_of(group) not in ZOOKEEPER_IS_RIGHT
            loaded = self.held.as_loaded(group, own)
            self.held.look(group, own, of_others(coordinator, group, loaded, there), holds=holds)
