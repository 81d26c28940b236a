"""The cluster's own offsets of groups that the shim serves, kept as they are in the log: without the shim each group
goes on where it stood, and tools that read the cluster's `__consumer_offsets` are right.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Set
from contextlib import asynccontextmanager, contextmanager
from typing import Final, Protocol, TypeVar

from protocol.own.state_log import ZOOKEEPER_IS_RIGHT, Hands
from shim.config import Settings
from shim.coordinator import GroupCoordinator
from shim.counted import counted
from shim.log.checkpoint import TopicPartition
from shim.migration.compared import differing
from shim.migration.mirror.comparison import Comparison
from shim.migration.mirror.contested import Contested
from shim.migration.mirror.held import Held, tell_written_over
from shim.migration.mirror.last_written import Written
from shim.migration.own_offsets import NotReadable, own_offsets
from shim.offsets.cluster.groups import ClusterGroups, Committed
from shim.offsets.cluster.store import ClusterStore
from shim.offsets.outbox import Outbox
from shim.offsets.store import GroupInUse, StoreError, StoreUnanswered, StoreUnavailable
from shim.runtime import Runtime
from shim.upstream.errors import ARRIVES_WITHIN_SECONDS

log = logging.getLogger(__name__)

_EVERY_SECONDS: Final = 1.0
_NOWHERE_SECONDS: Final = 60.0
_What = TypeVar("_What")

WrittenOver = Callable[[str, Committed, Committed], None]
"""Told of a group, of what has been written of it, and of what others had committed in the cluster."""


class _KeepsInMind(Protocol):
    """Something of each of these groups."""

    def __iter__(self) -> Iterator[str]: ...

    def forget(self, group: str) -> None: ...


class _ByGroup(dict[str, _What]):
    def forget(self, group: str) -> None:
        self.pop(group, None)


class Mirror:
    """For the event loop. Of what is committed in a second the last is written, once it is durable in the log.

    A turn of a group writes what differs from what was written last, or, where that is not known, from what the cluster
    has; a partition that is loaded has all its groups compared, so that a restart costs reads and not writes. With
    ``offsets.mirror.upstream=false`` only what is :meth:`fed` is written. What was loaded is not written over what
    somebody else has committed there (:class:`Held`).

    Whoever gives a group back to the cluster holds it :meth:`alone`: a write that is on its way there is executed
    before, and none comes after; but for one that was not answered (:meth:`may_arrive_seconds`).
    """

    def __init__(
        self,
        runtime: Runtime,
        cluster_groups: ClusterGroups,
        settings: Settings,
        *,
        every_seconds: float = _EVERY_SECONDS,
        nowhere_seconds: float = _NOWHERE_SECONDS,
    ) -> None:
        """``cluster_groups``: need have no patience, as what fails is tried again here. ``every_seconds``: how often
        those that were touched get a turn. ``nowhere_seconds``: how often it is tried again to write offsets that the
        cluster had no partition for."""
        self.written = Written()
        """What it has written last, or found there."""
        self._runtime = runtime
        self._cluster = ClusterStore(cluster_groups)
        self._mirrors = settings.offsets_mirror_upstream
        self._every_seconds = every_seconds
        self._nowhere_seconds = nowhere_seconds
        self._touched = _ByGroup[float]()
        self._unanswered = _ByGroup[float]()
        self._nowhere = _ByGroup[Set[TopicPartition]]()
        self._in_force_there = _ByGroup[None]()
        self._contested = Contested()
        self._watchers: list[WrittenOver] = []
        self._held = Held()
        self._outbox = Outbox("the cluster's own offsets", self._feed)
        # The outbox comes last: what waits for a turn is told then.
        of_groups: list[_KeepsInMind] = [self._touched, self._unanswered, self._nowhere, self._contested]
        of_groups.append(self._in_force_there)
        self._in_mind: Final = (*of_groups, self._held, self.written, self._outbox)
        self._comparison = Comparison(runtime, cluster_groups, self.written, self.waits, self.touched, self._look)
        runtime.watch(self._served)

    def watch(self, told: WrittenOver) -> None:
        """From now on."""
        self._watchers.append(told)

    def _served(self, number: int, coordinator: GroupCoordinator | None) -> None:
        """Or not any more. What is known of groups that another process has is not so any more when they come back."""
        if self._mirrors:
            self._comparison.served(number, coordinator)
            if coordinator is not None:
                self._held.loaded(number, (*coordinator.hands(), *coordinator.group_ids()))
                coordinator.keep_before(self._held.due)
        if coordinator is None and self._runtime.is_owned_elsewhere(number):
            self._held.given_up(number)
            groups = {group for each in self._in_mind for group in each}
            for group in groups:
                if self._runtime.partition_of(group) == number:
                    self.forget(group)

    def touched(self, groups: Iterable[str]) -> None:
        """Their offsets have changed, or may have; groups that are not served may be among them."""
        if self._mirrors:
            now = time.monotonic()
            for group in groups:
                self._touched.setdefault(group, now)

    @property
    def is_on(self) -> bool:
        """Whether all groups that are served are kept up to date."""
        return self._mirrors

    async def fed(self, group: str) -> None:
        """Wait until the cluster has what the log has by now, and have that done at once. Of a group that is not served
        nothing is written. Raises :class:`StoreError`."""
        self._give_turn(group)
        await self._outbox.fed(group)

    @asynccontextmanager
    async def alone(self, group: str) -> AsyncIterator[None]:
        """Nothing of the group is on its way to the cluster, or is sent, meanwhile."""
        async with self._outbox.alone(group):
            yield

    def lag_seconds(self, group: str) -> float | None:
        """Since when the oldest change that the cluster does not have waits; None where it has all."""
        touched, turn = self._touched.get(group), self._outbox.lag_seconds(group)
        return turn if touched is None else max(turn or 0.0, time.monotonic() - touched)

    def why(self, group: str) -> str:
        """What the last turn of the group has failed of; "" where it has not."""
        return self._outbox.why(group)

    @property
    def lagging(self) -> int:
        """Groups whose turn has come, and which the cluster does not have as they are."""
        return self._outbox.lagging

    @property
    def longest_lag_seconds(self) -> float:
        """Of all groups, whether their turn has come or not; 0 where nothing waits."""
        oldest = min(self._touched.values(), default=None)
        waiting = 0.0 if oldest is None else time.monotonic() - oldest
        return max(waiting, self._outbox.longest_lag_seconds)

    def waits(self, group: str) -> bool:
        """Whether a turn is under way, or is to be repeated."""
        return self._outbox.lag_seconds(group) is not None

    def is_compared(self, group: str) -> bool:
        """Whether what the cluster has of it has been looked at since it was loaded."""
        return group in self.written or self._comparison.is_compared(self._runtime.partition_of(group))

    def doubt(self, group: str) -> None:
        """Somebody else has written: what is there is to be compared, and put right."""
        self.written.forget(group)
        self.touched([group])

    @property
    def contested(self) -> Set[str]:
        """Groups that have members in the cluster, as far as is known: nothing can be written of them."""
        return self._contested.in_use

    def is_contested(self, group: str) -> bool:
        """Whether what others have committed to it there may be written over by its next turn, which tells that."""
        return group in self._contested

    def nowhere(self, group: str) -> Set[TopicPartition]:
        """Of the group's offsets those that the cluster has no partition for, when it was last given them."""
        return self._nowhere.get(group, frozenset())

    def try_nowhere(self, group: str) -> None:
        """Those may have come to be there: the group's next turn sends them once more."""
        if (nowhere := self.nowhere(group)) and group in self.written:
            self.written.update(group, {}, nowhere)
            self.touched([group])

    async def kept(self, group: str, own: Committed) -> str:
        """What the cluster keeps that the log has in another way, in a line; "" for nothing. ``own``: as the log has
        it by now. Raises StoreError."""
        coordinator = self._runtime.coordinator(self._runtime.partition_of(group))
        if coordinator is not None and self._held.is_open(group):
            there = (await self._cluster.offsets_of({group: own}))[group]
            self._look(coordinator, group, own, there)
            self._held.to_bring(group, own, there)
        return self._held.alarm(group)

    def taken_over(self, group: str) -> None:
        """From the cluster, a moment ago."""
        self._held.forget(group)

    def alarm(self, group: str) -> str:
        """As :meth:`kept`, of the last look."""
        return self._held.alarm(group)

    @property
    def alarmed(self) -> float:
        """How many groups have such an alarm."""
        return float(self._held.alarmed)

    def unanswered(self, group: str) -> None:
        """Something was sent to the cluster that may be done there yet: its connection is broken off, and what of it
        is on its way arrives soon, or never."""
        self._unanswered[group] = time.monotonic() + ARRIVES_WITHIN_SECONDS

    def may_arrive_seconds(self, group: str) -> float:
        """For how long yet; nobody else must commit to the group there before. 0.0 for nothing."""
        return max(0.0, self._unanswered.get(group, 0.0) - time.monotonic())

    def forget(self, group: str) -> None:
        """It is not the shim's any more."""
        for each in self._in_mind:
            each.forget(group)

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._comparison.run(), name="comparing with the cluster's own offsets")
            tasks.create_task(self._try_nowhere(), name="trying offsets that the cluster had no partition for")
            while True:
                self.touched(self._in_force_there)
                self._in_force_there.clear()
                for group in list(self._touched):
                    self._give_turn(group)
                await asyncio.sleep(self._every_seconds)

    async def _try_nowhere(self) -> None:
        while True:
            await asyncio.sleep(self._nowhere_seconds)  # the cluster tells nobody
            for group in list(self._nowhere):
                self.try_nowhere(group)

    async def drained(self) -> None:
        """Give turns to all that are touched by now, and to those that are found to differ meanwhile, and wait for
        them; what fails is tried once each time."""
        while True:
            for group in list(self._touched):
                self._give_turn(group)
            await self._outbox.drained()
            if not self._touched:
                return

    def close(self) -> None:
        self._outbox.close()

    # -- a turn

    def _give_turn(self, group: str) -> None:
        since = self._touched.pop(group, None)
        if since is not None:
            if group in self._contested:
                self._note_own(group)
            self._outbox.touch(group, since)

    def _note_own(self, group: str) -> None:
        """Of one that turns fail of, which come ever more seldom."""
        coordinator = self._runtime.coordinator(self._runtime.partition_of(group))
        if coordinator is not None:
            try:
                own = None if coordinator.has_pending(group) else own_offsets(coordinator, group)
            except NotReadable:  # so a transaction may be open that is not known yet
                own = None
            self._contested.had(group, own)

    async def _feed(self, group: str) -> None:
        number = self._runtime.partition_of(group)
        coordinator = self._runtime.coordinator(number)
        if coordinator is None:
            raise StoreUnavailable(f"group {group}: its partition is not loaded")
        if coordinator.hands_of(group) is not Hands.SERVED:
            self.written.forget(group)
            self._contested.forget(group)
            return
        try:
            own = own_offsets(coordinator, group)
        except NotReadable as error:
            raise StoreUnavailable(str(error)) from error
        _tell_left_out(coordinator)
        overruled = coordinator.overruled(group)
        with self._remembering(coordinator, group, own) as sent:
            await self._runtime.settled(number)
            if self._runtime.coordinator(number) is not coordinator:
                raise StoreUnavailable(
                    f"group {group}: its partition is read back: what was not acknowledged may not be there"
                )
            if overruled:  # it may have come into force there all the same
                self.written.forget(group)
            await self._bring(coordinator, group, own, {TopicPartition(*at) for at in overruled}, sent)
        coordinator.overruled_there(group, overruled)

    @contextmanager
    def _remembering(self, coordinator: GroupCoordinator, group: str, own: Committed) -> Iterator[Committed]:
        """Gives what is to be filled with what is sent to the cluster. ``own``: what the log has.

        What that has after a failure nobody knows; nor while a transaction is open, whose offsets come into force there
        by themselves, or lose to what is written meanwhile."""
        if coordinator.has_pending(group):
            self.written.forget(group)
            self._contested.had(group, None)
        sent: Committed = {}
        try:
            yield sent
        except BaseException as error:  # broken off, too
            if isinstance(error, StoreError):
                self._contested.failed(group, self.written.get(group), sent, in_use=isinstance(error, GroupInUse))
                self._contested.had(group, None if coordinator.has_pending(group) else own)
            self.written.forget(group)
            if isinstance(error, (StoreUnanswered, asyncio.CancelledError)):
                self.unanswered(group)
            raise
        self._contested.forget(group)
        if coordinator.has_pending(group):
            self.written.forget(group)

    async def _bring(
        self,
        coordinator: GroupCoordinator,
        group: str,
        own: Committed,
        overruled: Set[TopicPartition],
        sent: Committed,
    ) -> None:
        """``overruled``: where the cluster is told what the log has, or that it has nothing, though it seems to be as
        there: what is pending is not seen before it is in force."""
        there = self.written.get(group)
        newer: Set[TopicPartition] = frozenset()
        if there is None:
            there = (await self._cluster.offsets_of({group: own}))[group]
            newer = _in_force_there(coordinator, group, own, there)
        self._look(coordinator, group, own, there)
        changed, gone = self._held.to_bring(group, own, there)
        alike = overruled - set(differing(own, there))
        changed |= {at: own[at] for at in alike & own.keys()}
        gone += sorted(alike - own.keys())
        if newer:
            # The log has yet to read that the transaction has ended. If it was another one that has, there is a turn.
            self._in_force_there[group] = None
            changed = {at: its for at, its in changed.items() if at not in newer}
            gone = [at for at in gone if at not in newer]
        if group in self._contested:
            self._contested.saw(group, own, _of_others(coordinator, group, own, there), (*changed, *gone))
        is_served = self._is_served(coordinator, group)
        if changed and is_served:
            sent.update(changed)
            nowhere = await self._cluster.commit(group, changed)
            self._nowhere[group] = (self.nowhere(group) - changed.keys() | nowhere) & own.keys()
        if gone and self._is_served(coordinator, group):
            await self._cluster.delete(group, gone)
        if is_served and (theirs := self._contested.written(group, own)):
            tell_written_over(group, own, theirs, theirs)
            for told in self._watchers:
                told(group, own, theirs)
        if not self._is_served(coordinator, group):
            self.written.forget(group)
        elif group in self.written:
            self.written.update(group, changed, gone)
        else:
            self.written.update(group, {at: its for at, its in (there | changed).items() if at not in gone}, ())

    def _look(self, coordinator: GroupCoordinator, group: str, own: Committed, there: Committed) -> None:
        """``there``: what the cluster has answered just now, after ``own`` was read. Nothing is held where
        another place says what is right. Raises StoreUnavailable."""
        if self._held.is_due(group):
            holds = coordinator.step_of(group) not in ZOOKEEPER_IS_RIGHT
            loaded = self._held.as_loaded(group, own)
            self._held.look(group, own, _of_others(coordinator, group, loaded, there), holds=holds)

    def _is_served(self, coordinator: GroupCoordinator, group: str) -> bool:
        """Asked before each write: the cluster's coordinator may have it by now."""
        current = self._runtime.coordinator(self._runtime.partition_of(group))
        return current is coordinator and coordinator.hands_of(group) is Hands.SERVED


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


