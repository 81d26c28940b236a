"""One turn of a group's outbox: the cluster is given what the log has, where it has something else."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Set
from contextlib import contextmanager

from protocol.own.state_log import Hands
from protocol.topic_partition import TopicPartition
from shim.coordinator import GroupCoordinator
from shim.counted import counted, some_of
from shim.migration.compared import differing
from shim.migration.mirror.held import tell_written_over
from shim.migration.mirror.in_force import in_force_there, of_others
from shim.migration.mirror.in_mind import InMind
from shim.migration.own_offsets import NotReadable, own_offsets
from shim.offsets.cluster.groups import Committed
from shim.offsets.cluster.store import ClusterStore
from shim.offsets.store import GroupInUse, StoreError, StoreUnanswered, StoreUnavailable
from shim.runtime import Runtime

log = logging.getLogger(__name__)

Blocked = Callable[[Iterable[str]], Collection[str]]
"""Which of these topics may be other ones by now."""

WrittenOver = Callable[[str, Committed, Committed], None]
"""Told of a group, of what has been written of it, and of what others had committed in the cluster."""


class MirrorTurn:
    """For the event loop, and once. ``coordinator``: that of the group, which is read back, or another process's, if it
    is not the runtime's any more."""

    def __init__(
        self,
        group: str,
        coordinator: GroupCoordinator,
        runtime: Runtime,
        cluster: ClusterStore,
        in_mind: InMind,
        blocked: Blocked,
        written_over: WrittenOver,
    ) -> None:
        self._group = group
        self._coordinator = coordinator
        self._runtime = runtime
        self._cluster = cluster
        self._in_mind = in_mind
        self._blocked = blocked
        self._written_over = written_over
        self._sent: Committed = {}
        """To the cluster, by now."""
        self._reads = False
        """What the cluster has, whatever was written last."""

    async def take(self) -> None:
        """Raises :class:`StoreError`."""
        group, coordinator = self._group, self._coordinator
        self._in_mind.again.forget(group)
        if coordinator.hands_of(group) is not Hands.SERVED:
            self._in_mind.written.forget(group)
            self._in_mind.contested.forget(group)
            self._in_mind.in_force_here.forget(group)
            return
        try:
            own = own_offsets(coordinator, group)
        except NotReadable as error:
            raise StoreUnavailable(str(error)) from error
        _tell_left_out(coordinator)
        overruled = coordinator.overruled(group)
        with self._remembering(own):
            number = self._runtime.partition_of(group)
            await self._runtime.settled(number)
            self._check_ours()
            if overruled:  # it may have come into force there all the same
                self._in_mind.written.forget(group)
            await self._bring(own, {TopicPartition(*at) for at in overruled})
        coordinator.overruled_there(group, overruled)

    @contextmanager
    def _remembering(self, own: Committed) -> Iterator[None]:
        """``own``: what the log has.

        What the cluster has after a failure nobody knows; nor while a transaction is open, whose offsets come into
        force there by themselves, or lose to what is written meanwhile. After one that has ended it is read; where that
        fails, what was written before it tells yet what is others'."""
        group, coordinator = self._group, self._coordinator
        written, contested = self._in_mind.written, self._in_mind.contested
        self._reads = group in self._in_mind.in_force_here
        self._in_mind.in_force_here.forget(group)
        if coordinator.has_pending(group):
            written.forget(group)
            contested.had(group, None)
        try:
            yield
        except BaseException as error:  # broken off, too
            if isinstance(error, StoreError):
                contested.failed(group, written.get(group), self._sent, in_use=isinstance(error, GroupInUse))
                contested.had(group, None if coordinator.has_pending(group) else own)
            written.forget(group)
            if isinstance(error, (StoreUnanswered, asyncio.CancelledError)):
                self._in_mind.unanswered(group)
            raise
        contested.forget(group)
        if coordinator.has_pending(group):
            written.forget(group)

    async def _bring(self, own: Committed, overruled: Set[TopicPartition]) -> None:
        """``overruled``: where the cluster is told what the log has, or that it has nothing, though it seems to be as
        there: what is pending is not seen before it is in force."""
        group, coordinator, its = self._group, self._coordinator, self._in_mind
        there = None if self._reads else its.written.get(group)
        newer: Set[TopicPartition] = frozenset()
        if there is None:
            there = (await self._cluster.offsets_of({group: own}))[group]
            newer = in_force_there(coordinator, group, own, there)
        its.look(coordinator, group, own, there)
        changed, gone = its.held.to_bring(group, own, there)
        alike = overruled - set(differing(own, there))
        changed |= {at: own[at] for at in alike & own.keys()}
        gone += sorted(alike - own.keys())
        blocked = self._of_blocked(changed)
        if blocked:
            changed = {at: each for at, each in changed.items() if at not in blocked}
        if newer:
            # The log has yet to read that the transaction has ended. If it was another one that has, there is a turn.
            its.again[group] = time.monotonic()
            changed = {at: each for at, each in changed.items() if at not in newer}
            gone = [at for at in gone if at not in newer]
        if group in its.contested:
            its.contested.saw(group, own, of_others(coordinator, group, own, there), (*changed, *gone))
        if not self._is_served:
            its.written.forget(group)
            return
        if changed:
            self._sent = changed
            nowhere = await self._cluster.commit(group, changed, self._check_ours)
            its.nowhere[group] = (its.nowhere.get(group, frozenset()) - changed.keys() | nowhere) & own.keys()
        if gone:
            await self._cluster.delete(group, gone, self._check_ours)
        if blocked:
            # The rest is there. Of a topic that is gone the offsets are deleted here, and of one that is not they are
            # brought when that is known: until then the cluster is behind, and who waits for it is told so.
            raise _may_be_others(blocked)
        if theirs := its.contested.written(group, own):
            tell_written_over(group, own, theirs, theirs)
            self._written_over(group, own, theirs)
        if self._reads or not self._is_served:
            its.written.forget(group)
        if group in its.written:
            its.written.update(group, changed, gone)
        elif self._is_served:
            its.written.update(group, {at: each for at, each in (there | changed).items() if at not in gone}, ())

    def _check_ours(self) -> None:
        """Raises StoreUnavailable where the cluster's coordinator may have it by now, or another process, which has
        acknowledged more; and where what is sent may be of a topic that is gone."""
        if not self._is_served:
            raise StoreUnavailable(
                f"group {self._group}: its partition is read back: what was not acknowledged may not be there"
            )
        if blocked := self._of_blocked(self._sent):
            raise _may_be_others(blocked)

    def _of_blocked(self, offsets: Committed) -> Set[TopicPartition]:
        """Those for topics that may be other ones by now: there they would be the new one's."""
        topics = self._blocked(at.topic for at in offsets)
        return {at for at in offsets if at.topic in topics} if topics else frozenset()

    @property
    def _is_served(self) -> bool:
        current = self._runtime.coordinator_of(self._group)
        return current is self._coordinator and self._coordinator.hands_of(self._group) is Hands.SERVED


def _may_be_others(offsets: Collection[TopicPartition]) -> StoreUnavailable:
    return StoreUnavailable(f"the topic may be another one by now: {some_of(sorted({at.topic for at in offsets}))}")


def _tell_left_out(coordinator: GroupCoordinator) -> None:
    left_out = coordinator.take_left_out()
    if left_out is not None:
        log.error(
            "a later commit or deletion here has overruled what transactions have pending of %s, of group %s among "
            "others, and too many wait for the cluster to be told: there these may come into force when their "
            "transactions end; look then at `migrate verify`",
            counted(left_out.partitions, "offset"),
            left_out.group,
        )
