"""Groups that are locked while they are moved: nobody else moves one, and from when it is quiet nobody decides about
it but who has it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from protocol.errors import ErrorCode
from protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from protocol.messages.join_group import JoinGroupRequest
from protocol.own.state_log import Hands, Step
from shim.config import Settings
from shim.coordinator import GroupCoordinator
from shim.counted import counted
from shim.migration.deciding import decide
from shim.migration.hands.gathering import Gathering
from shim.migration.hands.placements import Placement, Placements, Whose
from shim.migration.reader import GroupReader
from shim.migration.strangers import named
from shim.migration.words import Refused
from shim.offsets.cluster.groups import ClusterGroups
from shim.offsets.store import StoreError
from shim.runtime import Runtime
from shim.upstream.errors import UpstreamError

log = logging.getLogger(__name__)

_RELEASED_WITHIN_S: Final = 2.0
_LOOK_S: Final = 0.1
_REBALANCING: Final = ("PreparingRebalance", "CompletingRebalance")


class GroupLocks:
    """For the event loop."""

    def __init__(
        self,
        runtime: Runtime,
        cluster_groups: ClusterGroups,
        placements: Placements,
        reader: GroupReader,
        settings: Settings,
    ) -> None:
        self._runtime = runtime
        self._cluster_groups = cluster_groups
        self._placements = placements
        self._reader = reader
        self._releasing: set[asyncio.Task[None]] = set()
        self._timeout_s = settings.group_handover_timeout_ms / 1000

    @asynccontextmanager
    async def locked(self, group: str, whose: Collection[Whose], otherwise: str) -> AsyncIterator[LockedGroup]:
        """Nobody else moves it meanwhile. What is in the way is raised as Refused; at the end its members go on."""
        coordinator = self._reader.coordinator(group)
        placement = self._placements.open(group)
        if placement.taken:
            raise Refused(f"group {group} is changing hands already")
        if self._placements.of(group) not in whose:
            self._placements.close(group)
            raise Refused(f"group {group} {otherwise}")
        if too_early := self._reader.too_early(group):
            self._placements.close(group)
            raise Refused(f"group {group} {too_early}")
        placement.taken = True
        try:
            yield LockedGroup(
                group, coordinator, placement, self._runtime, self._placements, self._reader, self._timeout_s
            )
        except UpstreamError as error:
            self._cluster_groups.forget(group)
            raise Refused(f"group {group}: the cluster cannot be asked: {error}") from error
        except StoreError as error:
            names_it = str(error).startswith((f"group {group}:", f"group {group!r}:"))
            raise Refused(str(error) if names_it else f"group {group}: {error}") from error
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


class LockedGroup:
    """What is done with a group by who has locked it; of use as long as that lasts. ``group``: its name."""

    def __init__(
        self,
        group: str,
        coordinator: GroupCoordinator,
        placement: Placement,
        runtime: Runtime,
        placements: Placements,
        reader: GroupReader,
        timeout_seconds: float,
    ) -> None:
        """``coordinator``: that of the group as it is locked. ``timeout_seconds``: how long its members, and those who
        are to answer them, are waited for."""
        self.group = group
        self._coordinator = coordinator
        self._placement = placement
        self._runtime = runtime
        self._placements = placements
        self._reader = reader
        self._timeout_s = timeout_seconds

    async def at_rest(
        self, describe: Callable[[], Awaitable[DescribedGroup]], described: DescribedGroup
    ) -> DescribedGroup:
        """The group when it is not in the middle of a rebalance: members who wait for others to join would wait for
        those that are held. Raises Refused."""
        async with self._in_time("a rebalance of it has not ended"):
            while described.group_state in _REBALANCING:
                await asyncio.sleep(_LOOK_S)  # the cluster tells nobody
                described = await describe()
        return described

    async def gathered(self, members: Sequence[DescribedGroupMember]) -> Mapping[str, JoinGroupRequest]:
        """What each of them has sent to join: they are all here. Raises Refused."""
        if not members:
            return {}
        gathering = self._placement.gathering = Gathering(members)
        log.info("group %s changes hands: %s told to join again", self.group, counted(len(members), "member"))
        async with self._in_time("not all of its members were there", lambda: f": {named(gathering.awaited)} missing"):
            await gathering.complete.wait()
        return gathering.here

    async def quiet(self) -> None:
        """From here on nobody is answered; what was on its way to the cluster has been. Raises Refused."""
        self._placements.change(self.group, self._placement, changing=True)
        async with self._in_time("what was passed on for it has not been answered"):
            await self._placement.idle.wait()

    def not_in_transaction(self) -> None:
        """To be called once it is :meth:`quiet`. Raises Refused where a transaction may yet change its offsets."""
        if self._reader.coordinator(self.group).has_pending(self.group):
            raise Refused(f"group {self.group}: a transaction with offsets of it has not ended yet, try again")

    def has_stayed(self) -> None:
        """To be called before anything is done by what was read of the group since it was locked. Raises Refused where
        its partition was given up, or read back, since: another shim may have acknowledged more meanwhile."""
        if self._reader.coordinator(self.group) is not self._coordinator:
            raise Refused(f"group {self.group}: its partition was read back meanwhile, try again")

    async def take_in_hand(self, hands: Hands, cause: str, step: Step = Step.KAFKA, *, from_zookeeper: bool) -> None:
        """Durably. Raises Refused."""
        group = self.group
        self.has_stayed()
        await self.decided(
            lambda coordinator, now, asker: coordinator.take_in_hand(
                now, group, hands, cause, asker, step, from_zookeeper=from_zookeeper
            )
        )

    async def decided(self, operation: Callable[[GroupCoordinator, int, Any], Any]) -> None:
        """Have it decided, and durable. Raises Refused."""
        answer = await decide(self._runtime, self.group, operation)
        if isinstance(answer, ErrorCode):
            raise Refused(f"group {self.group}: the log answers {answer.name}")
        if not answer.done:
            raise Refused(f"group {self.group} has come into other hands, or into a transaction, meanwhile")

    @asynccontextmanager
    async def _in_time(self, what: str, which: Callable[[], str] = str) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._timeout_s):
                yield
        except TimeoutError:
            why = f"group {self.group}: {what} within {self._timeout_s:g} s{which()}"
            log.warning("%s: given up, it stays where it is", why)  # whoever asked for it may not be there any more
            raise Refused(why) from None
