"""Offsets committed to a live cluster, for groups that nobody is in there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from shim.admin.progress import Progress
from shim.admin.transfer.group_offsets import GroupOffsets, differences
from shim.log.checkpoint import TopicPartition
from shim.offsets.cluster.describing import NOBODY
from shim.offsets.cluster.groups import ClusterGroups, Committed
from shim.upstream.errors import UpstreamError

WRITTEN, UNCHANGED, REFUSED, WOULD_WRITE = "written", "unchanged", "refused", "would be written"


class Exported(NamedTuple):
    """What became of one group. ``problems``: why it was refused, partitions that were, and what differs when read
    back."""

    group: str
    offsets: Committed
    outcome: str
    problems: list[str]


async def export_to_cluster(
    cluster: ClusterGroups,
    offsets: GroupOffsets,
    groups: Sequence[str],
    progress: Progress,
    *,
    replace: bool,
    dry_run: bool,
) -> list[Exported]:
    """Group by group; what one group is refused for keeps none of the others. Raises UpstreamError."""
    states = {group: listed.state for group, listed in (await cluster.groups()).items()}
    exported = []
    with progress("writing", len(groups)) as ongoing:
        for group in groups:
            its = offsets.of(group)
            state = (states[group] or await cluster.state_of(group)) if group in states else "Dead"
            if state not in NOBODY:
                reason = f"group {group} has members there (it is {state}): they would not take the offsets"
                exported.append(Exported(group, its, REFUSED, [reason]))
            else:
                exported.append(await _export(cluster, group, its, replace=replace, dry_run=dry_run))
            ongoing.advance(1)
    return exported


async def _export(cluster: ClusterGroups, group: str, offsets: Committed, *, replace: bool, dry_run: bool) -> Exported:
    if not await cluster.keeps_leader_epochs(group):
        offsets = {at: its._replace(leader_epoch=-1) for at, its in offsets.items()}
    present = await cluster.offsets_of_one(group)
    if _served(present) == _served(offsets):
        return Exported(group, offsets, UNCHANGED, [])
    if present and not replace:
        reason = f"group {group} has other offsets there already: --replace puts these in their place"
        return Exported(group, offsets, REFUSED, [reason])
    if dry_run:
        return Exported(group, offsets, WOULD_WRITE, [])
    try:
        problems = await cluster.commit(group, offsets)
        if stale := sorted(present.keys() - offsets.keys()):
            problems += await cluster.delete(group, stale)
    except UpstreamError as error:
        problems = [str(error)]
    found = await cluster.offsets_of_one(group)
    problems += [f"group {group} {difference}" for difference in differences(_served(offsets), _served(found))]
    return Exported(group, offsets, WRITTEN, problems)


def _served(offsets: Committed) -> dict[TopicPartition, tuple[int, int, str]]:
    """Of each offset what a broker tells: offset, leader epoch, metadata."""
    return {at: (its.offset, its.leader_epoch, its.metadata) for at, its in offsets.items()}
