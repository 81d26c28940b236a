"""Groups change hands: taken over from the cluster's own coordinator, and given back to it, with all their offsets.

Never two coordinators at a time. While a group changes hands nobody is answered (COORDINATOR_LOAD_IN_PROGRESS); its
members, if it has any, are gathered first: told of a rebalance, as they are used to, and held where they would join.
What goes wrong on the way leaves the group in the hands that it was in.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Final

from protocol.group_kinds import kind_of
from protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from protocol.messages.join_group import JoinGroupRequest
from protocol.offsets_log import GroupMetadataValue, MemberMetadata, OffsetCommitKey, OffsetCommitValue
from protocol.own.state_log import Hands, Step
from shim.counted import counted, some_of
from shim.migration.compared import differences_to_cluster, differing, refused, without
from shim.migration.hands.placements import SERVED, Whose
from shim.migration.hindrances import OF_ANOTHER_KIND, Hindrances, other_protocol
from shim.migration.mirror.mirror import Mirror
from shim.migration.moving.locks import GroupLocks, LockedGroup
from shim.migration.reader import GroupReader
from shim.migration.words import Refused
from shim.offsets.cluster.describing import DEAD, NOBODY
from shim.offsets.cluster.groups import ClusterGroups, Committed
from shim.offsets.cluster.store import is_nowhere
from shim.upstream.errors import Unanswered, UpstreamError

log = logging.getLogger(__name__)

_STABLE: Final = "Stable"


class HandOver:
    """For the event loop."""

    def __init__(
        self,
        locks: GroupLocks,
        reader: GroupReader,
        hindrances: Hindrances,
        cluster_groups: ClusterGroups,
        mirror: Mirror,
        followed: Callable[[str], Awaitable[bool]],
        uncertain: Callable[[Collection[str]], Awaitable[Sequence[str]]],
    ) -> None:
        """``followed``: as for :class:`FirstContact`. ``uncertain``: which of these topics may not be the ones that
        they were, by what all brokers say now; no offset of a former one is left for any other. Raises
        UpstreamError."""
        self._locks = locks
        self._reader = reader
        self._hindrances = hindrances
        self._cluster_groups = cluster_groups
        self._mirror = mirror
        self._followed = followed
        self._uncertain = uncertain

    # -- taking over

    async def take_over(self, group: str, step: Step, cause: str, *, from_zookeeper: bool = False) -> int:
        """With the offsets and members that it has in the cluster: how many members join again. Raises Refused."""
        async with self._locks.locked(group, (Whose.PASSED_THROUGH,), "is served by the shim already") as locked:
            described = await self._cluster_groups.described(group)
            if hindrance := self._hindrances.of(group, described):
                raise Refused(f"group {group}: {hindrance}")
            described = await locked.at_rest(lambda: self._cluster_groups.described(group), described)
            if hindrance := self._hindrances.of(group, described):
                raise Refused(f"group {group}: {hindrance}")
            gathered = await locked.gathered(described.members)
            await locked.quiet()
            # Whoever has come meanwhile, not through the shim, would go on at the cluster.
            described_last = await self._cluster_groups.described(group)
            if why := other_protocol(kind_of(described_last)):
                raise Refused(f"group {group}: {why}")
            now_there = {each.member_id for each in described_last.members}
            if strangers := now_there - gathered.keys():
                raise Refused(f"group {group}: {counted(len(strangers), 'member')} came to it in the cluster meanwhile")
            await self._cluster_groups.transactions_ended(group)
            offsets = await self._reader.cluster_offsets(group)
            await self._sure_of_topics(group, offsets)
            if hindrance := self._hindrances.of(group, described, has_offsets=bool(offsets)):
                raise Refused(f"group {group}: {hindrance}")
            members = self._members(group, described, gathered)
            await self._adopt(locked, offsets, members)
            self._mirror.taken_over(group)
            if not await self._followed(group):
                raise Refused(f"group {group}: the cluster's log is not read as far as it goes, try again")
            if wrong := differing(await self._reader.cluster_offsets(group), offsets):
                raise Refused(
                    f"group {group}: {counted(len(wrong), 'offset')} changed in the cluster meanwhile, as of {wrong[0]}"
                )
            await locked.take_in_hand(Hands.SERVED, cause, step, from_zookeeper=from_zookeeper)
            log.info("group %s is served from now on: %s adopted (%s)", group, counted(len(offsets), "offset"), cause)
            await self._leave(group, described.members)
            return len(described.members)

    async def take_over_without_offsets(self, group: str, cause: str) -> None:
        """Of a group whose right offsets are in ZooKeeper, and not those that it has in the cluster; nobody may be in
        it there. Raises Refused."""
        async with self._locks.locked(group, (Whose.PASSED_THROUGH,), "is served by the shim already") as locked:
            await locked.quiet()
            described = await self._cluster_groups.described(group)
            if described.group_state not in NOBODY:
                count = len(described.members)
                raise Refused(
                    f"group {group} has {counted(count, 'member')} in the cluster: they go on from its offsets there"
                )
            if why := other_protocol(kind_of(described)):
                raise Refused(f"group {group}: {why}")
            if described.group_state == DEAD and await self._reader.cluster_offsets(group):
                raise Refused(f"group {group}: {OF_ANOTHER_KIND}")
            await self._cluster_groups.transactions_ended(group)
            await self._adopt(locked, {}, None)
            self._mirror.taken_over(group)
            if not await self._followed(group):
                raise Refused(f"group {group}: the cluster's log is not read as far as it goes, try again")
            await locked.take_in_hand(Hands.SERVED, cause, Step.ZOOKEEPER, from_zookeeper=True)
            log.info("group %s is served from now on, with the offsets that ZooKeeper has (%s)", group, cause)

    async def _adopt(self, locked: LockedGroup, offsets: Committed, members: GroupMetadataValue | None) -> None:
        group = locked.group
        records = [
            (
                OffsetCommitKey(group, at.topic, at.partition),
                OffsetCommitValue(its.offset, its.leader_epoch, its.metadata, its.commit_timestamp),
            )
            for at, its in offsets.items()
        ]
        await locked.decided(lambda coordinator, now, asker: coordinator.adopt(now, group, records, members, asker))
        if wrong := differing(await self._reader.own_offsets(group), offsets):
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
        seen = [self._hindrances.seen(group, member_id) for member_id in gathered]
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
        async with self._locks.locked(group, SERVED, "is in the cluster's hands already") as locked:
            if who := await self._reader.in_cluster(group):
                raise Refused(who)
            own = await locked.at_rest(lambda: self._own_description(group), await self._own_description(group))
            await locked.gathered(own.members)
            await locked.quiet()
            locked.not_in_transaction()
            await self._sure_of_topics(group, await self._reader.own_offsets(group))
            offsets = await self._reader.own_offsets(group)
            if why := await self._mirror.kept(group, offsets):
                raise Refused(f"group {group}: {why}")
            coordinator = self._reader.coordinator(group)
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
                there = await self._reader.cluster_offsets(group) if dual else {}
                kept = without(offsets, self._mirror.nowhere(group))
                if dual and (wrong := differences_to_cluster(kept, there)):
                    await self._sure_of_topics(group, offsets)  # the cluster deletes those of one that is gone itself
                    raise refused(group, wrong, "the cluster was written past the shim")
                try:
                    await self._write_to_cluster(locked, offsets)
                    # A topic that is deleted after this the cluster's coordinator hears of when it has the offsets: it
                    # deletes them itself.
                    await self._sure_of_topics(group, offsets)
                    left = await self._reader.own_offsets(group)
                    locked.has_stayed()
                    if left != offsets:
                        raise Refused(f"group {group}: offsets of it have expired, or gone with their topic, try again")
                    await locked.take_in_hand(Hands.PASSED_THROUGH, cause, from_zookeeper=from_zookeeper)
                except BaseException as error:  # given up, too
                    if isinstance(error, Unanswered):
                        self._mirror.unanswered(group)
                    self._mirror.doubt(group)  # which has not written what the cluster has by now
                    raise
                self._mirror.forget(group)
            given_back = counted(len(offsets), "offset")
            log.info("group %s is passed through from now on: %s given back (%s)", group, given_back, cause)
            try:
                await locked.decided(lambda coordinator, now, asker: coordinator.abandon(now, group, asker))
            except Refused as error:  # as after a crash between the two
                log.warning("%s: what it had here is kept, though it is passed through", error)
            return len(own.members)

    async def _sure_of_topics(self, group: str, offsets: Committed) -> None:
        """That these are of the topics that the cluster has now, as all brokers say. What is given away is not deleted
        here any more when a topic turns out to be another one; and what is adopted must not be, where another one is
        known here yet, but has to be when one is made anew later. Raises Refused."""
        try:
            uncertain = await self._uncertain({at.topic for at in offsets})
        except UpstreamError as error:
            raise Refused(f"group {group}: the cluster cannot be asked for its topics: {error}") from error
        if uncertain:
            those = some_of(sorted(uncertain))
            raise Refused(f"group {group}: the brokers do not agree yet which topics these are: {those}: try again")

    async def _write_to_cluster(self, locked: LockedGroup, offsets: Committed) -> None:
        group = locked.group
        present = await self._reader.cluster_offsets(group)
        refused_there = await self._cluster_groups.try_commit(group, offsets, locked.has_stayed)
        nowhere = {each.at for each in refused_there if is_nowhere(each)}
        if nowhere:
            log.info("group %s: the cluster has no partition for %d of its offsets", group, len(nowhere))
        problems = [str(each) for each in refused_there if not is_nowhere(each)]
        if stale := sorted(present.keys() - offsets.keys()):
            problems += map(str, await self._cluster_groups.try_delete(group, stale, locked.has_stayed))
        if problems:
            raise Refused(
                f"group {group}: {problems[0]}" + (f" (and {len(problems) - 1} more)" if problems[1:] else "")
            )
        found = await self._reader.cluster_offsets(group)
        if wrong := differing(found, without(offsets, nowhere)):
            extra = counted(len(wrong), "offset")
            raise Refused(f"group {group}: the cluster has {extra} that it was not given, as of {wrong[0]}")

    async def _own_description(self, group: str) -> DescribedGroup:
        return self._reader.coordinator(group).own_description(group)


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
