"""Offsets out of a live cluster."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from protocol.offsets_log import OffsetCommitKey
from shim.admin.progress import Progress
from shim.admin.transfer.group_offsets import GroupOffsets
from shim.admin.transfer.live_brokers import LiveBrokers
from shim.config import HostPort, Settings
from shim.offsets.cluster.describing import NOBODY, Shown
from shim.offsets.cluster.groups import ClusterGroups
from shim.upstream.errors import UpstreamError

_GROUPS_AT_ONCE: Final = 500


class LiveOffsets(NamedTuple):
    """``offsets`` of the groups that were asked for, and which of them have members. ``groups``: how many that are.
    ``may_lack``: where an authorizer may have left out topics that the one who asked may not describe.
    """

    offsets: GroupOffsets
    cluster_id: str | None
    groups: int
    may_lack: bool


async def read_cluster(
    servers: Sequence[HostPort], settings: Settings, groups: Collection[str], progress: Progress
) -> LiveOffsets:
    """Of these groups, or of all.

    Raises UpstreamError, also where not all groups are shown to the one who asks: a part would look like all.
    """
    offsets = GroupOffsets()
    async with LiveBrokers(servers, settings) as brokers:
        cluster = ClusterGroups(brokers)
        shown = await cluster.shown()
        if groups:
            states = {group: await cluster.state_of(group) for group in groups}
        elif shown is Shown.SOME_GROUPS:
            raise UpstreamError(
                "not all groups are shown: allow it Describe on the cluster, or name groups with --group (each needs "
                "Describe on the group)"
            )
        else:
            states = {group: listed.state for group, listed in (await cluster.groups()).items()}
        chosen = list(states)
        with progress("reading", len(chosen)) as ongoing:
            for at in range(0, len(chosen), _GROUPS_AT_ONCE):
                some = chosen[at : at + _GROUPS_AT_ONCE]
                for group, committed in (await cluster.offsets_of(some)).items():
                    for (topic, partition), its in committed.items():
                        offsets.set(OffsetCommitKey(group, topic, partition), its)
                ongoing.advance(len(some))
    # Brokers before 2.6 do not say.
    offsets.with_members |= {group for group, state in states.items() if state not in ("", *NOBODY)}
    return LiveOffsets(offsets, brokers.cluster_id, len(chosen), shown is not Shown.ALL)
