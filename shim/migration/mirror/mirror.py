"""The cluster's own offsets of groups that the shim serves, kept as they are in the log: without the shim each group
goes on where it stood, and tools that read the cluster's `__consumer_offsets` are right.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterable, Set
from contextlib import asynccontextmanager
from typing import Final

from protocol.topic_partition import TopicPartition
from shim.config import Settings
from shim.coordinator import GroupCoordinator
from shim.migration.mirror.comparison import Comparison
from shim.migration.mirror.in_mind import ByGroup, InMind
from shim.migration.mirror.last_written import Written
from shim.migration.mirror.turn import Blocked, MirrorTurn, WrittenOver
from shim.migration.own_offsets import NotReadable, own_offsets
from shim.offsets.cluster.groups import ClusterGroups, Committed
from shim.offsets.cluster.store import ClusterStore
from shim.offsets.outbox import Outbox
from shim.offsets.store import StoreUnavailable
from shim.runtime import Runtime

log = logging.getLogger(__name__)

_EVERY_SECONDS: Final = 1.0
_NOWHERE_SECONDS: Final = 60.0


class Mirror:
    """For the event loop. Of what is committed in a second the last is written, once it is durable in the log.

    A turn of a group writes what differs from what was written last, or, where that is not known, or a transaction of
    the group has ended since, from what the cluster has; a partition that is loaded has all its groups compared, so
    that a restart costs reads and not writes. With ``offsets.mirror.upstream=false`` only what is :meth:`fed` is
    written. What was loaded is not written over what somebody else has committed there
    (:class:`shim.migration.mirror.held.Held`).

    Whoever gives a group back to the cluster holds it :meth:`alone`: a write that is on its way there is executed
    before, and none comes after; but for one that was not answered (:meth:`may_arrive_seconds`).
    """

    def __init__(
        self,
        runtime: Runtime,
        cluster_groups: ClusterGroups,
        settings: Settings,
        blocked: Blocked,
        *,
        every_seconds: float = _EVERY_SECONDS,
        nowhere_seconds: float = _NOWHERE_SECONDS,
    ) -> None:
        """``cluster_groups``: need have no patience, as what fails is tried again here. ``blocked``: which of these
        topics may be other ones by now than those that offsets were committed for. ``every_seconds``: how often those
        that were touched get a turn. ``nowhere_seconds``: how often it is tried again to write offsets that the cluster
        had no partition for."""
        self._runtime = runtime
        self._cluster = ClusterStore(cluster_groups)
        self._mirrors = settings.offsets_mirror_upstream
        self._blocked = blocked
        self._every_seconds = every_seconds
        self._nowhere_seconds = nowhere_seconds
        self._touched = ByGroup[float]()
        self._in_mind = InMind()
        self._watchers: list[WrittenOver] = []
        self._outbox = Outbox("the cluster's own offsets", self._feed)
        self._comparison = Comparison(
            runtime, cluster_groups, self.written, self.waits, self.touched, self._in_mind.look
        )
        runtime.watch(self._served)

    @property
    def written(self) -> Written:
        """What it has written last, or found there."""
        return self._in_mind.written

    def watch(self, told: WrittenOver) -> None:
        """From now on."""
        self._watchers.append(told)

    def _served(self, number: int, coordinator: GroupCoordinator | None) -> None:
        """Or not any more. What is known of groups that another process has is not so any more when they come back."""
        if coordinator is not None:
            coordinator.note_in_force(self._in_mind.in_force_here)
            # Nobody may have been told of these before the partition was read back.
            self.touched(each for each in self._in_mind.in_force_here if self._runtime.partition_of(each) == number)
        if self._mirrors:
            self._comparison.served(number, coordinator)
            if coordinator is not None:
                self._in_mind.held.loaded(number, (*coordinator.hands(), *coordinator.group_ids()))
                coordinator.keep_before(self._in_mind.held.due)
        if coordinator is None and self._runtime.is_owned_elsewhere(number):
            self._in_mind.held.given_up(number)
            for group in {*self._touched, *self._in_mind, *self._outbox}:
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
        nothing is written. Raises :class:`StoreError`, also where a topic of it may be another one by now: what it has
        of others is there then. What a transaction has put in force there stays until the log has read that, too."""
        self._give_turn(group)
        await self._outbox.fed(group)

    @asynccontextmanager
    async def alone(self, group: str) -> AsyncIterator[None]:
        """Nothing of the group is on its way to the cluster, or is sent, meanwhile."""
        async with self._outbox.alone(group):
            yield

    def lag_seconds(self, group: str) -> float | None:
        """Since when the oldest change that the cluster does not have waits; None where it has all."""
        turn, its = self._outbox.lag_seconds(group), (self._touched, self._in_mind.again)
        since = min((each[group] for each in its if group in each), default=None)
        return turn if since is None else max(turn or 0.0, time.monotonic() - since)

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
        oldest = min((*self._touched.values(), *self._in_mind.again.values()), default=None)
        waiting = 0.0 if oldest is None else time.monotonic() - oldest
        return max(waiting, self._outbox.longest_lag_seconds)

    def waits(self, group: str) -> bool:
        """Whether a turn is under way, or is to be repeated."""
        return self._outbox.lag_seconds(group) is not None

    def is_in_force(self, group: str) -> bool:
        """Whether a transaction has put something in force since its last turn began: the cluster may have that yet,
        though neither the log has it any more nor the mirror has written it."""
        return group in self._in_mind.in_force_here

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
        return self._in_mind.contested.in_use

    def is_contested(self, group: str) -> bool:
        """Whether what others have committed to it there may be written over by its next turn, which tells that."""
        return group in self._in_mind.contested

    def nowhere(self, group: str) -> Set[TopicPartition]:
        """Of the group's offsets those that the cluster has no partition for, when it was last given them."""
        return self._in_mind.nowhere.get(group, frozenset())

    def try_nowhere(self, group: str) -> None:
        """Those may have come to be there: the group's next turn sends them once more."""
        if (nowhere := self.nowhere(group)) and group in self.written:
            self.written.update(group, {}, nowhere)
            self.touched([group])

    async def kept(self, group: str, own: Committed) -> str:
        """What the cluster keeps that the log has in another way, in a line; "" for nothing. ``own``: as the log has
        it by now. Raises StoreError."""
        coordinator = self._runtime.coordinator_of(group)
        if coordinator is not None and self._in_mind.held.is_open(group):
            there = (await self._cluster.offsets_of({group: own}))[group]
            self._in_mind.look(coordinator, group, own, there)
            self._in_mind.held.to_bring(group, own, there)
        return self._in_mind.held.alarm(group)

    def taken_over(self, group: str) -> None:
        """From the cluster, a moment ago."""
        self._in_mind.held.forget(group)

    def alarm(self, group: str) -> str:
        """As :meth:`kept`, of the last look."""
        return self._in_mind.held.alarm(group)

    @property
    def alarmed(self) -> float:
        """How many groups have such an alarm."""
        return float(self._in_mind.held.alarmed)

    def unanswered(self, group: str) -> None:
        """As :meth:`InMind.unanswered`."""
        self._in_mind.unanswered(group)

    def may_arrive_seconds(self, group: str) -> float:
        """As :meth:`InMind.may_arrive_seconds`; nobody else must commit to the group there before."""
        return self._in_mind.may_arrive_seconds(group)

    def forget(self, group: str) -> None:
        """It is not the shim's any more."""
        self._touched.forget(group)
        self._comparison.leave(group)
        self._in_mind.forget(group)
        self._outbox.forget(group)  # last: what waits for a turn is told then

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._comparison.run(), name="comparing with the cluster's own offsets")
            tasks.create_task(self._try_nowhere(), name="trying offsets that the cluster had no partition for")
            while True:
                self._give_turns()
                await asyncio.sleep(self._every_seconds)

    async def _try_nowhere(self) -> None:
        while True:
            await asyncio.sleep(self._nowhere_seconds)  # the cluster tells nobody
            for group in list(self._in_mind.nowhere):
                self.try_nowhere(group)

    async def drained(self) -> None:
        """Give turns to all that are touched by now, and to those that are found to differ meanwhile, and wait for
        them; what fails is tried once each time."""
        while True:
            self._give_turns()
            await self._outbox.drained()
            if not self._touched:
                return

    def close(self) -> None:
        self._outbox.close()

    # -- a turn

    def _give_turns(self) -> None:
        for group, since in self._in_mind.again.items():
            self._touched.setdefault(group, since)  # with the mirror off, too: it has been fed
        self._in_mind.again.clear()
        for group in list(self._touched):
            self._give_turn(group)

    def _give_turn(self, group: str) -> None:
        since = self._touched.pop(group, None)
        if since is not None:
            if group in self._in_mind.contested:
                self._note_own(group)
            self._outbox.touch(group, since)

    def _note_own(self, group: str) -> None:
        """Of one that turns fail of, which come ever more seldom."""
        coordinator = self._runtime.coordinator_of(group)
        if coordinator is not None:
            try:
                own = None if coordinator.has_pending(group) else own_offsets(coordinator, group)
            except NotReadable:  # so a transaction may be open that is not known yet
                own = None
            self._in_mind.contested.had(group, own)

    async def _feed(self, group: str) -> None:
        coordinator = self._runtime.coordinator_of(group)
        if coordinator is None:
            raise StoreUnavailable(f"group {group}: its partition is not loaded")
        self._comparison.leave(group)
        turn = MirrorTurn(
            group, coordinator, self._runtime, self._cluster, self._in_mind, self._blocked, self._written_over
        )
        await turn.take()

    def _written_over(self, group: str, own: Committed, theirs: Committed) -> None:
        for told in self._watchers:
            told(group, own, theirs)
