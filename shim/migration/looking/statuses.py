"""Groups of which it is known in whose hands they are, as they are now."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from heapq import merge
from typing import Final

from protocol.group_kinds import kind_of
from protocol.messages.describe_groups import DescribedGroup
from protocol.own.state_log import Hands, Step
from shim.migration.hands.placements import SERVED, Placements
from shim.migration.mirror.guard import Guard
from shim.migration.reader import GroupReader
from shim.migration.stores import Stores
from shim.migration.strangers import named
from shim.migration.words import PASSED_THROUGH, STEP_NAMES, UNKNOWN, GroupStatus, NotKnown
from shim.offsets.cluster.describing import DEAD, LOOK_SECONDS
from shim.offsets.cluster.groups import ClusterGroups
from shim.runtime import Clock, Runtime
from shim.upstream.errors import UpstreamError

_STATUSES_AT_ONCE: Final = 100
_NAMES_AT_ONCE: Final = 1_000


class Statuses:
    """For the event loop."""

    def __init__(
        self,
        runtime: Runtime,
        cluster_groups: ClusterGroups,
        placements: Placements,
        reader: GroupReader,
        stores: Stores,
        guard: Guard,
        clock: Clock,
    ) -> None:
        self._runtime = runtime
        self._cluster_groups = cluster_groups
        self._placements = placements
        self._reader = reader
        self._stores = stores
        self._guard = guard
        self._clock = clock

    async def of_one(self, group: str) -> GroupStatus:
        """As :meth:`of`."""
        (status,) = await self.of([group])
        return status

    async def of(self, groups: Sequence[str] | None) -> Sequence[GroupStatus]:
        """Of these groups, or of all of which it is known in whose hands they are, and that are not gone. For what the
        cluster has to say of those that are passed through each broker has so long in all: one looks here when they
        hang. Raises NotKnown, Refused."""
        found = await self._known_of(groups)
        passed_through = [group for group, its in found.items() if its.state == UNKNOWN]
        described = await self._cluster_groups.all_described(passed_through, LOOK_SECONDS)
        found |= {group: _as_described(found[group], its) for group, its in described.items()}
        return [its for its in found.values() if groups is not None or not _is_gone(its)]

    async def of_served(self) -> Sequence[GroupStatus]:
        """As :meth:`of` all, of those in the shim's hands: the cluster is not asked. Raises Refused."""
        found = await self._known_of(None)
        return [its for its in found.values() if its.step != PASSED_THROUGH and not _is_gone(its)]

    async def _known_of(self, groups: Sequence[str] | None) -> dict[str, GroupStatus]:
        """As :meth:`_known_here`; None: of all."""
        found: dict[str, GroupStatus] = {}
        for number, group in enumerate(await self._known() if groups is None else groups):
            if number % _STATUSES_AT_ONCE == 0:
                await asyncio.sleep(0)  # those of groups that are served wait for nobody: clients have their turn
            try:
                found[group] = self._known_here(group)
            except NotKnown:
                if groups is not None:  # otherwise it has gone meanwhile
                    raise
        return found

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

    def _known_here(self, group: str) -> GroupStatus:
        """Its state is UNKNOWN where it is passed through. Raises NotKnown, Refused."""
        coordinator = self._reader.coordinator(group)
        hands, word = coordinator.hands_of(group), coordinator.hands().get(group)
        if hands is None:
            raise not_heard_of(group)
        since, cause = (word.time, word.cause) if word is not None else (None, "")
        if hands is not Hands.SERVED:
            return GroupStatus(group, PASSED_THROUGH, UNKNOWN, None, since, cause, alarm=self._awaited(group))
        described, now = coordinator.own_description(group), self._clock.now()
        alarms = (
            self._awaited(group),
            self._guard.alarm(group),
            self._stores.mirror.alarm(group),
            self._stores.why(group),
        )
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

    def _awaited(self, group: str) -> str:
        """For whom it waits that changes hands; "" for nobody."""
        gathering = self._placements.gathering(group)
        awaited = [] if gathering is None else gathering.awaited
        return f"it changes hands as soon as these have joined again: {named(awaited)}" if awaited else ""


def not_heard_of(group: str) -> NotKnown:
    """To be raised."""
    return NotKnown(
        f"this shim has not heard of a group {group} yet (`groups list` shows those that it knows, `migrate plan` what "
        "could be started)"
    )


def _as_described(status: GroupStatus, described: DescribedGroup | UpstreamError) -> GroupStatus:
    """By the cluster, or not: what else is known is told."""
    if isinstance(described, UpstreamError):
        return status._replace(alarm="; ".join(filter(None, (status.alarm, str(described)))))
    state, members = described.group_state, len(described.members)
    return status._replace(state=state, members=members, type=kind_of(described).type)


def _is_gone(status: GroupStatus) -> bool:
    """Without members and offsets where it is, and nowhere else: as brokers list no such group, though in whose hands
    it was stays known."""
    return status.state == DEAD and status.step in (STEP_NAMES[Step.KAFKA], PASSED_THROUGH) and not status.alarm
