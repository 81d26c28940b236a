"""In whose hands each group is, as requests need to know it, and what is under way with it meanwhile. Of one that is
UNKNOWN yet first_contact.py finds it out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from enum import Enum, auto
from typing import Final

from protocol.errors import ErrorCode
from protocol.own.state_log import Hands, Step
from shim.coordinator import GroupCoordinator
from shim.migration.deciding import ask
from shim.migration.hands.gathering import Gathering
from shim.migration.hands.members_seen import MembersSeen
from shim.runtime import Runtime
from shim.upstream.errors import ARRIVES_WITHIN_SECONDS, PASSED_ON_WITHIN_SECONDS


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

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.members = MembersSeen()
        """Of groups that are passed through."""
        self._open: dict[str, Placement] = {}
        self._reloaded: dict[int, asyncio.Event] = {}
        self._came_at: dict[int, float] = {}
        runtime.watch(self._served)

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

    def of(self, group_id: str) -> Whose:
        """SERVED, too, while its partition is not loaded: why it is not served is answered there."""
        coordinator = self._runtime.coordinator_of(group_id)
        if coordinator is None:
            return Whose.SERVED
        if self._open and (placement := self._open.get(group_id)) is not None and placement.changing:
            return Whose.CHANGING
        if coordinator.has_stores(group_id):
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
