"""Offsets committed to a live cluster, for groups that nobody is in there."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from protocol.topic_partition import TopicPartition
from shim.admin.progress import Progress
from shim.admin.transfer.group_offsets import GroupOffsets, differences
from shim.offsets.cluster.brokers import Brokers
from shim.offsets.cluster.describing import NOBODY
from shim.offsets.cluster.groups import ClusterGroups, Committed
from shim.upstream.errors import UpstreamError
from shim.upstream.log_ends import log_ends

Ends = Mapping[TopicPartition, int | UpstreamError]
"""Where the logs of partitions end there; or why that cannot be told, as where there is no such partition."""

WRITTEN, UNCHANGED, REFUSED, WOULD_WRITE = "written", "unchanged", "refused", "would be written"


class Exported(NamedTuple):
    """What became of one group. ``problems``: why it was refused, partitions that were, and what differs when read
    back."""

    group: str
    offsets: Committed
    outcome: str
    problems: list[str]


async def export_to_cluster(
    brokers: Brokers,
    offsets: GroupOffsets,
    groups: Sequence[str],
    progress: Progress,
    *,
    replace: bool,
    dry_run: bool,
) -> list[Exported]:
    """Group by group; what one group is refused for keeps none of the others, nor one partition the others of its
    group. Raises UpstreamError."""
    cluster = ClusterGroups(brokers)
    states = {group: listed.state for group, listed in (await cluster.groups()).items()}
    ends = await _ends(brokers, {at for group in groups for at in offsets.of(group)})
    exported = []
    with progress("writing", len(groups)) as ongoing:
        for group in groups:
            its = offsets.of(group)
            state = (states[group] or await cluster.state_of(group)) if group in states else "Dead"
            if state not in NOBODY:
                reason = f"group {group} has members there (it is {state}): they would not take the offsets"
                exported.append(Exported(group, its, REFUSED, [reason]))
            else:
                exported.append(await _export(cluster, group, its, ends, replace=replace, dry_run=dry_run))
            ongoing.advance(1)
    return exported


async def _ends(brokers: Brokers, partitions: Collection[TopicPartition]) -> Ends:
    found = await log_ends(brokers, partitions)
    return {at: found[at] for at in partitions}


async def _export(
    cluster: ClusterGroups, group: str, offsets: Committed, ends: Ends, *, replace: bool, dry_run: bool
) -> Exported:
    if not await cluster.keeps_leader_epochs(group):
        offsets = {at: its._replace(leader_epoch=-1) for at, its in offsets.items()}
    left_out = {at: why for at, its in sorted(offsets.items()) if (why := _does_not_fit(its.offset, ends[at]))}
    problems = [f"group {group} {at}: {why}" for at, why in left_out.items()]
    fitting = {at: its for at, its in offsets.items() if at not in left_out}
    if not fitting:
        return Exported(group, offsets, REFUSED, problems)
    present = await cluster.offsets_of_one(group)
    if _served(present, but=left_out) == _served(fitting):
        return Exported(group, offsets, UNCHANGED, problems)
    if present and not replace:
        reason = f"group {group} has other offsets there already: --replace puts these in their place"
        return Exported(group, offsets, REFUSED, [*problems, reason])
    if dry_run:
        return Exported(group, offsets, WOULD_WRITE, problems)
    try:
        problems += await cluster.commit(group, fitting)
        if stale := sorted(present.keys() - offsets.keys()):
            problems += await cluster.delete(group, stale)
    except UpstreamError as error:
        problems += [str(error)]
    found = await cluster.offsets_of_one(group)
    wrong = differences(_served(fitting), _served(found, but=left_out))
    return Exported(group, offsets, WRITTEN, problems + [f"group {group} {difference}" for difference in wrong])


def _does_not_fit(offset: int, end: int | UpstreamError) -> str:
    """Why an offset means nothing there; "" where it does. One before the log's beginning does: it is behind."""
    if isinstance(end, UpstreamError):
        return f"not written, as nobody says where its log ends there ({end})"
    return f"not written, as {offset} is past the end of its log there, {end}" if offset > end else ""


def _served(offsets: Committed, *, but: Collection[TopicPartition] = ()) -> dict[TopicPartition, tuple[int, int, str]]:
    """Of each offset what a broker tells: offset, leader epoch, metadata."""
    return {at: (its.offset, its.leader_epoch, its.metadata) for at, its in offsets.items() if at not in but}
