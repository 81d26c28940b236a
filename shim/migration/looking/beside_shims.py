"""Whether shims that share a log on topics serve in front of this cluster, to which this shim does not belong."""

from __future__ import annotations

import time
from typing import Final

from protocol.own.shim_group import PROTOCOL_TYPE
from shim.config import Settings
from shim.migration.words import Refused
from shim.offsets.cluster.describing import LOOK_SECONDS, NOBODY, Listed, LiveGroup
from shim.offsets.cluster.groups import ClusterGroups
from shim.upstream.errors import UpstreamError

_ALONE_SECONDS: Final = 5.0
"""For so long it is gone by that no other shims were there: thousands of groups are started in a row."""


class BesideShims:
    """For the event loop. Any group that the cluster knows may be served by them."""

    def __init__(self, cluster_groups: ClusterGroups, settings: Settings) -> None:
        self._cluster_groups = cluster_groups
        # With a prefix of its own for its topics, whoever has set it has said that others have other groups.
        self._is_looked_for = settings.offsets_log != "kafka"
        self._alone_until = 0.0

    async def why_not(self) -> str:
        """Why nothing is taken over here; "" where there are none. Raises Refused where that cannot be told."""
        if not self._is_looked_for or time.monotonic() < self._alone_until:
            return ""
        listed = await self._cluster_groups.listed(LOOK_SECONDS)
        if len(listed.unanswered) == listed.asked:
            raise _not_listed(listed)
        shims = sorted(group for group, its in listed.groups.items() if its.protocol_type == PROTOCOL_TYPE)
        for group in shims:
            if await has_members(self._cluster_groups, listed.groups[group]):
                return (
                    "shims that share a log on topics serve in front of this cluster, and this one is none of them: "
                    f"they are in group {group}"
                )
        if not listed.is_whole:  # theirs may be there
            raise _not_listed(listed)
        self._alone_until = time.monotonic() + _ALONE_SECONDS
        return ""

    async def refuse(self, group: str) -> None:
        """Raises Refused where the group is not taken over for that."""
        if why := await self.why_not():
            raise Refused(f"group {group}: {why}")


async def has_members(cluster_groups: ClusterGroups, group: LiveGroup) -> bool:
    """Raises Refused."""
    try:  # brokers before Kafka 2.6 list no states
        return (group.state or await cluster_groups.state_of(group.group)) not in NOBODY
    except UpstreamError as error:
        raise Refused(f"the cluster cannot be asked for group {group.group}: {error}") from error


def _not_listed(listed: Listed) -> Refused:
    return Refused(f"the cluster cannot be asked for its groups: {listed.trouble}")
