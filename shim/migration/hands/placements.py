"""In whose hands each group is, as requests need to know it, and how that is found out of one that is asked for first.

A group that the cluster knows, with members or with offsets, is passed through to the cluster's own coordinator, until
somebody has the shim take it over (:mod:`shim.migration.migration`). One that nobody knows is served by the shim,
unless ``group.new.served`` says otherwise.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from enum import Enum, auto
from functools import partial
from typing import Any, Final, NamedTuple

from protocol.errors import ErrorCode
from protocol.group_kinds import CLASSIC, Kind, kind_of
from protocol.own.state_log import Hands, Step
from shim.config import Settings
from shim.coordinator import GroupCoordinator, Outcome
from shim.counted import counted
from shim.logged_once import LoggedOnce
from shim.migration.deciding import ask, decide
from shim.migration.dual.lookup import Lookup
from shim.migration.hands.gathering import Gathering
from shim.offsets.cluster.describing import NOBODY
from shim.offsets.cluster.groups import ClusterGroups
from shim.offsets.store import StoreError
from shim.runtime import Runtime
from shim.upstream.errors import ARRIVES_WITHIN_SECONDS, PASSED_ON_WITHIN_SECONDS, UpstreamError

log = logging.getLogger(__name__)

_LOOKED_FOR_AT_ONCE: Final = 4
_FOUND_OUT_SECONDS: Final = 5.0
"""Longer than ZooKeeper is waited for there, as who that is can be told then."""
_SEEN_MOST: Final = 100_000
"""Members of groups that are passed through, of which it is known when they were last heard of."""


def _cluster_not_asked(group_id: str) -> str:
    return f"whether the cluster knows group {group_id} cannot be found out"


def _zookeeper_not_asked(group_id: str) -> str:
    return f"whether ZooKeeper has offsets of group {group_id} cannot be found out"


class Whose(Enum):
    """``SERVED_WITH_STORES``: the shim serves it, and another store has a say in its offsets, too
    (:mod:`shim.migration.stores`). ``UNKNOWN``: nobody has asked the cluster yet. ``CHANGING``: in nobody's at the
    moment."""

    SERVED = auto()
    SERVED_WITH_STORES = auto()
    PASSED_THROUGH = auto()
    UNKNOWN = auto()
    CHANGING = auto()


SERVED: Final = frozenset({Whose.SERVED, Whose.SERVED_WITH_STORES})

_WHOSE: Final = {Hands.SERVED: Whose.SERVED, Hands.PASSED_THROUGH: Whose.PASSED_THROUGH, None: Whose.UNKNOWN}


class Seen(NamedTuple):
    """Of a member of a group that is passed through. ``at``: seconds, of a clock that only runs forward."""

    at: float
    generation: int


class Placement:
    """What is under way with a group that is passed through, or changes hands."""

    __slots__ = ("changing", "gathering", "idle", "in_flight", "taken")

    def __init__(self) -> None:
        self.taken = False
        """Somebody is about to change its hands."""
        self.changing = False
        """It is in nobody's."""
        self.gathering: Gathering | None = None
        self.in_flight = 0
        self.idle = asyncio.Event()
        """Set while nothing that the shim has passed on may yet change an offset, or give somebody partitions."""
        self.idle.set()

    @property
    def is_over(self) -> bool:
        return not (self.taken or self.in_flight)