def _in_force_there(coordinator: GroupCoordinator, group: str, own: Committed, there: Committed) -> Set[TopicPartition]:
    """Where the log has something else than the cluster, and what that has is the log's by now, or pending here of a
    transaction. Raises StoreUnavailable."""
    ours = _ours(coordinator, group)
    return {
        at
        for at, its in there.items()
        if (at not in own or own[at].offset != its.offset) and (at.topic, at.partition, its.offset) in ours
    }


def _of_others(coordinator: GroupCoordinator, group: str, own: Committed, there: Committed) -> Committed:
    """``there``, but for what a transaction of the group has put in force there since ``own`` was read: the cluster's
    log says so here later; or has put in force there though it had been overruled here."""
    overruled = coordinator.overruled(group)
    ours = _ours(coordinator, group) | {(*at, offset) for at, each in overruled.items() for offset in each.offsets}
    others: Committed = {}
    for at, its in there.items():
        before = own.get(at)
        if (before is not None and before.offset == its.offset) or (at.topic, at.partition, its.offset) not in ours:
            others[at] = its
        elif before is not None:
            others[at] = before
    return others


def _ours(coordinator: GroupCoordinator, group: str) -> Set[tuple[str, int, int]]:
    """What the log has by now, and what is pending. Raises StoreUnavailable."""
    try:
        now = own_offsets(coordinator, group)
    except NotReadable as error:
        raise StoreUnavailable(str(error)) from error
    return {(at.topic, at.partition, its.offset) for at, its in now.items()} | coordinator.pending_offsets(group)
