"""What a start would find, of any group that the cluster or ZooKeeper has; and what is in its way."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence, Set
from typing import Final

from protocol.group_kinds import kind_listed
from protocol.messages.describe_groups import DescribedGroup
from protocol.own.shim_group import PROTOCOL_TYPE
from protocol.own.state_log import IN_ZOOKEEPER, Step
from shim.migration.compared import differs_from_zookeeper
from shim.migration.dual.lookup import Lookup
from shim.migration.hands.placements import SERVED, Placements, Whose
from shim.migration.looking import CLUSTER_SECONDS
from shim.migration.looking.beside_shims import BesideShims, has_members
from shim.migration.looking.statuses import Statuses
from shim.migration.moving.changing import Changing
from shim.migration.moving.hand_over import HandOver, other_protocol
from shim.migration.stores import Stores
from shim.migration.words import STEP_NAMES, UNKNOWN, Candidates, NotKnown, Planned, Refused
from shim.offsets.cluster.describing import NOBODY, LiveGroup
from shim.offsets.cluster.groups import ClusterGroups
from shim.offsets.store import StoreError
from shim.runtime import Runtime
from shim.upstream.errors import UpstreamError

_ZOOKEEPER_SECONDS: Final = 5.0
"""For so long ZooKeeper is waited for, for what it has of one group, in which there may be many znodes."""


class Planning:
    """For the event loop."""

    def __init__(
        self,
        runtime: Runtime,
        cluster_groups: ClusterGroups,
        placements: Placements,
        lookup: Lookup,
        changing: Changing,
        stores: Stores,
        hand_over: HandOver,
        statuses: Statuses,
        beside_shims: BesideShims,
    ) -> None:
        self._runtime = runtime
        self._cluster_groups = cluster_groups
        self._placements = placements
        self._lookup = lookup
        self._changing = changing
        self._stores = stores
        self._hand_over = hand_over
        self._statuses = statuses
        self._beside_shims = beside_shims

    # -- which groups

    async def candidates(self) -> Candidates:
        """The groups that a start could be about: those that the cluster or ZooKeeper has, and the shim does not keep
        in its log alone. None of those that another shim has, or worker, nor of a partition that is not served; nor
        those of shims themselves, which are the cluster's for good; nor those of which nobody has anything, and which a
        start does not know."""
        listed = await self._cluster_groups.listed(CLUSTER_SECONDS)
        live = listed.groups
        unanswered = [str(each) for each in listed.unanswered] if listed.asked else [str(listed.trouble)]
        in_zookeeper: set[str] = set()
        try:
            self._stores.in_sight()
            in_zookeeper.update(await self._lookup.groups())
        except StoreError as error:
            unanswered.append(f"ZooKeeper: {error}")
        shims = {group for group, its in live.items() if its.protocol_type == PROTOCOL_TYPE}
        names = {
            group for group in (live.keys() | in_zookeeper) - shims if self._is_known(group) and self._can_start(group)
        }
        in_doubt = [live[group] for group in names - in_zookeeper if self._placements.of(group) is Whose.UNKNOWN]
        groups = sorted(names - await self._with_nothing(in_doubt))
        # One that is served is at zookeeper, and goes on from there.
        theirs = (live[group] for group in groups if group in live and self._placements.of(group) not in SERVED)
        others = {each.group: why for each in theirs if (why := other_protocol(kind_listed(each.type)))}
        return Candidates(groups, unanswered, others)

    async def _with_nothing(self, groups: Iterable[LiveGroup]) -> Set[str]:
        """Those that the cluster lists without members and offsets: until its next look for what has expired, it keeps
        a group that all have left, or whose offsets were deleted. What a transaction is about to commit is not waited
        for."""
        empty = [each for each in groups if each.state in (*NOBODY, "")]
        try:
            offsets = await self._cluster_groups.offsets_of([each.group for each in empty], stable=False)
            return {
                each.group
                for each in empty
                if not offsets[each.group] and not await has_members(self._cluster_groups, each)
            }
        except (UpstreamError, Refused):  # `plan` and `start` ask again, and say of which group it is
            return frozenset()

    def _is_known(self, group: str) -> bool:
        return self._runtime.coordinator(self._runtime.partition_of(group)) is not None

    def _can_start(self, group: str) -> bool:
        return self._placements.of(group) not in SERVED or self._changing.step(group) is Step.ZOOKEEPER

    # -- each of them

    async def plan(self, groups: Sequence[str]) -> Sequence[Planned]:
        """Of these groups; one that its broker says nothing of has that for a hindrance. Raises NotKnown, Refused."""
        others = [group for group in groups if self._placements.of(group) not in SERVED]
        described = await self._cluster_groups.all_described(others, CLUSTER_SECONDS)
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
            return await self._beside_shims.why_not()
        except Refused as error:
            return f"whether shims that share a log serve in front of this cluster cannot be found out: {error}"

    async def _planned(self, group: str, described: DescribedGroup | UpstreamError, count: int) -> Planned:
        """As a start would find it."""
        if isinstance(described, UpstreamError):
            return Planned(group, UNKNOWN, None, None, None, f"the cluster cannot be asked: {described}")
        if self._placements.of(group) is Whose.UNKNOWN and described.group_state in NOBODY and not count:
            return await self._planned_in_zookeeper(group)
        here = [each for each in described.members if self._hand_over.is_here(group, each.member_id)]
        hindrance = self._hand_over.hindrance(group, described, has_offsets=bool(count))
        hindrance = hindrance or await self.differs_in_zookeeper(group, _ZOOKEEPER_SECONDS)
        return Planned(group, described.group_state, len(described.members), len(here), count, hindrance)

    async def _planned_served(self, group: str) -> Planned:
        """As it is here: what the cluster has of it is a copy."""
        if self._changing.step(group) is Step.ZOOKEEPER:
            return await self._planned_in_zookeeper(group)
        its, own = await self._statuses.of_one(group), await self._changing.own_offsets(group)
        return Planned(group, its.state, its.members, its.members, len(own), self.served_already(group), its.storage)

    async def _planned_in_zookeeper(self, group: str) -> Planned:
        try:
            self._stores.in_sight()
            async with asyncio.timeout(_ZOOKEEPER_SECONDS):
                count, members = len(await self._lookup.offsets(group)), await self._lookup.consumers(group)
        except (StoreError, TimeoutError) as error:
            hindrance = f"whether ZooKeeper has offsets of it cannot be found out: {_not_told(error)}"
            return Planned(group, UNKNOWN, None, None, None, hindrance, "zookeeper")
        if not (count or members):
            raise NotKnown(self._placements.nobody_has(group))
        return Planned(group, "Stable" if members else "Empty", members, 0, count, "", "zookeeper")

    def served_already(self, group: str) -> str:
        """In a line, of one that is served."""
        step = self._changing.step(group)
        at = "" if step is None else f", at {STEP_NAMES[step]}"
        if step in IN_ZOOKEEPER:
            at += ": `advance` takes it on"
        return f"group {group} is served by the shim already{at}"

    async def differs_in_zookeeper(self, group: str, within_seconds: float | None = None) -> str:
        """Why it has to be said which offsets are right; "" where it has not."""
        try:
            if within_seconds is not None:
                self._stores.in_sight()
            async with asyncio.timeout(within_seconds):
                there = await self._lookup.offsets(group)
            in_cluster = await self._changing.cluster_offsets(group) if there else {}
        except (StoreError, UpstreamError, TimeoutError) as error:
            return f"group {group}: whether ZooKeeper has other offsets of it cannot be found out: {_not_told(error)}"
        return "" if not there else differs_from_zookeeper(group, in_cluster, there)


def _not_told(error: StoreError | UpstreamError | TimeoutError) -> str:
    """A TimeoutError: of what ZooKeeper was asked."""
    return f"ZooKeeper has not answered in {_ZOOKEEPER_SECONDS:g} s" if isinstance(error, TimeoutError) else str(error)
