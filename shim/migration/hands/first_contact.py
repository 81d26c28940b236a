"""In whose hands a group is that is asked for first: who knows it is asked, and it is noted.

A group that the cluster knows, with members or with offsets, is passed through to the cluster's own coordinator, until
somebody has the shim take it over (:mod:`shim.migration.migration`). One that nobody knows is served by the shim,
unless ``group.new.served`` says otherwise.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

from protocol.errors import ErrorCode
from protocol.group_kinds import CLASSIC, Kind, kind_of
from protocol.own.state_log import Hands, Step
from shim.config import Settings
from shim.coordinator import GroupCoordinator, Outcome
from shim.counted import counted
from shim.logged_once import LoggedOnce
from shim.migration.deciding import coordinator_of, decide
from shim.migration.dual.lookup import Lookup
from shim.migration.hands.placements import Placements, Whose
from shim.migration.words import NotKnown, Refused
from shim.offsets.cluster.describing import NOBODY
from shim.offsets.cluster.groups import ClusterGroups
from shim.offsets.store import StoreError
from shim.runtime import Runtime
from shim.upstream.errors import UpstreamError

log = logging.getLogger(__name__)

_LOOKED_FOR_AT_ONCE: Final = 4
_FOUND_OUT_SECONDS: Final = 5.0
"""Longer than ZooKeeper is waited for there, as who that is can be told then."""


def _cluster_not_asked(group_id: str) -> str:
    return f"whether the cluster knows group {group_id} cannot be found out"


def _zookeeper_not_asked(group_id: str) -> str:
    return f"whether ZooKeeper has offsets of group {group_id} cannot be found out"


class FirstContact:
    """For the event loop."""

    def __init__(
        self,
        runtime: Runtime,
        placements: Placements,
        cluster_groups: ClusterGroups,
        settings: Settings,
        followed: Callable[[str], Awaitable[bool]],
        lookup: Lookup,
    ) -> None:
        """``followed`` waits until what the cluster's log has of a group by now is not taken over any more, not after a
        restart either; False where that takes too long. ``lookup``: what ZooKeeper has."""
        self._runtime = runtime
        self._placements = placements
        self._cluster_groups = cluster_groups
        self._lookup = lookup
        self._new_served = settings.group_new_served
        self._finding: dict[tuple[str, Kind | None], asyncio.Task[ErrorCode]] = {}
        self._turns = asyncio.Semaphore(_LOOKED_FOR_AT_ONCE)
        self._trouble = LoggedOnce(log)
        self._followed = followed

    def take_settings(self, settings: Settings) -> None:
        """Of groups that are seen for the first time from now on."""
        self._new_served = settings.group_new_served

    async def whose(self, group: str, opens: Kind | None = None, within_seconds: float | None = None) -> Whose:
        """Whose it is, which is found out where nobody has asked yet: for who looks after groups. ``opens``: as for
        :meth:`find_out`. ``within_seconds``: how long each is waited for who is to say; None: as long as a request may
        take. Raises Refused, NotKnown, and UpstreamError, which names a broker that has not answered within that."""
        if self._placements.of(group) is Whose.UNKNOWN:
            try:
                if within_seconds is not None:  # raises early, and says of which broker
                    await self._cluster_groups.described(group, within_seconds)
                async with asyncio.timeout(None if within_seconds is None else _FOUND_OUT_SECONDS):
                    error = await self.find_out(group, opens)
            except TimeoutError:
                why = f"whether the cluster, or ZooKeeper, knows group {group} takes too long to find out"
                raise Refused(why) from None
            if error is not ErrorCode.NONE:
                coordinator_of(self._runtime, group)  # that there is none is the reason then
                raise Refused(self._not_found_out(group, error))
        if (whose := self._placements.of(group)) is Whose.UNKNOWN:
            raise NotKnown(self._lookup.nobody_has(group))
        return whose

    def _not_found_out(self, group: str, error: ErrorCode) -> str:
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            for what in (_cluster_not_asked(group), _zookeeper_not_asked(group)):
                if why := self._trouble.why(what):
                    return f"{what} for now: {why}"
            return f"the cluster, or ZooKeeper, cannot be asked about group {group} now: {error.name}"
        return f"group {group}: the log answers {error.name}"

    async def find_out(self, group_id: str, opens: Kind | None) -> ErrorCode:
        """NONE when it is known from now on; otherwise why not for now, at which clients ask again. ``opens``:
        what makes one that nobody knows; None: nothing does, and it stays unknown, as it does where the cluster does
        not have that protocol."""
        task = self._finding.get((group_id, opens))
        if task is None:
            task = asyncio.get_running_loop().create_task(self._find_out(group_id, opens))
            self._finding[group_id, opens] = task
            task.add_done_callback(lambda _: self._finding.pop((group_id, opens), None))
        return await asyncio.shield(task)  # others may wait for it, too

    async def _find_out(self, group_id: str, opens: Kind | None) -> ErrorCode:
        in_zookeeper = False
        other = None if opens is CLASSIC else opens
        try:
            async with self._turns:
                known = await self._known_as(group_id)
            self._trouble.went_well(_cluster_not_asked(group_id))
            if not known:  # not in a turn: one that hangs is no reason for others to wait
                in_zookeeper = await self._knows_in_zookeeper(group_id)
            is_new = not known and not in_zookeeper
            if is_new and (opens is None or (other and not await self._cluster_groups.has_kind(group_id, other))):
                return ErrorCode.NONE
            if not known and (in_zookeeper or not other) and not await self._followed(group_id):
                return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        except StoreError as error:
            self._trouble.failed(_zookeeper_not_asked(group_id), error)
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        except UpstreamError as error:
            self._cluster_groups.forget(group_id)
            self._trouble.failed(_cluster_not_asked(group_id), error)
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        step = Step.KAFKA
        if known:
            hands, cause = Hands.PASSED_THROUGH, f"the cluster has {known}"
            if await self._is_in_zookeeper_too(group_id):
                cause += "; ZooKeeper has offsets of it, too, which are not looked at"
                log.warning("group %s is passed through: %s", group_id, cause)
        elif in_zookeeper:
            hands, cause = Hands.SERVED, "ZooKeeper has offsets or consumers of it"
            step = Step.ZOOKEEPER
        elif other is not None:
            hands, cause = Hands.PASSED_THROUGH, f"its clients have {other.protocol}, which the cluster serves"
        elif self._new_served:
            hands, cause = Hands.SERVED, "the cluster did not know it"
        else:
            hands, cause = Hands.PASSED_THROUGH, "new groups are passed through (group.new.served=false)"
        taken = await decide(self._runtime, group_id, partial(_take_in_hand, group_id, hands, cause, step))
        return taken if isinstance(taken, ErrorCode) else ErrorCode.NONE

    async def _knows_in_zookeeper(self, group_id: str) -> bool:
        """Raises StoreError."""
        known = await self._lookup.knows(group_id)
        self._trouble.went_well(_zookeeper_not_asked(group_id))
        return known

    async def _is_in_zookeeper_too(self, group_id: str) -> bool:
        try:
            return await self._knows_in_zookeeper(group_id)
        except StoreError as error:  # it is the cluster's in any case
            self._trouble.forget(_zookeeper_not_asked(group_id))
            log.info("group %s: it is not known whether ZooKeeper has offsets of it, too: %s", group_id, error)
            return False

    async def _known_as(self, group_id: str) -> str:
        """By what the cluster knows the group; "" where it does not."""
        described = await self._cluster_groups.described(group_id)
        if (kind := kind_of(described)).stays:
            return f"a {kind.name} group of that name"
        if described.members or described.group_state not in NOBODY:
            return f"members of it (it is {described.group_state})"
        await self._cluster_groups.transactions_ended(group_id, self._producers_in_transaction())
        offsets = await self._cluster_groups.offsets_of_one(group_id)
        return f"offsets of it, for {counted(len(offsets), 'partition')}" if offsets else ""

    def _producers_in_transaction(self) -> set[int]:
        """Those of transactions with offsets of groups that the shim serves."""
        coordinators = filter(None, map(self._runtime.coordinator, range(self._runtime.num_partitions)))
        return set().union(*(each.producers_in_transaction() for each in coordinators))


def _take_in_hand(
    group_id: str, hands: Hands, cause: str, step: Step, coordinator: GroupCoordinator, now: int, ticket: Any
) -> Outcome:
    found = coordinator.hands_of(group_id)
    if found is not None:  # since it was asked for
        hands, step = found, coordinator.step_of(group_id)
    from_zookeeper = step is not Step.KAFKA
    return coordinator.take_in_hand(now, group_id, hands, cause, ticket, step, from_zookeeper=from_zookeeper)
