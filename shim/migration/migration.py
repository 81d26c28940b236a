"""What whoever looks after the groups asks for: in whose hands they are, and that they go on, or back.

One whose offsets were in ZooKeeper goes through all steps in their order (:data:`shim.migration.words.STEP_NAMES`), and
back; one that the cluster knew goes from there to `kafka`, and back there.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence, Set
from heapq import merge
from typing import Final

from protocol.errors import ErrorCode
from protocol.group_kinds import kind_of
from protocol.messages.describe_groups import DescribedGroup
from protocol.own.shim_group import PROTOCOL_TYPE
from protocol.own.state_log import IN_ZOOKEEPER, Hands, Step
from shim.config import Settings
from shim.counted import counted
from shim.migration.compared import differs_from_zookeeper
from shim.migration.dual.lookup import Lookup
from shim.migration.hands.placements import SERVED, Placements, Whose
from shim.migration.mirror.guard import Guard
from shim.migration.moving.changing import Changing
from shim.migration.moving.hand_over import HandOver
from shim.migration.moving.stepping import Stepping
from shim.migration.next_step import NEXT, after, before
from shim.migration.stores import Stores
from shim.migration.words import (
    PASSED_THROUGH,
    STEP_NAMES,
    UNKNOWN,
    Candidates,
    GroupStatus,
    Looked,
    NotKnown,
    Planned,
    Refused,
    Source,
    Verified,
)
from shim.offsets.cluster.describing import DEAD, NOBODY, Listed, LiveGroup
from shim.offsets.cluster.groups import ClusterGroups
from shim.offsets.store import StoreError
from shim.runtime import Clock, Runtime
from shim.upstream.errors import UpstreamError

_CLUSTER_SECONDS: Final = 3.0
"""For so long each broker is waited for, all at once, by who looks."""
_ZOOKEEPER_SECONDS: Final = 5.0
"""And ZooKeeper, for what it has of one group, in which there may be many znodes."""
_STATUSES_AT_ONCE: Final = 100
_NAMES_AT_ONCE: Final = 1_000
_ALONE_SECONDS: Final = 5.0
"""For so long it is gone by that no other shims were there: thousands of groups are started in a row."""


class Migration:
    """For the event loop, at the request of who looks after the groups."""

    def __init__(
        self,
        runtime: Runtime,
        cluster_groups: ClusterGroups,
        placements: Placements,
        stores: Stores,
        lookup: Lookup,
        guard: Guard,
        settings: Settings,
        followed: Callable[[str], Awaitable[bool]],
        clock: Clock,
    ) -> None:
        """``followed``: as for :class:`Placements`."""
        self._runtime = runtime
        self._clock = clock
        # With a prefix of its own for its topics, whoever has set it has said that others have other groups.
        self._is_beside_shims = settings.offsets_log != "kafka"
        self._alone_until = 0.0
        self._cluster_groups = cluster_groups
        self._placements = placements
        self._stores = stores
        self._lookup = lookup
        self._guard = guard
        self._changing = Changing(runtime, cluster_groups, placements, settings)
        self._hand_over = HandOver(self._changing, cluster_groups, placements, stores.mirror, followed)
        self._stepping = Stepping(self._changing, stores)

    # -- looking

    async def candidates(self) -> Candidates:
        """The groups that a start could be about: those that the cluster or ZooKeeper has, and the shim does not keep
        in its log alone. None of those that another shim has, or worker, nor those of shims themselves, which are the
        cluster's for good; nor those of which nobody has anything, and which a start does not know."""
        listed = await self._cluster_groups.listed(_CLUSTER_SECONDS)
        live = listed.groups
        unanswered = [str(each) for each in listed.unanswered] if listed.asked else [str(listed.trouble)]
        in_zookeeper: set[str] = set()
        try:
            in_zookeeper.update(await self._lookup.groups())
        except StoreError as error:
            unanswered.append(f"ZooKeeper: {error}")
        shims = {group for group, its in live.items() if its.protocol_type == PROTOCOL_TYPE}
        names = {
            group for group in (live.keys() | in_zookeeper) - shims if self._is_here(group) and self._can_start(group)
        }
        in_doubt = [live[group] for group in names - in_zookeeper if self._placements.of(group) is Whose.UNKNOWN]
        return Candidates(sorted(names - await self._with_nothing(in_doubt)), unanswered)

    async def _with_nothing(self, groups: Iterable[LiveGroup]) -> Set[str]:
        """Those that the cluster lists without members and offsets: until its next look for what has expired, it keeps
        a group that all have left, or whose offsets were deleted. What a transaction is about to commit is not waited
        for."""
        empty = [each for each in groups if each.state in (*NOBODY, "")]
        try:
            offsets = await self._cluster_groups.offsets_of([each.group for each in empty], stable=False)
            return {each.group for each in empty if not offsets[each.group] and not await self._has_members(each)}
        except (UpstreamError, Refused):  # `plan` and `start` ask again, and say of which group it is
            return frozenset()

    async def _live(self) -> Listed:
        """Raises Refused where no broker answers."""
        listed = await self._cluster_groups.listed(_CLUSTER_SECONDS)
        if len(listed.unanswered) == listed.asked:
            raise _not_listed(listed)
        return listed

    async def _beside_shims(self) -> str:
        """Why nothing is taken over here: any group that the cluster knows may be served by shims that share a log. ""
        where there are none. Raises Refused."""
        if not self._is_beside_shims or time.monotonic() < self._alone_until:
            return ""
        listed = await self._live()
        live = listed.groups
        for group in sorted(group for group, its in live.items() if its.protocol_type == PROTOCOL_TYPE):
            if await self._has_members(live[group]):
                return (
                    "shims that share a log on topics serve in front of this cluster, and this one is none of them: "
                    f"they are in group {group}"
                )
        if not listed.is_whole:  # theirs may be there
            raise _not_listed(listed)
        self._alone_until = time.monotonic() + _ALONE_SECONDS
        return ""

    async def _refuse_beside_shims(self, group: str) -> None:
        """Raises Refused."""
        if why := await self._beside_shims():
            raise Refused(f"group {group}: {why}")

    async def _has_members(self, group: LiveGroup) -> bool:
        """Raises Refused."""
        try:  # brokers before Kafka 2.6 list no states
            return (group.state or await self._cluster_groups.state_of(group.group)) not in NOBODY
        except UpstreamError as error:
            raise Refused(f"the cluster cannot be asked for group {group.group}: {error}") from error

    def _is_here(self, group: str) -> bool:
        return not self._runtime.is_owned_elsewhere(self._runtime.partition_of(group))

    def _can_start(self, group: str) -> bool:
        return self._placements.of(group) not in SERVED or self._step(group) is Step.ZOOKEEPER

    async def plan(self, groups: Sequence[str]) -> Sequence[Planned]:
        """Of these groups; one that its broker says nothing of has that for a hindrance. Raises NotKnown, Refused."""
        others = [group for group in groups if self._placements.of(group) not in SERVED]
        described = await self._cluster_groups.all_described(others, _CLUSTER_SECONDS)
        told = [group for group, its in described.items() if not isinstance(its, UpstreamError)]
        try:
            offsets = await self._cluster_groups.offsets_of(told)
        except UpstreamError as error:
            raise Refused(f"the cluster cannot be asked: {error}") from error
        planned = await asyncio.gather(
            *(
                self._planned(group, described[group], len(offsets.get(group, ())))
                if group in described
                else self._planned_served(group)
                for group in groups
            )
        )
        taken_over = [not each.hindrance and each.group in described for each in planned]
        why = await self._why_not_beside_shims() if any(taken_over) else ""
        return [each._replace(hindrance=why) if its else each for each, its in zip(planned, taken_over, strict=True)]

    async def _why_not_beside_shims(self) -> str:
        try:
            return await self._beside_shims()
        except Refused as error:
            return f"whether shims that share a log serve in front of this cluster cannot be found out: {error}"

    async def _planned(self, group: str, described: DescribedGroup | UpstreamError, count: int) -> Planned:
        """As :meth:`start` would find it."""
        if isinstance(described, UpstreamError):
            return Planned(group, UNKNOWN, None, None, None, f"the cluster cannot be asked: {described}")
        if self._placements.of(group) is Whose.UNKNOWN and described.group_state in NOBODY and not count:
            return await self._planned_in_zookeeper(group)
        here = [each for each in described.members if self._hand_over.is_here(group, each.member_id)]
        hindrance = self._hand_over.hindrance(group, described, has_offsets=bool(count))
        hindrance = hindrance or await self._differs_in_zookeeper(group, _ZOOKEEPER_SECONDS)
        return Planned(group, described.group_state, len(described.members), len(here), count, hindrance)

    async def _planned_served(self, group: str) -> Planned:
        """As it is here: what the cluster has of it is a copy."""
        if self._step(group) is Step.ZOOKEEPER:
            return await self._planned_in_zookeeper(group)
        its, own = await self._status(group), await self._changing.own_offsets(group)
        return Planned(group, its.state, its.members, its.members, len(own), self._is_served(group), its.storage)

    async def _planned_in_zookeeper(self, group: str) -> Planned:
        try:
            async with asyncio.timeout(_ZOOKEEPER_SECONDS):
                count, members = len(await self._lookup.offsets(group)), await self._lookup.consumers(group)
        except (StoreError, TimeoutError) as error:
            hindrance = f"whether ZooKeeper has offsets of it cannot be found out: {_not_told(error)}"
            return Planned(group, UNKNOWN, None, None, None, hindrance, "zookeeper")
        if not (count or members):
            raise NotKnown(self._placements.nobody_has(group))
        return Planned(group, "Stable" if members else "Empty", members, 0, count, "", "zookeeper")

    def _is_served(self, group: str) -> str:
        step = self._step(group)
        at = "" if step is None else f", at {STEP_NAMES[step]}"
        if step in IN_ZOOKEEPER:
            at += ": `advance` takes it on"
        return f"group {group} is served by the shim already{at}"

    async def status(self, groups: Sequence[str] | None) -> Sequence[GroupStatus]:
        """Of these groups, or of all of which it is known in whose hands they are, and that are not gone. For what the
        cluster has to say of those that are passed through each broker has so long in all: one looks here when they
        hang. Raises NotKnown, Refused."""
        found: dict[str, GroupStatus] = {}
        for number, group in enumerate(await self._known() if groups is None else groups):
            if number % _STATUSES_AT_ONCE == 0:
                await asyncio.sleep(0)  # those of groups that are served wait for nobody: clients have their turn
            try:
                found[group] = self._known_here(group)
            except NotKnown:
                if groups is not None:  # otherwise it has gone meanwhile
                    raise
        passed_through = [group for group, its in found.items() if its.state == UNKNOWN]
        described = await self._cluster_groups.all_described(passed_through, _CLUSTER_SECONDS)
        found |= {group: _as_described(found[group], its) for group, its in described.items()}
        return [its for its in found.values() if groups is not None or not _is_gone(its)]

    async def served(self) -> Sequence[str]:
        """Of all of which it is known in whose hands they are, those in the shim's."""
        found = []
        for number, group in enumerate(await self._known()):
            if number % _NAMES_AT_ONCE == 0:
                await asyncio.sleep(0)
            if self._placements.of(group) in SERVED:
                found.append(group)
        return found

    async def _known(self) -> Iterable[str]:
        """In their order. Clients have their turn between any two partitions."""
        by_partition = []
        for number in range(self._runtime.num_partitions):
            if (coordinator := self._runtime.coordinator(number)) is not None:
                by_partition.append(sorted({*coordinator.hands(), *coordinator.group_ids()}))
                await asyncio.sleep(0)
        return merge(*by_partition)

    async def _status(self, group: str) -> GroupStatus:
        (status,) = await self.status([group])
        return status

    def _known_here(self, group: str) -> GroupStatus:
        """Its state is UNKNOWN where it is passed through. Raises NotKnown, Refused."""
        coordinator = self._changing.coordinator(group)
        hands, word = coordinator.hands_of(group), coordinator.hands().get(group)
        if hands is None:
            raise NotKnown(_not_heard_of(group))
        since, cause = (word.time, word.cause) if word is not None else (None, "")
        if hands is not Hands.SERVED:
            return GroupStatus(group, PASSED_THROUGH, UNKNOWN, None, since, cause)
        described, now = coordinator.own_description(group), self._clock.now()
        alarms = self._guard.alarm(group), self._stores.mirror.alarm(group), self._stores.why(group)
        return GroupStatus(
            group,
            STEP_NAMES[coordinator.step_of(group)],
            described.group_state,
            len(described.members),
            since,
            cause,
            self._stores.lag_seconds(group),
            "; ".join(filter(None, alarms)),
            state_since_ms=coordinator.in_state_since(group),
            silent_members=sum(each.is_silent(now) for each in coordinator.presences(group)),
        )

    async def verify(self, group: str) -> Verified:
        """Compare all places where the offsets of a group that is served are. Raises Refused, NotKnown."""
        hands = self._changing.coordinator(group).hands_of(group)
        if hands is None:
            raise NotKnown(_not_heard_of(group))
        if hands is not Hands.SERVED:
            raise NotKnown(f"group {group} is passed through: the shim has none of its offsets to compare")
        try:
            return await self._stepping.verify(group, _CLUSTER_SECONDS)
        except (StoreError, UpstreamError) as error:
            raise Refused(f"cannot be compared: {error}") from error

    async def look(self, group: str, move: str) -> Looked:
        """What ``move``, "advance" or "rollback", would do now; changes nothing. Raises Refused, NotKnown."""
        step = self._known_step(group)
        to = NEXT[move](group, step, self._changing.coordinator(group).from_zookeeper(group))
        verified = None if step is None else await self.verify(group)  # first: where it cannot be told, that is enough
        try:
            hindrance = await self._hindrance(group, step, to)
        except (StoreError, UpstreamError) as error:
            hindrance = f"group {group}: it cannot be found out now: {error}"
        return Looked(group, STEP_NAMES[step], STEP_NAMES[to], hindrance, verified)

    async def _hindrance(self, group: str, step: Step | None, to: Step | None) -> str:
        if step is not None and to is not None:
            return await self._stepping.hindrance(group, step, to, _CLUSTER_SECONDS)
        if step is not None:
            return await self._changing.in_cluster(group, _CLUSTER_SECONDS)
        described = await self._cluster_groups.described(group, _CLUSTER_SECONDS)
        return self._hand_over.hindrance(group, described) or await self._beside_shims()

    # -- moving

    async def start(self, group: str, cause: str, source: Source | None = None) -> GroupStatus:
        """Take the group over from where the cluster's coordinator serves it; or have the log keep the offsets, too,
        of one whose offsets are in ZooKeeper. ``source``: of one that both have, which of them is right; without it the
        two must not differ. Raises Refused, NotKnown."""
        if self._placements.of(group) is Whose.UNKNOWN:
            error = await self._placements.find_out(group, None)
            if error is not ErrorCode.NONE:
                raise Refused(self._placements.not_found_out(group, error))
        if self._placements.of(group) is Whose.UNKNOWN:
            raise NotKnown(self._placements.nobody_has(group))
        step, rejoin = self._step(group), 0
        if step is None and source is Source.ZOOKEEPER:
            await self._begin_in_zookeeper(group, cause)
        elif step is None:
            if source is None and (why := await self._differs_in_zookeeper(group)):
                raise Refused(why)
            rejoin = await self._take_over(group, Step.KAFKA, cause, from_zookeeper=False)
        elif source is not None:
            raise Refused(f"group {group} is served by the shim: from {source} could only be taken what is not")
        elif step is Step.ZOOKEEPER:
            await self._stepping.move(group, Step.ZOOKEEPER_DUAL, cause)
        else:
            raise Refused(self._is_served(group))
        return await self._moved(group, rejoin)

    async def _begin_in_zookeeper(self, group: str, cause: str) -> None:
        await self._refuse_beside_shims(group)
        try:
            if not await self._lookup.offsets(group):
                raise Refused(f"group {group}: there are no offsets of it in ZooKeeper")
        except StoreError as error:
            raise Refused(f"group {group}: {error}") from error
        await self._hand_over.take_over_without_offsets(group, cause)
        await self._stepping.move(group, Step.ZOOKEEPER_DUAL, cause)

    async def _differs_in_zookeeper(self, group: str, within_seconds: float | None = None) -> str:
        """Why it has to be said which offsets are right; "" where it has not."""
        try:
            async with asyncio.timeout(within_seconds):
                there = await self._lookup.offsets(group)
            in_cluster = await self._changing.cluster_offsets(group) if there else {}
        except (StoreError, UpstreamError, TimeoutError) as error:
            return f"group {group}: whether ZooKeeper has other offsets of it cannot be found out: {_not_told(error)}"
        return "" if not there else differs_from_zookeeper(group, in_cluster, there)

    async def advance(self, group: str, cause: str) -> GroupStatus:
        """One step on. Raises Refused, NotKnown."""
        to = after(group, self._known_step(group))
        rejoin = 0
        if to is None:
            rejoin = await self._give_back(group, cause)
        else:
            await self._stepping.move(group, to, cause)
        return await self._moved(group, rejoin)

    async def rollback(self, group: str, cause: str) -> GroupStatus:
        """One step back. Raises Refused, NotKnown."""
        step = self._known_step(group)
        from_zookeeper = self._changing.coordinator(group).from_zookeeper(group)
        to = before(group, step, from_zookeeper=from_zookeeper)
        rejoin = 0
        if to is None:
            rejoin = await self._give_back(group, cause)
        elif step is None:
            rejoin = await self._take_over(group, to, cause, from_zookeeper=True)
        else:
            await self._stepping.move(group, to, cause)
        return await self._moved(group, rejoin)

    async def _take_over(self, group: str, step: Step, cause: str, *, from_zookeeper: bool) -> int:
        await self._refuse_beside_shims(group)
        return await self._hand_over.take_over(group, step, cause, from_zookeeper=from_zookeeper)

    async def _give_back(self, group: str, cause: str) -> int:
        from_zookeeper = self._changing.coordinator(group).from_zookeeper(group)
        return await self._hand_over.give_back(group, cause, from_zookeeper=from_zookeeper)

    async def _moved(self, group: str, rejoin: int) -> GroupStatus:
        """``rejoin``: how many members were in it, and are yet to find whose it is now."""
        status = await self._status(group)
        if not rejoin or status.members != 0:
            return status
        on_the_way = f"{counted(rejoin, 'member')} on the way: joining again takes as long as a rebalance"
        return status._replace(alarm="; ".join(filter(None, (status.alarm, on_the_way))))

    def _known_step(self, group: str) -> Step | None:
        if self._placements.of(group) is Whose.UNKNOWN:
            raise NotKnown(_not_heard_of(group))
        return self._step(group)

    def _step(self, group: str) -> Step | None:
        """None of one that is passed through."""
        served = self._placements.of(group) in SERVED
        return self._changing.coordinator(group).step_of(group) if served else None


def _not_told(error: StoreError | UpstreamError | TimeoutError) -> str:
    """A TimeoutError: of what ZooKeeper was asked."""
    return f"ZooKeeper has not answered in {_ZOOKEEPER_SECONDS:g} s" if isinstance(error, TimeoutError) else str(error)


def _not_heard_of(group: str) -> str:
    return f"this shim has not heard of a group {group} yet (`migrate plan` shows what there is to be started)"


def _as_described(status: GroupStatus, described: DescribedGroup | UpstreamError) -> GroupStatus:
    """By the cluster, or not: what else is known is told."""
    if isinstance(described, UpstreamError):
        return status._replace(alarm=str(described))
    state, members = described.group_state, len(described.members)
    return status._replace(state=state, members=members, type=kind_of(described).type)


def _not_listed(listed: Listed) -> Refused:
    return Refused(f"the cluster cannot be asked for its groups: {listed.trouble}")


def _is_gone(status: GroupStatus) -> bool:
    """Without members and offsets where it is, and nowhere else: as brokers list no such group, though in whose hands
    it was stays known."""
    return status.state == DEAD and status.step in (STEP_NAMES[Step.KAFKA], PASSED_THROUGH) and not status.alarm
