"""A group in detail: its members, its offsets, how far they are behind the logs' ends, and who committed last."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from protocol.consumer import decode_assignment
from protocol.errors import DecodeError, ErrorCode
from protocol.group_kinds import CLASSIC, kind_of
from protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from protocol.own.state_log import Hands
from shim.coordinator import GroupCoordinator, Presence
from shim.groups.history import History
from shim.groups.in_use import in_use, in_use_in_cluster
from shim.groups.last_commits import LastCommits
from shim.groups.refusal import refusal
from shim.groups.words import NO_OFFSET, Details, GroupLag, Member, Moved, NotKnown, OffsetAt, Partition, Refused
from shim.migration.deciding import coordinator_of
from shim.migration.hands.placements import Placements
from shim.migration.own_offsets import NotReadable, own_offsets
from shim.offsets.cluster.describing import LOOK_SECONDS
from shim.offsets.cluster.groups import ClusterGroups, Committed
from shim.runtime import Clock, Runtime
from shim.upstream.errors import UpstreamError
from shim.upstream.log_ends import Asked, lag_of, log_ends

log = logging.getLogger(__name__)

_CONSUMER_PROTOCOL: Final = "consumer"

_HAS_MEMBERS: Final = frozenset({ErrorCode.NON_EMPTY_GROUP, ErrorCode.UNKNOWN_MEMBER_ID})
"""Answered to who changes offsets without being a member."""


class Looking:
    """For the event loop. Everything raises UpstreamError, Refused, NotKnown."""

    def __init__(
        self,
        runtime: Runtime,
        placements: Placements,
        cluster_groups: ClusterGroups,
        brokers: Asked,
        history: History,
        clock: Clock,
    ) -> None:
        self._runtime = runtime
        self._placements = placements
        self._clock = clock
        self._cluster_groups = cluster_groups
        self._brokers = brokers
        self._last_commits = LastCommits(history)

    async def details(self, group: str, *, with_last_commit: bool = True) -> Details:
        """``with_last_commit``: that alone needs the history on the disk, which knows nothing of what others commit at
        the cluster while a group is passed through."""
        described = await self.described(group, LOOK_SECONDS)
        generation = self._coordinator(group).generation(group) if self._is_served(group) else None
        present = {each.member_id: each for each in self._presences(group)}
        now_ms = self._clock.now()
        members = [_member(each, described, present.get(each.member_id), now_ms) for each in described.members]
        # Of a share group it is not the offsets of these that are committed.
        assigned = {at for member in members for at in member.partitions or () if not kind_of(described).stays}
        offsets = {**dict.fromkeys(assigned, NO_OFFSET), **await self.offsets(group, LOOK_SECONDS)}
        times = self._coordinator(group).commit_times(group) if self._is_served(group) else {}
        return Details(
            described.protocol_type,
            members,
            await self._behind(offsets, times),
            await self._last_commit(group) if with_last_commit and self._is_served(group) else None,
            generation,
            now_ms,
        )

    async def described(self, group: str, within_seconds: float | None = None) -> DescribedGroup:
        """From the hands that it is in. ``within_seconds``: how long a broker is waited for; None: as long as a request
        may take."""
        if self._is_served(group):
            return self._coordinator(group).own_description(group)
        return await self._cluster_groups.described(group, within_seconds)

    def _presences(self, group: str) -> Sequence[Presence]:
        """None of a group that is passed through: its coordinator does not tell."""
        return self._coordinator(group).presences(group) if self._is_served(group) else ()

    def in_use(self, described: DescribedGroup) -> str:
        """Who is in the group, in a line that says what to do, and "" where nobody is."""
        group = described.group_id
        if self._is_served(group):
            return in_use(described, self._presences(group), self._clock.now())
        return in_use_in_cluster(described, partial(self._placements.members.silent_seconds, group))

    async def refusal(self, group: str, error: ErrorCode) -> Refused | NotKnown:
        """As :func:`shim.groups.refusal.refusal`; where the group has members, it says who they are."""
        if error not in _HAS_MEMBERS:
            return refusal(group, error)
        try:
            why = self.in_use(await self.described(group))
        except UpstreamError as unanswered:
            log.info("who is in group %s, which keeps it from that, is not known: %s", group, unanswered)
            why = ""
        return Refused(f"group {group}: {why}") if why else refusal(group, error)

    async def offsets(self, group: str, within_seconds: float | None = None) -> dict[Partition, int]:
        """From the hands that it is in; ``within_seconds``: as for :meth:`described`."""
        if self._is_served(group):
            return _offsets(self._own(group))
        return _offsets(await self._cluster_groups.offsets_of_one(group, within_seconds, stable=False))

    async def lags(self, groups: Sequence[str]) -> dict[str, GroupLag]:
        """Of each group; where the cluster cannot be asked, or does not answer soon, why."""
        own, theirs = self._own_and_theirs(groups)
        found: dict[str, Committed | UpstreamError] = {**own}
        if theirs:
            found |= await self._cluster_groups.offsets_soon(theirs, LOOK_SECONDS, stable=False)
        offsets = {group: _offsets(its) for group, its in found.items() if not isinstance(its, UpstreamError)}
        ends = await self._ends({at for its in offsets.values() for at in its})
        return {
            group: GroupLag(None, str(its)) if isinstance(its, UpstreamError) else _total(offsets[group], ends)
            for group, its in found.items()
        }

    def _own_and_theirs(self, groups: Sequence[str]) -> tuple[dict[str, Committed], list[str]]:
        """What those have that are served, and which are the cluster's."""
        own: dict[str, Committed] = {}
        theirs: list[str] = []
        for group in groups:
            if self._is_served(group):
                own[group] = self._own(group)
            else:
                theirs.append(group)
        return own, theirs

    async def _ends(self, partitions: Collection[Partition]) -> Mapping[Partition, int | UpstreamError]:
        """Where it cannot be told, why."""
        try:
            return await log_ends(self._brokers, partitions, within_seconds=LOOK_SECONDS) if partitions else {}
        except UpstreamError as error:
            return dict.fromkeys(partitions, error)

    async def _behind(self, offsets: Mapping[Partition, int], times: Mapping[Partition, int]) -> list[OffsetAt]:
        ends = await self._ends(offsets.keys())
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
        """Raises Refused while there is none."""
        return coordinator_of(self._runtime, group)


