"""Groups change hands: taken over from the cluster's own coordinator, and given back to it, with all their offsets.

Never two coordinators at a time. While a group changes hands nobody is answered (COORDINATOR_LOAD_IN_PROGRESS); its
members, if it has any, are gathered first: told of a rebalance, as they are used to, and held where they would join.
What goes wrong on the way leaves the group in the hands that it was in.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from protocol.errors import ErrorCode
from protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from protocol.messages.join_group import JoinGroupRequest
from protocol.offsets_log import GroupMetadataValue, MemberMetadata, OffsetCommitKey, OffsetCommitValue
from protocol.own.state_log import Hands
from shim.config import Settings
from shim.coordinator import GroupCoordinator
from shim.coordinator.state.offset_table import CommittedOffset
from shim.log.checkpoint import TopicPartition
from shim.migration.gathering import Gathering
from shim.migration.groups import Placement, Placements, Whose
from shim.migration.words import GroupStatus, NotKnown, Planned, Refused
from shim.offsets.cluster_groups import NOBODY, ClusterGroups, Committed
from shim.runtime import Runtime
from shim.upstream.errors import UpstreamError

log = logging.getLogger(__name__)

_SEEN_WITHIN_S: Final = 60.0
"""A member that has come through the shim in that time is on the shim: longer than sessions last, by default."""
_RELEASED_WITHIN_S: Final = 2.0
_LOOK_S: Final = 0.1
_REBALANCING: Final = ("PreparingRebalance", "CompletingRebalance")
_SHOWN: Final = 3
_STABLE: Final = "Stable"


class Migration:
    """For the event loop, at the request of who looks after the groups."""

    def __init__(
        self,
        runtime: Runtime,
        cluster_groups: ClusterGroups,
        placements: Placements,
        settings: Settings,
        followed: Callable[[str], Awaitable[bool]],
    ) -> None:
        """``followed``: as for :class:`Placements`."""
        self._runtime = runtime
        self._followed = followed
        self._releasing: set[asyncio.Task[None]] = set()
        self._cluster_groups = cluster_groups
        self._placements = placements
        self._timeout_s = settings.group_handover_timeout_ms / 1000

    # -- looking

    async def plan(self, groups: Sequence[str] | None) -> Sequence[Planned]:
        """Of these groups, or of all that the cluster has and the shim does not serve. Raises UpstreamError,
        NotKnown."""
        if groups is None:
            listed = await self._cluster_groups.groups()
            groups = sorted(group for group in listed if self._placements.of(group) is not Whose.SERVED)
        offsets = await self._cluster_groups.offsets_of(groups)
        planned = []
        for group in groups:
            described = await self._cluster_groups.described(group)
            if described.group_state == "Dead" and not offsets[group]:
                raise NotKnown(f"the cluster knows no group {group}")
            here = [each for each in described.members if self._is_here(group, each.member_id)]
            hindrance = self._hindrance(group, described)
            planned.append(
                Planned(group, described.group_state, len(described.members), len(here), len(offsets[group]), hindrance)
            )
        return planned

    async def status(self, groups: Sequence[str] | None) -> Sequence[GroupStatus]:
        """Of these groups, or of all of which it is known in whose hands they are. Raises UpstreamError, NotKnown."""
        if groups is None:
            known = set[str]()
            for coordinator in filter(None, map(self._runtime.coordinator, range(self._runtime.num_partitions))):
                known.update(coordinator.hands(), coordinator.group_ids())
            groups = sorted(known)
        return [await self._status(group) for group in groups]

    async def _status(self, group: str) -> GroupStatus:
        coordinator = self._coordinator(group)
        hands, word = coordinator.hands_of(group), coordinator.hands().get(group)
        if hands is None:
            raise NotKnown(f"group {group} is in nobody's hands yet")
        since, cause = (word.time, word.cause) if word is not None else (None, "")
        if hands is Hands.SERVED:
            described, storage = coordinator.own_description(group), "kafka"
        else:
            described, storage = await self._cluster_groups.described(group), "upstream"
        return GroupStatus(group, storage, False, described.group_state, len(described.members), since, cause)

    async def offsets(self, group: str) -> Mapping[tuple[str, int], int]:
        """By topic and partition, from the hands that it is in. Raises UpstreamError, NotKnown."""
        hands = self._coordinator(group).hands_of(group)
        if hands is None:
            raise NotKnown(f"group {group} is in nobody's hands yet")
        found = await (self._own_offsets(group) if hands is Hands.SERVED else self._cluster_offsets(group))
        return {(at.topic, at.partition): committed.offset for at, committed in found.items()}

    def _hindrance(self, group: str, described: DescribedGroup) -> str:
        if self._placements.of(group) is Whose.SERVED:
            return "it is served by the shim already"
        strangers = [each for each in described.members if not self._is_here(group, each.member_id)]
        if strangers:
            shown = ", ".join(
                f"{each.client_id or each.member_id} at {each.client_host}" for each in strangers[:_SHOWN]
            )
            more = f" and {len(strangers) - _SHOWN} more" if len(strangers) > _SHOWN else ""
            return f"{len(strangers)} of its members do not come through this shim: {shown}{more}"
        return ""

    def _is_here(self, group: str, member_id: str) -> bool:
        return self._placements.seen(group, member_id, _SEEN_WITHIN_S) is not None

    # -- taking over

    async def start(self, group: str, cause: str) -> GroupStatus:
        """Take the group over, with the offsets and members that it has in the cluster. Raises Refused, NotKnown."""
        if self._placements.of(group) is Whose.UNKNOWN:
            error = await self._placements.find_out(group)
            if error is not ErrorCode.NONE:
                raise Refused(f"the cluster cannot be asked about group {group} now: {error.name}")
        async with self._changing(group, Whose.PASSED_THROUGH, "is served by the shim already") as placement:
            described = await self._cluster_groups.described(group)
            if hindrance := self._hindrance(group, described):
                raise Refused(f"group {group}: {hindrance}")
            described = await self._at_rest(lambda: self._cluster_groups.described(group), described)
            if hindrance := self._hindrance(group, described):
                raise Refused(f"group {group}: {hindrance}")
            gathered = await self._gathered(group, placement, described.members)
            await self._quiet(group, placement)
            # Whoever has come meanwhile, not through the shim, would go on at the cluster.
            now_there = {each.member_id for each in (await self._cluster_groups.described(group)).members}
            if strangers := now_there - gathered.keys():
                raise Refused(f"group {group}: {len(strangers)} members have come to it in the cluster meanwhile")
            await self._cluster_groups.transactions_ended(group)
            offsets = await self._cluster_offsets(group)
            members = self._members(group, described, gathered)
            await self._adopt(group, offsets, members)
            if not await self._followed(group):
                raise Refused(f"group {group}: the cluster's log is not read as far as it goes, try again")
            if wrong := _differing(await self._cluster_offsets(group), offsets):
                raise Refused(f"group {group}: {len(wrong)} offsets change in the cluster meanwhile, as of {wrong[0]}")
            await self._take_in_hand(group, Hands.SERVED, cause)
            log.info("group %s is served from now on: %d offsets adopted (%s)", group, len(offsets), cause)
            await self._leave(group, described.members)
        return await self._status(group)

    async def _adopt(self, group: str, offsets: Committed, members: GroupMetadataValue | None) -> None:
        records = [
            (
                OffsetCommitKey(group, at.topic, at.partition),
                OffsetCommitValue(its.offset, its.leader_epoch, its.metadata, its.commit_timestamp),
            )
            for at, its in offsets.items()
        ]
        await self._done(group, lambda coordinator, now, asker: coordinator.adopt(now, group, records, members, asker))
        if wrong := _differing(await self._own_offsets(group), offsets):
            raise Refused(f"group {group}: {len(wrong)} offsets are not what they are in the cluster, as of {wrong[0]}")

    async def _leave(self, group: str, members: Sequence[DescribedGroupMember]) -> None:
        """They are not at the cluster's coordinator any more, which would find that out when their sessions end."""
        if members:
            try:
                await self._cluster_groups.leave(group, members)
            except UpstreamError as error:
                log.info("the members that group %s had in the cluster stay there until they expire: %s", group, error)

    def _members(
        self, group: str, described: DescribedGroup, gathered: Mapping[str, JoinGroupRequest]
    ) -> GroupMetadataValue | None:
        """The group's record, by which its members are known when they join; None where that cannot be told: then they
        are told that they are not known, and join as new ones."""
        seen = [self._placements.seen(group, member_id, _SEEN_WITHIN_S) for member_id in gathered]
        generation = max((each.generation for each in seen if each is not None), default=-1)
        members = [each for each in described.members if each.member_id in gathered]
        if not members or generation < 0 or described.group_state != _STABLE:
            return None
        return GroupMetadataValue(
            described.protocol_type,
            generation,
            described.protocol_data,
            members[0].member_id,
            members=tuple(_member(each, gathered[each.member_id]) for each in members),
        )

    # -- giving back

    async def rollback(self, group: str, cause: str) -> GroupStatus:
        """Give the group back to the cluster's own coordinator, with the offsets that it has here. Raises Refused,
        NotKnown."""
        if self._placements.of(group) is Whose.UNKNOWN:
            raise NotKnown(f"group {group} is in nobody's hands yet")
        async with self._changing(group, Whose.SERVED, "is in the cluster's hands already") as placement:
            in_cluster = await self._cluster_groups.described(group)
            if in_cluster.group_state not in NOBODY:
                count = len(in_cluster.members)
                raise Refused(
                    f"group {group} has {count} members in the cluster, past the shim: they would go on there"
                )
            own = await self._at_rest(lambda: self._own_description(group), await self._own_description(group))
            await self._gathered(group, placement, own.members)
            await self._quiet(group, placement)
            if self._coordinator(group).has_pending(group):
                raise Refused(f"group {group}: a transaction with offsets of it has not ended yet, try again")
            offsets = await self._own_offsets(group)
            await self._write_to_cluster(group, offsets)
            await self._take_in_hand(group, Hands.PASSED_THROUGH, cause)
            log.info("group %s is passed through from now on: %d offsets given back (%s)", group, len(offsets), cause)
            await self._done(group, lambda coordinator, now, asker: coordinator.abandon(now, group, asker))
        return await self._status(group)

    async def _write_to_cluster(self, group: str, offsets: Committed) -> None:
        present = await self._cluster_offsets(group)
        problems = await self._cluster_groups.commit(group, offsets)
        if stale := sorted(present.keys() - offsets.keys()):
            problems += await self._cluster_groups.delete(group, stale)
        if problems:
            raise Refused(
                f"group {group}: {problems[0]}" + (f" (and {len(problems) - 1} more)" if problems[1:] else "")
            )
        found = await self._cluster_offsets(group)
        if wrong := _differing(found, offsets):
            raise Refused(
                f"group {group}: the cluster has {len(wrong)} offsets that it was not given, as of {wrong[0]}"
            )

    # -- both

    @asynccontextmanager
    async def _changing(self, group: str, whose: Whose, otherwise: str) -> AsyncIterator[Placement]:
        """Nobody else changes it meanwhile. What is in the way is raised as Refused; at the end its members go on."""
        placement = self._placements.open(group)
        if placement.taken:
            raise Refused(f"group {group} is changing hands already")
        if self._placements.of(group) is not whose:
            self._placements.close(group)
            raise Refused(f"group {group} {otherwise}")
        placement.taken = True
        try:
            yield placement
        except UpstreamError as error:
            self._cluster_groups.forget(group)
            raise Refused(f"group {group}: {error}") from error
        except TimeoutError:
            raise Refused(f"group {group}: not all of its members were there within {self._timeout_s:g} s") from None
        finally:
            # Whoever asked for it may go away, or be told that the log does not answer: the group is nobody's until it
            # is certain whose it is, by what is on disk.
            releasing = asyncio.get_running_loop().create_task(self._release(group, placement))
            self._releasing.add(releasing)
            releasing.add_done_callback(self._releasing.discard)
            with suppress(TimeoutError):
                async with asyncio.timeout(_RELEASED_WITHIN_S):
                    await asyncio.shield(releasing)

    async def _release(self, group: str, placement: Placement) -> None:
        await self._placements.certain(group)
        gathering, placement.gathering = placement.gathering, None
        self._placements.change(group, placement, changing=False)
        placement.taken = False
        if gathering is not None:
            gathering.over.set()
        self._placements.close(group)

    async def _own_description(self, group: str) -> DescribedGroup:
        return self._coordinator(group).own_description(group)

    async def _at_rest(
        self, describe: Callable[[], Awaitable[DescribedGroup]], described: DescribedGroup
    ) -> DescribedGroup:
        """The group when it is not in the middle of a rebalance: members who wait for others to join would wait for
        those that are held."""
        async with asyncio.timeout(self._timeout_s):
            while described.group_state in _REBALANCING:
                await asyncio.sleep(_LOOK_S)  # the cluster tells nobody
                described = await describe()
        return described

    async def _gathered(
        self, group: str, placement: Placement, members: Sequence[DescribedGroupMember]
    ) -> Mapping[str, JoinGroupRequest]:
        """What each of them has sent to join: they are all here."""
        if not members:
            return {}
        placement.gathering = gathering = Gathering({each.member_id: each.group_instance_id for each in members})
        log.info("group %s changes hands: its %d members are told to join again", group, len(members))
        async with asyncio.timeout(self._timeout_s):
            await gathering.complete.wait()
        return gathering.here

    async def _quiet(self, group: str, placement: Placement) -> None:
        """From here on nobody is answered; what was on its way to the cluster has been."""
        self._placements.change(group, placement, changing=True)
        async with asyncio.timeout(self._timeout_s):
            await placement.idle.wait()

    async def _take_in_hand(self, group: str, hands: Hands, cause: str) -> None:
        await self._done(
            group, lambda coordinator, now, asker: coordinator.take_in_hand(now, group, hands, cause, asker)
        )

    async def _done(self, group: str, operation: Any) -> None:
        answer = await self._placements.decide(group, operation)
        if isinstance(answer, ErrorCode):
            raise Refused(f"group {group}: the log answers {answer.name}")
        if not answer.done:
            raise Refused(f"group {group} has come into other hands, or into a transaction, meanwhile")

    def _coordinator(self, group: str) -> GroupCoordinator:
        coordinator = self._runtime.coordinator(self._runtime.partition_of(group))
        if coordinator is None:
            raise Refused(f"the partition of group {group} is not loaded")
        return coordinator

    async def _cluster_offsets(self, group: str) -> Committed:
        return (await self._cluster_groups.offsets_of([group]))[group]

    async def _own_offsets(self, group: str) -> Committed:
        await self._runtime.settled(self._runtime.partition_of(group))
        answer = self._coordinator(group).own_offsets(group)
        found: Committed = {}
        for topic in answer.topics:
            for each in topic.partitions:
                if answer.error_code or each.error_code:
                    error = ErrorCode.for_code(answer.error_code or each.error_code)
                    raise Refused(f"group {group}: {topic.name}-{each.partition_index}: {error.name}")
                at = TopicPartition(topic.name, each.partition_index)
                epoch, metadata = each.committed_leader_epoch, each.metadata or ""
                found[at] = CommittedOffset(each.committed_offset, epoch, metadata, 0)
        return found


def _differing(some: Committed, others: Committed) -> list[TopicPartition]:
    return sorted(at for at in some.keys() | others.keys() if _served(some.get(at)) != _served(others.get(at)))


def _served(committed: CommittedOffset | None) -> tuple[int, int, str] | None:
    return None if committed is None else (committed.offset, committed.leader_epoch, committed.metadata)


def _member(described: DescribedGroupMember, joining: JoinGroupRequest) -> MemberMetadata:
    session_ms = joining.session_timeout_ms
    return MemberMetadata(
        described.member_id,
        described.group_instance_id,
        described.client_id,
        described.client_host,
        joining.rebalance_timeout_ms if joining.rebalance_timeout_ms > 0 else session_ms,
        session_ms,
        described.member_metadata,
        described.member_assignment,
    )
