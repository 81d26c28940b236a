"""Offsets out of a live cluster."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from protocol.offsets_log import OffsetCommitKey
from shim.admin.progress import Progress
from shim.admin.transfer.group_offsets import GroupOffsets
from shim.admin.transfer.live_brokers import LiveBrokers
from shim.admin.transfer.live_cluster import NOBODY, LiveCluster
from shim.config import HostPort

_GROUPS_AT_ONCE: Final = 500


class LiveOffsets(NamedTuple):
    """``offsets`` of the groups that were asked for, and which of them have members. ``groups``: how many there are in
    the cluster."""

    offsets: GroupOffsets
    cluster_id: str | None
    groups: int


async def read_cluster(servers: Sequence[HostPort], groups: Collection[str], progress: Progress) -> LiveOffsets:
    """Of these groups, or of all. Raises UpstreamError."""
    offsets = GroupOffsets()
    async with LiveBrokers(servers) as brokers:
        cluster = LiveCluster(brokers)
        listed = await cluster.groups()
        chosen = [group for group in listed if not groups or group in groups]
        with progress("reading", len(chosen)) as ongoing:
            for at in range(0, len(chosen), _GROUPS_AT_ONCE):
                some = chosen[at : at + _GROUPS_AT_ONCE]
                for group, committed in (await cluster.offsets_of(some)).items():
                    for (topic, partition), its in committed.items():
                        offsets.set(OffsetCommitKey(group, topic, partition), its)
                ongoing.advance(len(some))
    # Brokers before 2.6 do not say.
    offsets.with_members |= {group for group in chosen if listed[group].state not in ("", *NOBODY)}
    return LiveOffsets(offsets, brokers.cluster_id, len(listed))
