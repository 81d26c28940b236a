"""A group in detail: its members, its offsets, how far they are behind the logs' ends, and who committed last."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from protocol.consumer import decode_assignment
from protocol.errors import DecodeError
from protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from protocol.own.state_log import Hands
from shim.coordinator import GroupCoordinator
from shim.groups.history import History
from shim.groups.last_commits import LastCommits
from shim.groups.words import NO_OFFSET, Details, Member, Moved, NotKnown, OffsetAt, Partition, Refused
from shim.migration.own_offsets import NotReadable, own_offsets
from shim.offsets.cluster.groups import ClusterGroups, Committed
from shim.runtime import Runtime
from shim.upstream.errors import UpstreamError
from shim.upstream.log_ends import Asked, lag_of, log_ends
from shim.upstream.log_ends import Partition as LogOf

log = logging.getLogger(__name__)

_CONSUMER_PROTOCOL: Final = "consumer"


class Looking:
    """For the event loop. Everything raises UpstreamError, Refused, NotKnown."""

    def __init__(self, runtime: Runtime, cluster_groups: ClusterGroups, brokers: Asked, history: History) -> None:
        self._runtime = runtime
        self._cluster_groups = cluster_groups
        self._brokers = brokers
        self._last_commits = LastCommits(history)

    async def details(self, group: str, *, with_last_commit: bool = True) -> Details:
        """``with_last_commit``: that alone needs the history on the disk, which knows nothing of what others commit at
        the cluster while a group is passed through."""
        described = await self.described(group)
        members = [_member(each, described) for each in described.members]
        assigned = {at for member in members for at in member.partitions or ()}
        offsets = {**dict.fromkeys(assigned, NO_OFFSET), **(await self.offsets([group]))[group]}
        generation = self._coordinator(group).generation(group) if self._is_served(group) else None
        times = self._coordinator(group).commit_times(group) if self._is_served(group) else {}
        return Details(
            described.protocol_type,
            members,
            await self._behind(offsets, times),
            await self._last_commit(group) if with_last_commit and self._is_served(group) else None,
            generation,
        )

    async def described(self, group: str) -> DescribedGroup:
        """From the hands that it is in."""
        if self._is_served(group):
            return self._coordinator(group).own_description(group)
        return await self._cluster_groups.described(group)

    async def offsets(self, groups: Sequence[str]) -> dict[str, dict[Partition, int]]:
        """Of each group, from the hands that it is in."""
        found: dict[str, Committed] = {}
        theirs = []
        for group in groups:
            if self._is_served(group):
                found[group] = self._own(group)
            else:
                theirs.append(group)
        if theirs:
            found |= await self._cluster_groups.offsets_of(theirs, stable=False)
        return {
            group: {(at.topic, at.partition): each.offset for at, each in found[group].items() if each.offset >= 0}
            for group in groups
        }

    async def lags(self, groups: Sequence[str]) -> dict[str, int | None]:
        """Of each group that of all committed partitions together; None where not all of them can be told, and where
        nothing is committed."""
        offsets = await self.offsets(groups)
        ends = await log_ends(self._brokers, {at for its in offsets.values() for at in its})
        return {group: _total(its, ends) for group, its in offsets.items()}

    async def _behind(self, offsets: Mapping[Partition, int], times: Mapping[Partition, int]) -> list[OffsetAt]:
        try:
            ends = await log_ends(self._brokers, offsets.keys()) if offsets else {}
        except UpstreamError as error:  # what else is known is told
            ends = dict.fromkeys(offsets, error)
        return [
            OffsetAt(*at, offset, None, times.get(at), str(end))
            if isinstance(end := ends[at], UpstreamError)
            else OffsetAt(*at, offset, end, times.get(at))
            for at, offset in sorted(offsets.items())
        ]

    async def _last_commit(self, group: str) -> Moved | None:
        try:
            return await self._last_commits.of(group)
        except Refused as error:  # what else is known is told
            log.debug("group %s: who committed last is not told: %s", group, error)
            return None

    def _own(self, group: str) -> Committed:
        try:
            return own_offsets(self._coordinator(group), group)
        except NotReadable as error:
            raise Refused(str(error)) from error

    def _is_served(self, group: str) -> bool:
        hands = self._coordinator(group).hands_of(group)
        if hands is None:
            raise NotKnown(f"this shim has not heard of a group {group} yet")
        return hands is Hands.SERVED

    def _coordinator(self, group: str) -> GroupCoordinator:
        number = self._runtime.partition_of(group)
        coordinator = self._runtime.coordinator(number)
        if coordinator is None:
            raise Refused(f"the partition of group {group} is {self._runtime.where_it_is(number)}")
        return coordinator


def _total(offsets: Mapping[Partition, int], ends: Mapping[LogOf, int | UpstreamError]) -> int | None:
    if not offsets:
        return None
    total = 0
    for at, offset in offsets.items():
        end = ends[at]
        lag = lag_of(offset, None if isinstance(end, UpstreamError) else end)
        if lag is None:
            return None
        total += lag
    return total


def _member(member: DescribedGroupMember, group: DescribedGroup) -> Member:
    return Member(
        *(member.member_id, member.group_instance_id, member.client_id, member.client_host),
        _assigned(member) if group.protocol_type == _CONSUMER_PROTOCOL else None,
    )


def _assigned(member: DescribedGroupMember) -> list[Partition] | None:
    """None where the bytes say nothing: in the middle of a rebalance, or of a group of the consumer protocol."""
    if not member.member_assignment:
        return None
    try:
        assigned: Iterable[tuple[str, tuple[int, ...]]] = decode_assignment(
            member.member_assignment
        ).assigned_partitions
    except DecodeError:
        return None  # a client may put there what it likes
    return sorted((topic, number) for topic, numbers in assigned for number in numbers)
