"""How far groups are behind: what they have committed, beside where the partitions end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from protocol.own.state_log import Hands
from protocol.topic_partition import Partition
from shim.config import Settings
from shim.coordinator import GroupCoordinator
from shim.runtime import Runtime
from shim.upstream.kept_log_ends import LogEnds
from shim.upstream.log_ends import lag_of

_PATIENCE_SECONDS: Final = 3.0
"""Whoever looks at many groups waits for the brokers so long; what they said before is shown then."""

_AT_ONCE: Final = 100


class Lag(NamedTuple):
    """Of one partition. ``end``: its high watermark, as its leader has said lately; None where none has. ``lag``: as
    :func:`shim.upstream.log_ends.lag_of` counts it."""

    committed: int
    end: int | None
    lag: int | None


GroupLag = Mapping[Partition, Lag]
"""By topic and partition."""


class Look(NamedTuple):
    """``groups``: those that there was room for. ``left_out``: committed offsets beyond that."""

    groups: Mapping[str, GroupLag]
    left_out: int


class Lags:
    """Of the groups that the shim serves. For the event loop."""

    def __init__(self, runtime: Runtime, ends: LogEnds, settings: Settings) -> None:
        self._runtime = runtime
        self._ends = ends
        self._most = settings.metrics_lag_max_series

    async def look(self) -> Look:
        """At as many partitions as ``metrics.lag.max.series`` says: groups in the order of their offsets partition, and
        in that of their first appearance, so that they are the same ones the next time.

        Brokers that do not answer in time leave what they have said before.
        """
        committed: dict[str, Mapping[Partition, int]] = {}
        room = self._most
        for coordinator in self._coordinators():
            for number, group in enumerate(list(coordinator.group_ids())):
                if room <= 0:
                    break
                if number % _AT_ONCE == 0:
                    await asyncio.sleep(0)  # of groups without offsets, too, there may be any number
                found = dict(list(_committed(coordinator, group).items())[:room])
                if found:
                    committed[group] = found
                    room -= len(found)
                    await asyncio.sleep(0)  # clients have their turn
        wanted = {at for of_group in committed.values() for at in of_group}
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                ends = await self._ends.of(wanted)
        except TimeoutError:
            ends = self._ends.known(wanted)
        left_out = max(0, sum(each.offset_count for each in self._coordinators()) - (self._most - room))
        return Look({group: _beside(of_group, ends) for group, of_group in committed.items()}, left_out)

    @property
    def age_seconds(self) -> float | None:
        """Since when brokers were asked last; None where they never were."""
        asked_at = self._ends.last_asked_at
        return None if asked_at is None else time.monotonic() - asked_at

    def _coordinators(self) -> Iterator[GroupCoordinator]:
        return filter(None, map(self._runtime.coordinator, range(self._runtime.num_partitions)))


def _committed(coordinator: GroupCoordinator, group: str) -> dict[Partition, int]:
    """Durable or not."""
    if coordinator.hands_of(group) is not Hands.SERVED:
        return {}
    answer = coordinator.own_offsets(group)
    return {
        (topic.name, each.partition_index): each.committed_offset
        for topic in answer.topics
        for each in topic.partitions
        if not each.error_code and each.committed_offset >= 0
    }


def _beside(offsets: Mapping[Partition, int], ends: Mapping[Partition, int]) -> GroupLag:
    found = {}
    for at, committed in offsets.items():
        end = ends.get(at)
        found[at] = Lag(committed, end, lag_of(committed, end))
    return found
