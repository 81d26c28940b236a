"""A group that is served goes from step to step: other places get its offsets, too, or no longer have a say in them.

A step is taken while nobody decides about the group, which takes as long as its places need to be compared: what
differs then is told, partition by partition, and the step is not taken. Consumers that write to ZooKeeper themselves go
on meanwhile; what they write is carried over before, and after.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

from protocol.own.state_log import IN_ZOOKEEPER, ZOOKEEPER_IS_RIGHT, Hands, Step
from shim.counted import some_of
from shim.migration.compared import differences_to_cluster, refused, without
from shim.migration.hands.placements import SERVED
from shim.migration.moving.locks import GroupLocks, LockedGroup
from shim.migration.reader import GroupReader
from shim.migration.stores import Stores
from shim.migration.words import STEP_NAMES, Difference, Refused, Verified
from shim.offsets.store import StoreError, StoreUnavailable
from shim.upstream.errors import UpstreamError

log = logging.getLogger(__name__)

_LOOKS: Final = 5
"""At places that differ, where somebody writes to one of them all the time."""
_STEP_SECONDS: Final = 30.0
"""The longest for which clients of the group are told to ask again."""


class Stepping:
    """For the event loop."""

    def __init__(self, locks: GroupLocks, reader: GroupReader, stores: Stores) -> None:
        self._locks = locks
        self._reader = reader
        self._stores = stores

    async def move(self, group: str, step: Step, cause: str) -> None:
        """From the step at which the group is. Raises Refused."""
        async with self._locks.locked(group, SERVED, "is not served by the shim") as locked:
            coordinator = self._reader.coordinator(group)
            before = coordinator.step_of(group)
            if before in IN_ZOOKEEPER:
                await self._look_at_consumers(group, step)
            await locked.quiet()
            if step in ZOOKEEPER_IS_RIGHT:  # which knows none
                locked.not_in_transaction()
            if before in IN_ZOOKEEPER or step in IN_ZOOKEEPER:
                limit = asyncio.timeout(_STEP_SECONDS)
                try:
                    async with limit:
                        await self._with_zookeeper(locked, before, step, cause, limit)
                except TimeoutError:
                    raise Refused(f"group {group}: ZooKeeper takes longer than {_STEP_SECONDS:g} s") from None
            else:
                await self._with_cluster(group, step)
                await self._take(locked, step, cause)
            log.info("group %s: %s from now on, it was %s (%s)", group, STEP_NAMES[step], STEP_NAMES[before], cause)

    async def hindrance(self, group: str, before: Step, step: Step, within_seconds: float) -> str:
        """Why it would be refused beside what differs; "" for nothing. ``within_seconds``: how long a broker is waited
        for. Raises StoreError, UpstreamError."""
        try:
            if before in IN_ZOOKEEPER:
                await self._look_at_consumers(group, step)
        except Refused as error:
            return str(error)
        return await self._reader.in_cluster(group, within_seconds) if step is Step.UPSTREAM_DUAL else ""

    async def _with_zookeeper(
        self, locked: LockedGroup, before: Step, step: Step, cause: str, limit: asyncio.Timeout
    ) -> None:
        group, zookeeper = locked.group, self._stores.zookeeper
        if before not in IN_ZOOKEEPER:
            await self._bring(group)
        differing: list[Difference] = []
        for look in range(_LOOKS):
            if before in IN_ZOOKEEPER:  # what is told is read again below: as a rule it is all there is
                await (zookeeper.refresh(group) if look else zookeeper.follow(group))
            async with zookeeper.outbox.alone(group):
                there, differing = await zookeeper.compare(group)
                if differing:
                    continue
                await self._look_at_consumers(group, step)
                if step not in ZOOKEEPER_IS_RIGHT:
                    await zookeeper.note_all(group, there)
                elif differing := zookeeper.differing(group, there):
                    continue  # offsets have expired, or gone with their topic, meanwhile
                limit.reschedule(None)  # what is decided from here on is, however long it takes
                await self._take(locked, step, cause)
                if step in IN_ZOOKEEPER:
                    zookeeper.enter(group, there)
                else:
                    zookeeper.leave(group)
                    zookeeper.consumers.forget(group)
                return
        raise refused(group, differing, "what its places hold differs")

    async def _bring(self, group: str) -> None:
        """Consumers with dual commit on their own write to ZooKeeper what they have just committed here: one may be
        about to."""
        strange: list[Difference] = []
        for _ in range(_LOOKS):
            strange = await self._stores.zookeeper.bring(group)
            if not strange:
                return
        raise refused(group, strange, "ZooKeeper was written past the shim")

    async def _look_at_consumers(self, group: str, step: Step) -> None:
        """Before any step, so that it is known at the next one of those that have committed meanwhile."""
        doubtful = await self._stores.zookeeper.consumers.doubtful(group)
        if doubtful and step not in IN_ZOOKEEPER:
            raise Refused(_may_write_past(group, doubtful))

    async def _with_cluster(self, group: str, step: Step) -> None:
        """To or from a step at which the cluster's own offsets are kept up to date before anybody is answered."""
        if step is Step.UPSTREAM_DUAL and (who := await self._reader.in_cluster(group)):
            raise Refused(who)
        try:
            differing = await self._cluster_differences(group, _STEP_SECONDS)
        except (StoreError, UpstreamError) as error:
            if step is Step.UPSTREAM_DUAL:
                raise
            # The log is right, and that the cluster does not take offsets may be why somebody goes back.
            log.warning("group %s is not compared to the cluster on its way back: %s", group, error)
            return
        if differing:
            raise refused(group, differing, f"it cannot be {STEP_NAMES[step]}")

    async def _take(self, locked: LockedGroup, step: Step, cause: str) -> None:
        from_zookeeper = self._reader.coordinator(locked.group).from_zookeeper(locked.group)
        await locked.take_in_hand(Hands.SERVED, cause, step, from_zookeeper=from_zookeeper)

    async def verify(self, group: str, within_seconds: float) -> Verified:
        """Compare what the log has with every other place that has to have it. ``within_seconds``: how long a broker is
        waited for. Raises Refused, UpstreamError, StoreError."""
        step = self._reader.coordinator(group).step_of(group)
        differing: list[Difference] = []
        if step in IN_ZOOKEEPER:
            self._stores.in_sight()
            differing += await _lasting(partial(self._zookeeper_differences, group))
        if step is Step.UPSTREAM_DUAL or self._stores.mirror.is_on:
            differing += await _lasting(partial(self._cluster_differences, group, within_seconds))
        return Verified(group, len(await self._reader.own_offsets(group)), differing)

    async def _zookeeper_differences(self, group: str) -> list[Difference]:
        await self._stores.zookeeper.refresh(group)
        return (await self._stores.zookeeper.compare(group))[1]

    async def _cluster_differences(self, group: str, within_seconds: float) -> list[Difference]:
        self._stores.mirror.try_nowhere(group)
        try:
            async with asyncio.timeout(within_seconds):
                await self._stores.mirror.fed(group)
        except TimeoutError:
            what = f"the cluster has not said in {within_seconds:g} s that it has the newest offsets"
            raise StoreUnavailable(what) from None
        there = await self._reader.cluster_offsets(group, within_seconds)
        own = without(await self._reader.own_offsets(group), self._stores.mirror.nowhere(group))
        return differences_to_cluster(own, there)


async def _lasting(look: Callable[[], Awaitable[list[Difference]]]) -> list[Difference]:
    """While somebody commits all the time, what is read second is newer; but then the other place has moved on at the
    next look, as it is brought up to date before each. What it still has then differs."""
    differing = await look()
    for _ in range(_LOOKS - 1):
        before = {(each.topic, each.partition, each.elsewhere) for each in differing}
        if not before:
            break
        differing = [each for each in await look() if (each.topic, each.partition, each.elsewhere) in before]
    return differing


def _may_write_past(group: str, consumers: Sequence[str]) -> str:
    those = (
        "consumer in ZooKeeper that is not known to commit to the shim"
        if len(consumers) == 1
        else "consumers in ZooKeeper that are not known to commit to the shim"
    )
    return (
        f"group {group} has {len(consumers)} {those}: {some_of(consumers)}."
        " Those with offsets.storage=zookeeper have to leave first, what they commit would not be seen any more;"
        " of those with kafka it is known once they have committed a partition that they own: try again then"
    )
