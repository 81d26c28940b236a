"""Groups change hands: taken over from the cluster's own coordinator, and given back to it, with all their offsets.

Never two coordinators at a time. While a group changes hands nobody is answered (COORDINATOR_LOAD_IN_PROGRESS); its
members, if it has any, are gathered first: told of a rebalance, as they are used to, and held where they would join.
What goes wrong on the way leaves the group in the hands that it was in.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from protocol.group_kinds import CLASSIC, Kind, kind_of
from protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from protocol.messages.join_group import JoinGroupRequest
from protocol.offsets_log import GroupMetadataValue, MemberMetadata, OffsetCommitKey, OffsetCommitValue
from protocol.own.shim_group import PROTOCOL_TYPE
from protocol.own.state_log import Hands, Step
from shim.counted import counted
from shim.migration.compared import differences_to_cluster, differing, refused, without
from shim.migration.hands.placements import SERVED, Placements, Whose
from shim.migration.mirror.mirror import Mirror
from shim.migration.moving.changing import Changing
from shim.migration.strangers import named
from shim.migration.words import Refused
from shim.offsets.cluster.describing import DEAD, NOBODY
from shim.offsets.cluster.groups import ClusterGroups, Committed
from shim.offsets.cluster.store import is_nowhere
from shim.upstream.errors import Unanswered, UpstreamError

log = logging.getLogger(__name__)

_SEEN_WITHIN_S: Final = 60.0
"""A member that has come through the shim in that time is on the shim: longer than sessions last, by default."""
_STABLE: Final = "Stable"
_OF_ANOTHER_KIND: Final = (
    "the cluster has offsets of it and says that there is no such group, as of one of another kind, with members that "
    "are not told"
)


def other_protocol(kind: Kind) -> str:
    """Why one whose clients have another protocol than the classic one is not taken over; "" for one that has that."""
    if kind is CLASSIC:
        return ""
    what_to_do = "delete it in the cluster" if kind.stays else "have them come with group.protocol=classic"
    return (
        f"its clients have used {kind.protocol}, which the cluster serves, and not the shim: they would be refused; "
        f"{what_to_do} first"
    )


class HandOver:
    """For the event loop."""

    def __init__(
        self,
        changing: Changing,
        cluster_groups: ClusterGroups,
        placements: Placements,
        mirror: Mirror,
        followed: Callable[[str], Awaitable[bool]],
    ) -> None:
        """``followed``: as for :class:`Placements`."""
        self._changing = changing
        self._cluster_groups = cluster_groups
        self._placements = placements
        self._mirror = mirror
        self._followed = followed

    def hindrance(self, group: str, described: DescribedGroup, *, has_offsets: bool = False) -> str:
        """What is in the way of a take-over; "" for nothing. ``has_offsets``: whether the cluster has any of it."""
        if self._placements.of(group) in SERVED:
            return "it is served by the shim already"
        if too_early := self._changing.too_early(group):
            return f"it {too_early}"
        if described.protocol_type == PROTOCOL_TYPE:
            return "it is the group of shims that share a log on topics"
        if why := other_protocol(kind_of(described)):
            return why
        if described.group_state == DEAD and has_offsets:
            return _OF_ANOTHER_KIND
        strangers = [each for each in described.members if not self.is_here(group, each.member_id)]
        if strangers:
            return f"{len(strangers)} of its members do not come through this shim: {named(strangers)}"
        return ""

    def is_here(self, group: str, member_id: str) -> bool:
        return self._placements.seen(group, member_id, _SEEN_WITHIN_S) is not None

    # -- taking over

    async def take_over(self, group: str, step: Step, cause: str, *, from_zookeeper: bool = False) -> int:
        """With the offsets and members that it has in the cluster: how many members join again. Raises Refused."""
        async with self._changing.group(group, (Whose.PASSED_THROUGH,), "is served by the shim already") as placement:
            described = await self._cluster_groups.described(group)
            if hindrance := self.hindrance(group, described):
                raise Refused(f"group {group}: {hindrance}")
            described = await self._changing.at_rest(lambda: self._cluster_groups.described(group), described)
            if hindrance := self.hindrance(group, described):
                raise Refused(f"group {group}: {hindrance}")
            gathered = await self._changing.gathered(group, placement, described.members)
            await self._changing.quiet(group, placement)
            # Whoever has come meanwhile, not through the shim, would go on at the cluster.
            described_last = await self._cluster_groups.described(group)
            if why := other_protocol(kind_of(described_last)):
                raise Refused(f"group {group}: {why}")
            now_there = {each.member_id for each in described_last.members}
            if strangers := now_there - gathered.keys():
                raise Refused(f"group {group}: {counted(len(strangers), 'member')} came to it in the cluster meanwhile")
            await self._cluster_groups.transactions_ended(group)
            offsets = await self._changing.cluster_offsets(group)
            if hindrance := self.hindrance(group, described, has_offsets=bool(offsets)):
                raise Refused(f"group {group}: {hindrance}")
            members = self._members(group, described, gathered)
            await self._adopt(group, offsets, members)
            self._mirror.taken_over(group)
            if not await self._followed(group):
                raise Refused(f"group {group}: the cluster's log is not read as far as it goes, try again")
            if wrong := differing(await self._changing.cluster_offsets(group), offsets):
                raise Refused(
                    f"group {group}: {counted(len(wrong), 'offset')} changed in the cluster meanwhile, as of {wrong[0]}"
                )
            await self._changing.take_in_hand(group, Hands.SERVED, cause, step, from_zookeeper=from_zookeeper)
            log.info("group %s is served from now on: %s adopted (%s)", group, counted(len(offsets), "offset"), cause)
            await self._leave(group, described.members)
            return len(described.members)

    async def take_over_without_offsets(self, group: str, cause: str) -> None:
        """Of a group whose right offsets are in ZooKeeper, and not those that it has in the cluster; nobody may be in
        it there. Raises Refused."""
        async with self._changing.group(group, (Whose.PASSED_THROUGH,), "is served by the shim already") as placement:
            await self._changing.quiet(group, placement)
            described = await self._cluster_groups.described(group)
            if described.group_state not in NOBODY:
                count = len(described.members)
                raise Refused(
                    f"group {group} has {counted(count, 'member')} in the cluster: they go on from its offsets there"
                )
            if why := other_protocol(kind_of(described)):
                raise Refused(f"group {group}: {why}")
            if described.group_state == DEAD and await self._changing.cluster_offsets(group):
                raise Refused(f"group {group}: {_OF_ANOTHER_KIND}")
            await self._cluster_groups.transactions_ended(group)
            await self._adopt(group, {}, None)
            self._mirror.taken_over(group)
            if not await self._followed(group):
                raise Refused(f"group {group}: the cluster's log is not read as far as it goes, try again")
            await self._changing.take_in_hand(group, Hands.SERVED, cause, Step.ZOOKEEPER, from_zookeeper=True)
            log.info("group %s is served from now on, with the offsets that ZooKeeper has (%s)", group, cause)

    async def _adopt(self, group: str, offsets: Committed, members: GroupMetadataValue | None) -> None:
        records = [
            (
                OffsetCommitKey(group, at.topic, at.partition),
                OffsetCommitValue(its.offset, its.leader_epoch, its.metadata, its.commit_timestamp),
            )
            for at, its in offsets.items()
        ]
        await self._changing.done(
            group, lambda coordinator, now, asker: coordinator.adopt(now, group, records, members, asker)
        )
        if wrong := differing(await self._changing.own_offsets(group), offsets):
            raise Refused(f"group {group}: {counted(len(wrong), 'offset')} not as in the cluster, as of {wrong[0]}")

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

    async def give_back(self, group: str, cause: str, *, from_zookeeper: bool = False) -> int:
        """To the cluster's own coordinator, with the offsets that it has here: how many members join again. Raises
        Refused."""
        async with self._changing.group(group, SERVED, "is in the cluster's hands already") as placement:
            if who := await self._changing.in_cluster(group):
                raise Refused(who)
            own = await self._changing.at_rest(lambda: self._own_description(group), await self._own_description(group))
            await self._changing.gathered(group, placement, own.members)
            await self._changing.quiet(group, placement)
            self._changing.not_in_transaction(group)
            offsets = await self._changing.own_offsets(group)
            if why := await self._mirror.kept(group, offsets):
                raise Refused(f"group {group}: {why}")
            coordinator = self._changing.coordinator(group)
            dual = coordinator.step_of(group) is Step.UPSTREAM_DUAL
            # What others have committed there is told where it is written, and what was overruled may be pending there.
            if dual or self._mirror.is_contested(group) or coordinator.overruled(group):
                await self._mirror.fed(group)
            async with self._mirror.alone(group):
                if (seconds := self._mirror.may_arrive_seconds(group)) > 0:
                    raise Refused(
                        f"group {group}: the cluster has not answered a commit of its offsets, which may be done there "
                        f"yet: try again in {seconds:.0f} s"
                    )
                there = await self._changing.cluster_offsets(group) if dual else {}
                kept = without(offsets, self._mirror.nowhere(group))
                if dual and (wrong := differences_to_cluster(kept, there)):
                    raise refused(group, wrong, "the cluster was written past the shim")
                try:
                    await self._write_to_cluster(group, offsets)
                except Unanswered:
                    self._mirror.unanswered(group)
                    raise
                await self._changing.take_in_hand(group, Hands.PASSED_THROUGH, cause, from_zookeeper=from_zookeeper)
                self._mirror.forget(group)
            given_back = counted(len(offsets), "offset")
            log.info("group %s is passed through from now on: %s given back (%s)", group, given_back, cause)
            await self._changing.done(group, lambda coordinator, now, asker: coordinator.abandon(now, group, asker))
            return len(own.members)

    async def _write_to_cluster(self, group: str, offsets: Committed) -> None:
        present = await self._changing.cluster_offsets(group)
        refused_there = await self._cluster_groups.try_commit(group, offsets)
        nowhere = {each.at for each in refused_there if is_nowhere(each)}
        if nowhere:
            log.info("group %s: the cluster has no partition for %d of its offsets", group, len(nowhere))
        problems = [str(each) for each in refused_there if not is_nowhere(each)]
        if stale := sorted(present.keys() - offsets.keys()):
            problems += await self._cluster_groups.delete(group, stale)
        if problems:
            raise Refused(
                f"group {group}: {problems[0]}" + (f" (and {len(problems) - 1} more)" if problems[1:] else "")
            )
        found = await self._changing.cluster_offsets(group)
        if wrong := differing(found, without(offsets, nowhere)):
            extra = counted(len(wrong), "offset")
            raise Refused(f"group {group}: the cluster has {extra} that it was not given, as of {wrong[0]}")

    async def _own_description(self, group: str) -> DescribedGroup:
        return self._changing.coordinator(group).own_description(group)


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
