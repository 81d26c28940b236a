"""What whoever looks after the groups asks for: in whose hands they are, and that they go on, or back.

One whose offsets were in ZooKeeper goes through all steps in their order (:data:`shim.migration.words.STEP_NAMES`), and
back; one that the cluster knew goes from there to `kafka`, and back there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence

from protocol.own.state_log import Hands, Step
from shim.config import Settings
from shim.counted import counted
from shim.migration.dual.lookup import Lookup
from shim.migration.hands.first_contact import FirstContact
from shim.migration.hands.placements import Placements, Whose
from shim.migration.hindrances import Hindrances
from shim.migration.looking.beside_shims import BesideShims
from shim.migration.looking.in_zookeeper import InZooKeeper
from shim.migration.looking.planning import Planning
from shim.migration.looking.startable import Startable
from shim.migration.looking.statuses import Statuses, not_heard_of
from shim.migration.mirror.guard import Guard
from shim.migration.moving.hand_over import HandOver
from shim.migration.moving.locks import GroupLocks
from shim.migration.moving.stepping import Stepping
from shim.migration.next_step import NEXT
from shim.migration.reader import GroupReader
from shim.migration.stores import Stores
from shim.migration.words import (
    STEP_NAMES,
    Candidates,
    GroupStatus,
    Looked,
    NotKnown,
    Planned,
    Refused,
    Source,
    StepMove,
    Verified,
)
from shim.offsets.cluster.describing import LOOK_SECONDS
from shim.offsets.cluster.groups import ClusterGroups
from shim.offsets.store import StoreError
from shim.runtime import Clock, Runtime
from shim.runtime.unserved import unserved
from shim.upstream.errors import UpstreamError


class Migration:
    """For the event loop, at the request of who looks after the groups."""

    def __init__(
        self,
        runtime: Runtime,
        cluster_groups: ClusterGroups,
        first_contact: FirstContact,
        placements: Placements,
        stores: Stores,
        lookup: Lookup,
        guard: Guard,
        settings: Settings,
        followed: Callable[[str], Awaitable[bool]],
        uncertain: Callable[[Collection[str]], Awaitable[Sequence[str]]],
        clock: Clock,
    ) -> None:
        """``followed``: as for :class:`FirstContact`. ``uncertain``: as for :class:`HandOver`."""
        self._runtime = runtime
        self._cluster_groups = cluster_groups
        self._first_contact = first_contact
        self._placements = placements
        self._lookup = lookup
        self._reader = reader = GroupReader(runtime, cluster_groups, placements)
        self._hindrances = Hindrances(placements, reader)
        locks = GroupLocks(runtime, cluster_groups, placements, reader, settings)
        self._hand_over = HandOver(locks, reader, self._hindrances, cluster_groups, stores.mirror, followed, uncertain)
        self._stepping = Stepping(locks, reader, stores)
        self._beside_shims = BesideShims(cluster_groups, settings)
        self._statuses = Statuses(runtime, cluster_groups, placements, reader, stores, guard, clock)
        self._in_zookeeper = InZooKeeper(stores, lookup, reader)
        self._startable = Startable(cluster_groups, placements, reader, self._in_zookeeper)
        self._planning = Planning(
            *(cluster_groups, placements, reader, self._in_zookeeper),
            *(self._hindrances, self._statuses, self._beside_shims),
        )

    # -- looking

    async def candidates(self) -> Candidates:
        """As :meth:`Startable.candidates`."""
        return await self._startable.candidates()

    async def plan(self, groups: Sequence[str]) -> Sequence[Planned]:
        """As :meth:`Planning.plan`. Raises NotKnown, Refused."""
        return await self._planning.plan(groups)

    async def status(self, groups: Sequence[str] | None) -> Sequence[GroupStatus]:
        """As :meth:`Statuses.of`. Raises NotKnown, Refused."""
        return await self._statuses.of(groups)

    async def status_of_served(self) -> Sequence[GroupStatus]:
        """As :meth:`Statuses.of_served`. Raises Refused."""
        return await self._statuses.of_served()

    async def left_out(self) -> Sequence[str]:
        """Lines about partitions that are to be served here, and are not: their groups are not known."""
        return unserved(self._runtime.unavailable, self._runtime.num_partitions)

    async def served(self) -> Sequence[str]:
        """As :meth:`Statuses.served`."""
        return await self._statuses.served()

    async def verify(self, group: str) -> Verified:
        """Compare all places where the offsets of a group that is served are. Raises Refused, NotKnown."""
        hands = self._reader.coordinator(group).hands_of(group)
        if hands is None:
            raise not_heard_of(group)
        if hands is not Hands.SERVED:
            raise NotKnown(f"group {group} is passed through: the shim has none of its offsets to compare")
        try:
            return await self._stepping.verify(group, LOOK_SECONDS)
        except (StoreError, UpstreamError) as error:
            raise Refused(f"cannot be compared: {error}") from error

    async def look(self, group: str, move: StepMove) -> Looked:
        """What ``move`` would do now; changes nothing. Raises Refused, NotKnown."""
        step = self._known_step(group)
        to = NEXT[move](group, step, self._reader.coordinator(group).from_zookeeper(group))
        verified = None if step is None else await self.verify(group)  # first: where it cannot be told, that is enough
        try:
            hindrance = await self._hindrance(group, step, to)
        except (StoreError, UpstreamError) as error:
            hindrance = f"group {group}: it cannot be found out now: {error}"
        return Looked(group, STEP_NAMES[step], STEP_NAMES[to], hindrance, verified)

    async def _hindrance(self, group: str, step: Step | None, to: Step | None) -> str:
        if step is not None and to is not None:
            return await self._stepping.hindrance(group, step, to, LOOK_SECONDS)
        if step is not None:
            return await self._reader.in_cluster(group, LOOK_SECONDS)
        described = await self._cluster_groups.described(group, LOOK_SECONDS)
        return self._hindrances.of(group, described) or await self._beside_shims.why_not()

    # -- moving

    async def start(self, group: str, cause: str, source: Source | None = None) -> GroupStatus:
        """Take the group over from where the cluster's coordinator serves it; or have the log keep the offsets, too,
        of one whose offsets are in ZooKeeper. ``source``: of one that both have, which of them is right; without it the
        two must not differ. Raises Refused, NotKnown."""
        await self._first_contact.whose(group)
        step, rejoin = self._reader.step(group), 0
        if step is None and source is Source.ZOOKEEPER:
            await self._begin_in_zookeeper(group, cause)
        elif step is None:
            if source is None and (why := await self._in_zookeeper.differs(group, soon=False)):
                raise Refused(why)
            rejoin = await self._take_over(group, Step.KAFKA, cause, from_zookeeper=False)
        elif source is not None:
            raise Refused(f"group {group} is served by the shim: from {source} could only be taken what is not")
        elif step is Step.ZOOKEEPER:
            await self._stepping.move(group, Step.ZOOKEEPER_DUAL, cause)
        else:
            raise Refused(self._planning.served_already(group))
        return await self._moved(group, rejoin)

    async def _begin_in_zookeeper(self, group: str, cause: str) -> None:
        await self._beside_shims.refuse(group)
        try:
            if not await self._lookup.offsets(group):
                raise Refused(f"group {group}: there are no offsets of it in ZooKeeper")
        except StoreError as error:
            raise Refused(f"group {group}: {error}") from error
        await self._hand_over.take_over_without_offsets(group, cause)
        await self._stepping.move(group, Step.ZOOKEEPER_DUAL, cause)

    async def advance(self, group: str, cause: str) -> GroupStatus:
        """One step on. Raises Refused, NotKnown."""
        return await self._move(group, "advance", cause)

    async def rollback(self, group: str, cause: str) -> GroupStatus:
        """One step back. Raises Refused, NotKnown."""
        return await self._move(group, "rollback", cause)

    async def _move(self, group: str, move: StepMove, cause: str) -> GroupStatus:
        step = self._known_step(group)
        from_zookeeper = self._reader.coordinator(group).from_zookeeper(group)
        to = NEXT[move](group, step, from_zookeeper)
        rejoin = 0
        if to is None:
            rejoin = await self._hand_over.give_back(group, cause, from_zookeeper=from_zookeeper)
        elif step is None:
            rejoin = await self._take_over(group, to, cause, from_zookeeper=True)
        else:
            await self._stepping.move(group, to, cause)
        return await self._moved(group, rejoin)

    async def _take_over(self, group: str, step: Step, cause: str, *, from_zookeeper: bool) -> int:
        await self._beside_shims.refuse(group)
        return await self._hand_over.take_over(group, step, cause, from_zookeeper=from_zookeeper)

    async def _moved(self, group: str, rejoin: int) -> GroupStatus:
        """``rejoin``: how many members were in it, and are yet to find whose it is now."""
        status = await self._statuses.of_one(group)
        if not rejoin or status.members != 0:
            return status
        on_the_way = f"{counted(rejoin, 'member')} on the way: joining again takes as long as a rebalance"
        return status._replace(alarm="; ".join(filter(None, (status.alarm, on_the_way))))

    def _known_step(self, group: str) -> Step | None:
        if self._placements.of(group) is Whose.UNKNOWN:
            raise not_heard_of(group)
        return self._reader.step(group)