class Placements:
    """For the event loop."""

    def __init__(
        self,
        runtime: Runtime,
        cluster_groups: ClusterGroups,
        settings: Settings,
        followed: Callable[[str], Awaitable[bool]],
        lookup: Lookup,
    ) -> None:
        """``followed`` waits until what the cluster's log has of a group by now is not taken over any more, not after a
        restart either; False where that takes too long."""
        self._runtime = runtime
        self._cluster_groups = cluster_groups
        self._lookup = lookup
        self._new_served = settings.group_new_served
        self._open: dict[str, Placement] = {}
        self._seen: dict[tuple[str, str], Seen] = {}
        self._finding: dict[tuple[str, Kind | None], asyncio.Task[ErrorCode]] = {}
        self._turns = asyncio.Semaphore(_LOOKED_FOR_AT_ONCE)
        self._trouble = LoggedOnce(log)
        self._followed = followed
        self._reloaded: dict[int, asyncio.Event] = {}
        self._came_at: dict[int, float] = {}
        runtime.watch(self._served)

    def take_settings(self, settings: Settings) -> None:
        """Of groups that are seen for the first time from now on."""
        self._new_served = settings.group_new_served

    def _served(self, number: int, coordinator: GroupCoordinator | None) -> None:
        """The partition was read back, or is not served any more. What changes hands there does so still."""
        if coordinator is not None:
            if self._runtime.is_divided:  # after a failure of its own, too: another one may have had it meanwhile
                self._came_at[number] = time.monotonic()
            for group_id, placement in self._open.items():
                if placement.changing and self._runtime.partition_of(group_id) == number:
                    coordinator.close_group(group_id, closed=True)
        elif not self._runtime.is_owned_elsewhere(number):
            return
        if (reloaded := self._reloaded.pop(number, None)) is not None:
            reloaded.set()

    # -- whose it is

    def nobody_has(self, group: str) -> str:
        """What is to be said of one that :meth:`find_out` has not found: in a line."""
        return self._lookup.nobody_has(group)

    def not_found_out(self, group: str, error: ErrorCode) -> str:
        """What is to be said where :meth:`find_out` has given that: in a line."""
        number = self._runtime.partition_of(group)
        if self._runtime.coordinator(number) is None:
            return f"the partition of group {group} is {self._runtime.where_it_is(number)}"
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            for what in (_cluster_not_asked(group), _zookeeper_not_asked(group)):
                if why := self._trouble.why(what):
                    return f"{what} for now: {why}"
            return f"the cluster, or ZooKeeper, cannot be asked about group {group} now: {error.name}"
        return f"group {group}: the log answers {error.name}"

    def of(self, group_id: str) -> Whose:
        """SERVED, too, while its partition is not loaded: why it is not served is answered there."""
        coordinator = self._runtime.coordinator_of(group_id)
        if coordinator is None:
            return Whose.SERVED
        if self._open and (placement := self._open.get(group_id)) is not None and placement.changing:
            return Whose.CHANGING
        if coordinator.has_offsets_elsewhere(group_id):
            return Whose.SERVED_WITH_STORES
        return _WHOSE[coordinator.hands_of(group_id)]

    def steps_of(self, group_ids: Iterable[str]) -> dict[str, Step | None]:
        """At which those of them are now that the shim serves; None of one whose partition is not loaded."""
        found: dict[str, Step | None] = {}
        for group_id in group_ids:
            coordinator = self._runtime.coordinator_of(group_id)
            if coordinator is None:
                found[group_id] = None
            elif coordinator.hands_of(group_id) is Hands.SERVED:
                found[group_id] = coordinator.step_of(group_id)
        return found

    def is_served(self, group_id: str) -> bool:
        """Whether the shim has it, for the time being too while it changes hands."""
        coordinator = self._runtime.coordinator_of(group_id)
        return coordinator is None or coordinator.hands_of(group_id) is Hands.SERVED

    async def find_out(self, group_id: str, opens: Kind | None) -> ErrorCode:
        """NONE when :meth:`of` says it from now on; otherwise why not for now, at which clients ask again. ``opens``:
        what makes one that nobody knows; None: nothing does, and it stays UNKNOWN, as it does where the cluster does
        not have that protocol."""
        task = self._finding.get((group_id, opens))
        if task is None:
            task = asyncio.get_running_loop().create_task(self._find_out(group_id, opens))
            self._finding[group_id, opens] = task
            task.add_done_callback(lambda _: self._finding.pop((group_id, opens), None))
        return await asyncio.shield(task)  # others may wait for it, too

    async def find_out_soon(self, group_id: str, within_seconds: float) -> ErrorCode:
        """As :meth:`find_out`, of one that nothing makes, for who does not wait for much longer. Raises UpstreamError,
        which names a broker that has not answered by then, and TimeoutError where more than one is waited for."""
        await self._cluster_groups.described(group_id, within_seconds)
        async with asyncio.timeout(_FOUND_OUT_SECONDS):
            return await self.find_out(group_id, None)

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
        taken = await self.decide(group_id, partial(_take_in_hand, group_id, hands, cause, step))
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
        await self._cluster_groups.transactions_ended(group_id, self.producers_in_transaction())
        offsets = await self._cluster_groups.offsets_of_one(group_id)
        return f"offsets of it, for {counted(len(offsets), 'partition')}" if offsets else ""

    async def decide(self, group_id: str, operation: Callable[[GroupCoordinator, int, Any], Outcome]) -> Any:
        """What the group's coordinator answers, once that is durable; or the ErrorCode for which there is none."""
        return await decide(self._runtime, group_id, operation)

    def producers_in_transaction(self) -> set[int]:
        """Those of transactions with offsets of groups that the shim serves."""
        coordinators = filter(None, map(self._runtime.coordinator, range(self._runtime.num_partitions)))
        return set().union(*(each.producers_in_transaction() for each in coordinators))

    # -- what is passed on

    def surely_here(self, group_ids: Iterable[str]) -> bool:
        """Whether no other shim can have changed by now in whose hands any of these groups is."""
        return all(self._runtime.is_surely_ours(self._runtime.partition_of(group_id)) for group_id in group_ids)

    async def confirmed_here(self, group_ids: Iterable[str]) -> ErrorCode:
        """NONE when no other shim has changed that by some moment since the call; otherwise why that is not known."""
        numbers = {self._runtime.partition_of(group_id) for group_id in group_ids}
        asked = (ask(self._runtime, number, lambda _: ErrorCode.NONE) for number in numbers)
        errors: list[ErrorCode] = await asyncio.gather(*asked)
        return next(filter(None, errors), ErrorCode.NONE)

    def may_arrive_seconds(self, group_id: str) -> float:
        """For how long yet something may be done at the cluster that another shim has sent there for the group while it
        had it; nobody must take the group over, or give it back, before. 0.0 for nothing."""
        came_at = self._came_at.get(self._runtime.partition_of(group_id))
        if came_at is None:
            return 0.0
        # A third one may have the client, and have passed it on at the word of the one that had the group.
        over_at = came_at + PASSED_ON_WITHIN_SECONDS + ARRIVES_WITHIN_SECONDS
        return max(0.0, over_at - time.monotonic())

    def passing(self, group_ids: Iterable[str], answered: asyncio.Future[bytes]) -> None:
        """Something that may change offsets of these groups, or give somebody partitions, is on its way to the cluster,
        until that is done."""
        on_their_way = list(group_ids)
        for group_id in on_their_way:
            placement = self.open(group_id)
            placement.in_flight += 1
            placement.idle.clear()

        def over(_: asyncio.Future[bytes]) -> None:
            for group_id in on_their_way:
                placement = self._open[group_id]
                placement.in_flight -= 1
                if not placement.in_flight:
                    placement.idle.set()
                self.close(group_id)

        answered.add_done_callback(over)

    def saw(self, group_id: str, member_id: str, generation: int) -> None:
        """A request of a member has come here."""
        if not member_id:
            return
        if len(self._seen) >= _SEEN_MOST:
            self._seen.clear()
        self._seen[group_id, member_id] = Seen(time.monotonic(), generation)

    def seen(self, group_id: str, member_id: str, within_seconds: float) -> Seen | None:
        found = self._seen.get((group_id, member_id))
        return found if found is not None and time.monotonic() - found.at <= within_seconds else None

    def silent_seconds(self, group_id: str, member_id: str) -> float | None:
        """Since the last request of a member has come here; None where that is not known: it may have come another way,
        or none."""
        found = self._seen.get((group_id, member_id))
        return None if found is None else time.monotonic() - found.at

    def gathering(self, group_id: str) -> Gathering | None:
        """The one that is under way."""
        placement = self._open.get(group_id)
        return placement.gathering if placement is not None else None

    def change(self, group_id: str, placement: Placement, *, changing: bool) -> None:
        """From here on nobody decides about the group, or somebody does again."""
        placement.changing = changing
        coordinator = self._runtime.coordinator_of(group_id)
        if coordinator is not None:
            coordinator.close_group(group_id, closed=changing)

    async def certain(self, group_id: str) -> None:
        """Wait until the last word on the group is durable, or has been read back from what is, or somebody else has
        that."""
        number = self._runtime.partition_of(group_id)
        await self._runtime.settled(number)
        while self._runtime.coordinator(number) is None and not self._runtime.is_owned_elsewhere(number):
            await self._reloaded.setdefault(number, asyncio.Event()).wait()

    def open(self, group_id: str) -> Placement:
        """To be given back with :meth:`close`."""
        return self._open.setdefault(group_id, Placement())

    def close(self, group_id: str) -> None:
        placement = self._open.get(group_id)
        if placement is not None and placement.is_over:
            del self._open[group_id]


def _take_in_hand(
    group_id: str, hands: Hands, cause: str, step: Step, coordinator: GroupCoordinator, now: int, ticket: Any
) -> Outcome:
    found = coordinator.hands_of(group_id)
    if found is not None:  # since it was asked for
        hands, step = found, coordinator.step_of(group_id)
    from_zookeeper = step is not Step.KAFKA
    return coordinator.take_in_hand(now, group_id, hands, cause, ticket, step, from_zookeeper=from_zookeeper)
