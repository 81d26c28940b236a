"""A group as it is, wherever that is to be read; nothing is decided, and nothing kept."""

from __future__ import annotations

import math

from protocol.group_kinds import kind_of
from protocol.own.state_log import Step
from shim.coordinator import GroupCoordinator
from shim.migration.deciding import coordinator_of
from shim.migration.hands.placements import SERVED, Placements
from shim.migration.own_offsets import NotReadable, own_offsets
from shim.migration.strangers import past_the_shim
from shim.migration.words import Refused
from shim.offsets.cluster.describing import NOBODY
from shim.offsets.cluster.groups import ClusterGroups, Committed
from shim.runtime import Runtime


class GroupReader:
    """For the event loop. Unless a group is locked (:mod:`shim.migration.moving.locks`) it may be otherwise by the time
    that somebody goes by what was read."""

    def __init__(self, runtime: Runtime, cluster_groups: ClusterGroups, placements: Placements) -> None:
        self._runtime = runtime
        self._cluster_groups = cluster_groups
        self._placements = placements

    def has_coordinator(self, group: str) -> bool:
        """Here, and now."""
        return self._runtime.coordinator_of(group) is not None

    def coordinator(self, group: str) -> GroupCoordinator:
        """Raises Refused while there is none."""
        return coordinator_of(self._runtime, group)

    def step(self, group: str) -> Step | None:
        """At which it is; None of one that is passed through. Raises Refused as :meth:`coordinator`."""
        return self.coordinator(group).step_of(group) if self._placements.of(group) in SERVED else None

    def too_early(self, group: str) -> str:
        """Why it cannot go into other hands yet, said of it; "" where nothing of before is on its way."""
        seconds = self._placements.may_arrive_seconds(group)
        if seconds <= 0:
            return ""
        return (
            "is at this shim since a moment ago, and what was sent to the cluster for it before, by this shim or by "
            f"another, may be done there yet: try again in {math.ceil(seconds)} s"
        )

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

    async def in_cluster(self, group: str, within_seconds: float | None = None) -> str:
        """Who is in the group there, past the shim, or of which kind it is, which keeps it from being written there, or
        from going there, and what to do; "" for nobody. ``within_seconds``: see :meth:`ClusterGroups.listed`. Raises
        UpstreamError."""
        described = await self._cluster_groups.described(group, within_seconds)
        if described.group_state in NOBODY and not kind_of(described).stays:
            return ""
        past = past_the_shim(described, described.members)
        return f"group {group}: {past.they}; {past.what_to_do}"
