"""A group that is about to be changed: nobody else changes it, and while it matters nobody decides about it."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Final

from protocol.errors import ErrorCode
from protocol.group_kinds import kind_of
from protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from protocol.messages.join_group import JoinGroupRequest
from protocol.own.state_log import Hands, Step
from shim.config import Settings
from shim.coordinator import GroupCoordinator
from shim.counted import counted
from shim.migration.deciding import decide
from shim.migration.hands.gathering import Gathering
from shim.migration.hands.placements import SERVED, Placement, Placements, Whose
from shim.migration.own_offsets import NotReadable, own_offsets
from shim.migration.strangers import past_the_shim
from shim.migration.words import Refused
from shim.offsets.cluster.describing import NOBODY
from shim.offsets.cluster.groups import ClusterGroups, Committed
from shim.offsets.store import StoreError
from shim.runtime import Runtime
from shim.upstream.errors import UpstreamError

log = logging.getLogger(__name__)

_RELEASED_WITHIN_S: Final = 2.0
_LOOK_S: Final = 0.1
_REBALANCING: Final = ("PreparingRebalance", "CompletingRebalance")


class Changing:
    """What every change of a group goes through. For the event loop."""

    def __init__(
        self, runtime: Runtime, cluster_groups: ClusterGroups, placements: Placements, settings: Settings
    ) -> None:
        self._runtime = runtime
        self._cluster_groups = cluster_groups
        self._placements = placements
        self._releasing: set[asyncio.Task[None]] = set()
        self._timeout_s = settings.group_handover_timeout_ms / 1000

    @asynccontextmanager
    async def group(self, group: str, whose: Collection[Whose], otherwise: str) -> AsyncIterator[Placement]:
        """Nobody else changes it meanwhile. What is in the way is raised as Refused; at the end its members go on."""
        placement = self._placements.open(group)
        if placement.taken:
            raise Refused(f"group {group} is changing hands already")
        if self._placements.of(group) not in whose:
            self._placements.close(group)
            raise Refused(f"group {group} {otherwise}")
        if too_early := self.too_early(group):
            self._placements.close(group)
            raise Refused(f"group {group} {too_early}")
        placement.taken = True
        try:
            yield placement
        except UpstreamError as error:
            self._cluster_groups.forget(group)
            raise Refused(f"group {group}: the cluster cannot be asked: {error}") from error
        except StoreError as error:
            raise Refused(str(error) if group in str(error) else f"group {group}: {error}") from error
        finally:
            # Whoever asked for it may go away, or be told that the log does not answer: the group is nobody's until it
            # is certain whose it is, by what is on disk.
            releasing = asyncio.get_running_loop().create_task(self._release(group, placement))
            self._releasing.add(releasing)
            releasing.add_done_callback(self._releasing.discard)
            with suppress(TimeoutError):
                async with asyncio.timeout(_RELEASED_WITHIN_S):
                    await asyncio.shield(releasing)

    async def _release(self, group: str, placement: Placement) -> None:
        await self._placements.certain(group)
        gathering, placement.gathering = placement.gathering, None
        self._placements.change(group, placement, changing=False)
        placement.taken = False
        if gathering is not None:
            gathering.over.set()
        self._placements.close(group)

    async def at_rest(
        self, describe: Callable[[], Awaitable[DescribedGroup]], described: DescribedGroup
    ) -> DescribedGroup:
        """The group when it is not in the middle of a rebalance: members who wait for others to join would wait for
        those that are held."""
        async with self._in_time(described.group_id, "a rebalance of it has not ended"):
            while described.group_state in _REBALANCING:
                await asyncio.sleep(_LOOK_S)  # the cluster tells nobody
                described = await describe()
        return described

    async def gathered(
        self, group: str, placement: Placement, members: Sequence[DescribedGroupMember]
    ) -> Mapping[str, JoinGroupRequest]:
        """What each of them has sent to join: they are all here."""
        if not members:
            return {}
        placement.gathering = gathering = Gathering({each.member_id: each.group_instance_id for each in members})
        log.info("group %s changes hands: %s told to join again", group, counted(len(members), "member"))
        async with self._in_time(group, "not all of its members were there"):
            await gathering.complete.wait()
        return gathering.here

    async def quiet(self, group: str, placement: Placement) -> None:
        """From here on nobody is answered; what was on its way to the cluster has been."""
        self._placements.change(group, placement, changing=True)
        async with self._in_time(group, "what was passed on for it has not been answered"):
            await placement.idle.wait()

    async def in_cluster(self, group: str, within_seconds: float | None = None) -> str:
        """Who is in the group there, past the shim, or of which kind it is, which keeps it from being written there, or
        from going there, and what to do; "" for nobody. ``within_seconds``: see :meth:`ClusterGroups.listed`. Raises
        UpstreamError."""
        described = await self._cluster_groups.described(group, within_seconds)
        if described.group_state in NOBODY and not kind_of(described).stays:
            return ""
        past = past_the_shim(described, described.members)
        return f"group {group}: {past.they}; {past.what_to_do}"

    def too_early(self, group: str) -> str:
        """Why it cannot go into other hands yet, said of it; "" where nothing of another shim's is on its way."""
        seconds = self._placements.may_arrive_seconds(group)
        if seconds <= 0:
            return ""
        return (
            "is at this shim since a moment ago, and what another one has sent to the cluster for it may be done there "
            f"yet: try again in {math.ceil(seconds)} s"
        )

    def not_in_transaction(self, group: str) -> None:
        """To be called once it is :meth:`quiet`. Raises Refused where a transaction may yet change its offsets."""
        if self.coordinator(group).has_pending(group):
            raise Refused(f"group {group}: a transaction with offsets of it has not ended yet, try again")

    @asynccontextmanager
    async def _in_time(self, group: str, what: str) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._timeout_s):
                yield
        except TimeoutError:
            why = f"group {group}: {what} within {self._timeout_s:g} s"
            log.warning("%s: given up, it stays where it is", why)  # whoever asked for it may not be there any more
            raise Refused(why) from None

    async def take_in_hand(
        self, group: str, hands: Hands, cause: str, step: Step = Step.KAFKA, *, from_zookeeper: bool
    ) -> None:
        await self.done(group, partial(_take_in_hand, group, hands, cause, step, from_zookeeper))

    async def done(self, group: str, operation: Callable[[GroupCoordinator, int, Any], Any]) -> None:
        """Have it decided, and durable. Raises Refused."""
        answer = await decide(self._runtime, group, operation)
        if isinstance(answer, ErrorCode):
            raise Refused(f"group {group}: the log answers {answer.name}")
        if not answer.done:
            raise Refused(f"group {group} has come into other hands, or into a transaction, meanwhile")

    def coordinator(self, group: str) -> GroupCoordinator:
        """Raises Refused while there is none."""
        number = self._runtime.partition_of(group)
        coordinator = self._runtime.coordinator(number)
        if coordinator is None:
            raise Refused(f"the partition of group {group} is {self._runtime.where_it_is(number)}")
        return coordinator

    def step(self, group: str) -> Step | None:
        """At which it is; None of one that is passed through. Raises Refused as :meth:`coordinator`."""
        return self.coordinator(group).step_of(group) if self._placements.of(group) in SERVED else None

    async def own_offsets(self, group: str) -> Committed:
        """Those of the log, which are durable. Raises Refused."""
        await self._runtime.settled(self._runtime.partition_of(group))
        try:
            return own_offsets(self.coordinator(group), group)
        except NotReadable as error:
            raise Refused(str(error)) from error

    async def cluster_offsets(self, group: str, within_seconds: float | None = None) -> Committed:
        """Those of the cluster's own. ``within_seconds``: see :meth:`ClusterGroups.listed`. Raises UpstreamError."""
        return await self._cluster_groups.offsets_of_one(group, within_seconds)


def _take_in_hand(
    group: str,
    hands: Hands,
    cause: str,
    step: Step,
    from_zookeeper: bool,
    coordinator: GroupCoordinator,
    now: int,
    asker: Any,
) -> Any:
    return coordinator.take_in_hand(now, group, hands, cause, asker, step, from_zookeeper=from_zookeeper)