def _offsets(committed: Committed) -> dict[Partition, int]:
    return {at: each.offset for at, each in committed.items() if each.offset >= 0}


def _total(offsets: Mapping[Partition, int], ends: Mapping[Partition, int | UpstreamError]) -> GroupLag:
    if not offsets:
        return GroupLag(None)
    total = 0
    for at, offset in offsets.items():
        end = ends[at]
        if isinstance(end, UpstreamError):
            return GroupLag(None, str(end))
        lag = lag_of(offset, end)
        if lag is None:
            return GroupLag(None, f"{at[0]}-{at[1]}: its leader tells of no log end")
        total += lag
    return GroupLag(total)


def _member(member: DescribedGroupMember, group: DescribedGroup, presence: Presence | None, now_ms: int) -> Member:
    told = Member(
        *(member.member_id, member.group_instance_id, member.client_id, member.client_host),
        _assigned(member) if _tells_partitions(group) else None,
    )
    if presence is None:
        return told
    return told._replace(
        heard_ms=presence.heard_ms,
        session_timeout_ms=presence.session_timeout_ms,
        removed_ms=presence.removed_ms,
        is_silent=presence.is_silent(now_ms),
    )


def _tells_partitions(group: DescribedGroup) -> bool:
    """Whether assignments are in the bytes of the consumers' protocol: of other kinds than the classic one they are, or
    none."""
    return group.protocol_type == _CONSUMER_PROTOCOL or kind_of(group) is not CLASSIC


def _assigned(member: DescribedGroupMember) -> list[Partition] | None:
    """None where the bytes say nothing: in the middle of a rebalance."""
    if not member.member_assignment:
        return None
    try:
        assigned: Iterable[tuple[str, tuple[int, ...]]] = decode_assignment(
            member.member_assignment
        ).assigned_partitions
    except DecodeError:
        return None  # a client may put there what it likes
    return sorted((topic, number) for topic, numbers in assigned for number in numbers)
