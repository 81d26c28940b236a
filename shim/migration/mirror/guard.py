"""Looks for clients that talk to the brokers directly in groups that the shim serves: two coordinators, each of which
gives the same partitions to somebody.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple

from protocol.messages.describe_groups import DescribedGroup
from protocol.own.state_log import Hands
from protocol.topic_partition import TopicPartition
from shim.coordinator import NotServed
from shim.logged_once import LoggedOnce
from shim.migration.mirror.alarms import Alarms
from shim.migration.mirror.mirror import Mirror
from shim.migration.own_offsets import NotReadable, own_offsets
from shim.migration.strangers import past_the_shim
from shim.offsets.cluster.brokers import BrokerRefused
from shim.offsets.cluster.describing import NOBODY, NOT_TOLD
from shim.offsets.cluster.groups import ClusterGroups, Committed
from shim.runtime import Runtime
from shim.upstream.errors import UpstreamError

log = logging.getLogger(__name__)

_GROUPS_AT_ONCE: Final = 500
_OFFSETS_AT_ONCE: Final = 10_000
_QUIET_SECONDS: Final = 600.0
_ANSWERED_WITHIN_SECONDS: Final = 10.0
"""A broker that takes longer is no reason not to look at the groups of the others."""
_DESCRIBED: Final = 5
"""The newest version of DescribeGroups to which a group that there is not is no error."""


class _Seen(NamedTuple):
    """Of a group, what nobody may have changed from before the cluster is asked until it has answered."""

    stamp: int
    own: Committed


class Guard:
    """For the event loop. Membership is looked for in all groups each time, commits in as many as are looked up at
    once, one after the other: of those of which it is known what the mirror has written last. Of one that it could not
    write for a while the mirror says what it has written over.
    """

    def __init__(
        self,
        runtime: Runtime,
        cluster_groups: ClusterGroups,
        mirror: Mirror,
        every_seconds: float = 10.0,
        quiet_seconds: float = _QUIET_SECONDS,
    ) -> None:
        """``quiet_seconds``: an alarm about commits is over when none has been seen for so long."""
        self._runtime = runtime
        self._cluster_groups = cluster_groups
        self._mirror = mirror
        self._every_seconds = every_seconds
        self._quiet_seconds = quiet_seconds
        self._members = Alarms()
        self._commits = Alarms()
        self._queue: deque[str] = deque()
        self._trouble = LoggedOnce(log)
        mirror.watch(self._written_over)

    @property
    def alarms(self) -> Mapping[str, str]:
        """By group, what was seen; gone when it is not so any more."""
        return {group: self.alarm(group) for group in (*self._members.groups(), *self._commits.groups())}

    def alarm(self, group: str) -> str:
        """That of one group; "" where there is none."""
        return "; ".join(filter(None, (self._members.line(group), self._commits.line(group))))

    @property
    def alarmed(self) -> Mapping[str, float]:
        """How many groups have an alarm of each kind."""
        return {"members": float(len(self._members.groups())), "commits": float(len(self._commits.groups()))}

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(self._every_seconds)

    async def look(self) -> None:
        """Once."""
        groups = self._next()
        await self._tried("who is in groups in the cluster cannot be found out", self._look_for_members, groups)
        await self._tried("what is committed in the cluster cannot be found out", self._look_for_commits, groups)

    async def _tried(
        self, what: str, look: Callable[[Collection[str]], Awaitable[None]], groups: Collection[str]
    ) -> None:
        try:
            await look(groups)
        except UpstreamError as error:
            for group in groups:
                self._cluster_groups.forget(group)
            self._trouble.failed(what, error)
        else:
            self._trouble.went_well(what)

    def _next(self) -> list[str]:
        if not self._queue:
            self._queue.extend(self._mirror.written)
        groups: list[str] = []
        offsets = 0
        while self._queue and len(groups) < _GROUPS_AT_ONCE and offsets < _OFFSETS_AT_ONCE:
            groups.append(self._queue.popleft())
            offsets += self._mirror.written.count(groups[-1])
        return groups

    # -- members

    async def _look_for_members(self, groups: Collection[str]) -> None:
        """``groups``: those that are asked for where brokers do not list states (before Kafka 2.6)."""
        listed = await self._cluster_groups.listed(_ANSWERED_WITHIN_SECONDS)
        if not listed.asked:  # the shim has only begun to look at the cluster
            return
        suspected = {group for group, each in listed.groups.items() if each.state not in (*NOBODY, "")}
        suspected.update(group for group in groups if group in listed.groups and not listed.groups[group].state)
        suspected.update(self._mirror.contested, self._members.groups())
        for group in suspected:
            if self._is_given_away(group):
                self._members.over(group)
        ours = sorted(group for group in suspected if self._is_ours(group))
        described = await self._cluster_groups.at_once(ours, self._judge_members_at, _ANSWERED_WITHIN_SECONDS)
        unanswered = [] if listed.is_whole else [listed.trouble]
        for group, its in described.items():
            what = f"who is in group {group} in the cluster cannot be found out"
            if isinstance(its, BrokerRefused):
                self._trouble.failed(what, its)
            elif isinstance(its, UpstreamError):  # of the broker, and not of the group
                unanswered.append(its)
            else:
                self._trouble.went_well(what)
        _raise_any(unanswered)

    async def _judge_members_at(
        self, node_id: int, groups: Sequence[str]
    ) -> Mapping[str, DescribedGroup | UpstreamError]:
        """As soon as that broker has answered: what it says is old when others have."""
        described = await self._cluster_groups.described_by(node_id, groups)
        for group, its in described.items():
            if not isinstance(its, UpstreamError):
                self._judge_members(group, its)
        return described

    def _is_ours(self, group: str) -> bool:
        return self._runtime.coordinator_of(group) is not None and not self._is_given_away(group)

    def _judge_members(self, group: str, described: DescribedGroup) -> None:
        coordinator = self._runtime.coordinator_of(group)
        if coordinator is None:
            return
        try:
            here = {each.member_id for each in coordinator.describe_group(group, _DESCRIBED).members}
        except NotServed:  # it changes hands
            return
        # Members that came with the group when it was taken over have their ids here, and may still expire there.
        strangers = [each for each in described.members if each.member_id not in here]
        are_there = bool(strangers) or described.group_state == NOT_TOLD
        if are_there and coordinator.hands_of(group) is Hands.SERVED:
            self._members.saw(group, *past_the_shim(described, strangers))
        else:
            self._members.over(group)

    # -- commits

    async def _look_for_commits(self, groups: Collection[str]) -> None:
        for group in self._commits.groups():
            if self._commits.seen_seconds_ago(group) >= self._quiet_seconds or self._is_given_away(group):
                self._commits.over(group)
        before = {group: seen for group in groups if (seen := self._seen(group)) is not None}
        found = await self._cluster_groups.at_once(before, self._offsets_of, _ANSWERED_WITHIN_SECONDS)
        for group, seen in before.items():
            its = found[group]
            if isinstance(its, UpstreamError):
                continue
            if self._strange(group, seen.own, its):
                # A process that was held up may not know yet that another one has it, and writes for it there.
                await self._runtime.settled(self._runtime.partition_of(group))
            if self._seen(group) == seen:
                self._judge(group, seen.own, its)
        _raise_any([its for its in found.values() if isinstance(its, UpstreamError)])

    async def _offsets_of(self, _: int, groups: Sequence[str]) -> Mapping[str, Committed]:
        return await self._cluster_groups.offsets_of(groups, stable=False)

    def _is_given_away(self, group: str) -> bool:
        coordinator = self._runtime.coordinator_of(group)
        if coordinator is None:
            return self._runtime.is_owned_elsewhere(self._runtime.partition_of(group))
        return coordinator.hands_of(group) is not Hands.SERVED

    def _seen(self, group: str) -> _Seen | None:
        """None where nothing can be told from what the cluster has: something of the group is on its way there, or
        comes into force there by itself."""
        coordinator, stamp = self._runtime.coordinator_of(group), self._mirror.written.stamp(group)
        if coordinator is None or stamp is None or coordinator.hands_of(group) is not Hands.SERVED:
            return None
        if self._mirror.waits(group) or coordinator.has_pending(group) or coordinator.overruled(group):
            return None
        if self._mirror.is_in_force(group):
            return None
        try:
            return _Seen(stamp, own_offsets(coordinator, group))
        except NotReadable:
            return None

    def _strange(self, group: str, own: Committed, found: Committed) -> dict[TopicPartition, int]:
        """An offset that a transaction has put in force is in the cluster and in the log, and not written by the
        mirror."""
        written = self._mirror.written.get(group) or {}
        return {
            at: its.offset for at, its in found.items() if its.offset not in (_offset(written, at), _offset(own, at))
        }

    def _judge(self, group: str, own: Committed, found: Committed) -> None:
        """An offset that is gone has expired there, where nobody seems to use it."""
        written = self._mirror.written.get(group) or {}
        strange = self._strange(group, own, found)
        if strange:
            self._saw_commits(group, "is", strange, written)
        if strange or written.keys() - found.keys() - self._mirror.nowhere(group):
            self._mirror.doubt(group)

    def _written_over(self, group: str, own: Committed, theirs: Committed) -> None:
        self._saw_commits(group, "was", {at: its.offset for at, its in theirs.items()}, own)

    def _saw_commits(self, group: str, verb: str, strange: Mapping[TopicPartition, int], ours: Committed) -> None:
        at, offset = min(strange.items())
        wrote = _offset(ours, at)
        shown = f"{at} {verb} {offset} in the cluster, the shim wrote {'none' if wrote is None else wrote}"
        more = f" (and {len(strange) - 1} more)" if len(strange) > 1 else ""
        self._commits.saw(group, f"somebody commits past the shim: {shown}{more}")


def _raise_any(troubles: Sequence[UpstreamError]) -> None:
    """What they say, each once."""
    if troubles:
        raise UpstreamError("; ".join(dict.fromkeys(map(str, troubles))))


def _offset(offsets: Committed, at: TopicPartition) -> int | None:
    return offsets[at].offset if at in offsets else None
