"""What a start would find, of any group; and what is in its way."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from protocol.messages.describe_groups import DescribedGroup
from protocol.own.state_log import IN_ZOOKEEPER, Step
from shim.migration.hands.placements import SERVED, Placements, Whose
from shim.migration.hindrances import Hindrances
from shim.migration.looking.beside_shims import BesideShims
from shim.migration.looking.in_zookeeper import InZooKeeper
from shim.migration.looking.statuses import Statuses
from shim.migration.reader import GroupReader
from shim.migration.words import STEP_NAMES, UNKNOWN, Planned, Refused
from shim.offsets.cluster.describing import LOOK_SECONDS, NOBODY
from shim.offsets.cluster.groups import ClusterGroups
from shim.offsets.store import StoreError
from shim.upstream.errors import UpstreamError


class Planning:
    """For the event loop."""

    def __init__(
        self,
        cluster_groups: ClusterGroups,
        placements: Placements,
        reader: GroupReader,
        in_zookeeper: InZooKeeper,
        hindrances: Hindrances,
        statuses: Statuses,
        beside_shims: BesideShims,
    ) -> None:
        self._cluster_groups = cluster_groups
        self._placements = placements
        self._reader = reader
        self._in_zookeeper = in_zookeeper
        self._hindrances = hindrances
        self._statuses = statuses
        self._beside_shims = beside_shims

    async def plan(self, groups: Sequence[str]) -> Sequence[Planned]:
        """Of these groups; one that its broker says nothing of has that for a hindrance. Raises NotKnown, Refused."""
        others = [group for group in groups if self._placements.of(group) not in SERVED]
        described = await self._cluster_groups.all_described(others, LOOK_SECONDS)
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
        here = [each for each in described.members if self._hindrances.seen(group, each.member_id) is not None]
        hindrance = self._hindrances.of(group, described, has_offsets=bool(count))
        hindrance = hindrance or await self._in_zookeeper.differs(group, soon=True)
        return Planned(group, described.group_state, len(described.members), len(here), count, hindrance)

    async def _planned_served(self, group: str) -> Planned:
        """As it is here: what the cluster has of it is a copy."""
        if self._reader.step(group) is Step.ZOOKEEPER:
            return await self._planned_in_zookeeper(group)
        its, own = await self._statuses.of_one(group), await self._reader.own_offsets(group)
        return Planned(group, its.state, its.members, its.members, len(own), self.served_already(group), its.storage)

    async def _planned_in_zookeeper(self, group: str) -> Planned:
        try:
            count, members = await self._in_zookeeper.counted(group)
        except StoreError as error:
            hindrance = f"whether ZooKeeper has offsets of it cannot be found out: {error}"
            return Planned(group, UNKNOWN, None, None, None, hindrance, "zookeeper")
        return Planned(group, "Stable" if members else "Empty", members, 0, count, "", "zookeeper")

    def served_already(self, group: str) -> str:
        """In a line, of one that is served."""
        step = self._reader.step(group)
        at = "" if step is None else f", at {STEP_NAMES[step]}"
        if step in IN_ZOOKEEPER:
            at += ": `advance` takes it on"
        return f"group {group} is served by the shim already{at}"
