"""Groups and offsets of the cluster's own, through the APIs that every consumer uses."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from enum import Enum, auto
from functools import partial
from itertools import groupby
from typing import Any, Final, NamedTuple, TypeVar

from protocol.errors import ErrorCode
from protocol.group_kinds import OTHER_KINDS, Kind
from protocol.messages import (
    delete_groups,
    describe_acls,
    describe_groups,
    describe_producers,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
)
from protocol.partition import partition_for
from shim.coordinator.state.offset_table import CommittedOffset
from shim.log import OFFSETS_TOPIC
from shim.log.checkpoint import TopicPartition
from shim.offsets.cluster.brokers import (
    PASSES_BY_ITSELF,
    PATIENCE_SECONDS,
    BrokerRefused,
    Brokers,
    passes,
    raise_for,
    until_ready,
)
from shim.offsets.cluster.coordinators import GROUPS_A_REQUEST, Coordinators, slices
from shim.upstream import NO_ACLS
from shim.upstream.errors import UpstreamError

Committed = dict[TopicPartition, CommittedOffset]
"""The offsets of one group."""

DEAD: Final = "Dead"
NOBODY: Final = ("Empty", DEAD)
"""States of groups that nobody is in."""
NOT_TOLD: Final = "Unknown"
"""The state of a group of which brokers do not tell it."""

_PARTITIONS_A_REQUEST: Final = 1000

# Newer versions name topics by id.
_NEWEST_OFFSET_FETCH: Final = 9
_NEWEST_OFFSET_COMMIT: Final = 9
_MANY_GROUPS_SINCE: Final = 8
_STABLE_SINCE: Final = 7
_LEADER_EPOCHS_SINCE: Final = 6
_LOOK_S: Final = 0.05
# Newer ones call a group that there is not an error.
_NEWEST_DESCRIBE: Final = 5

# Or the brokers have that protocol switched off; or the group is that of the empty name, which may have offsets.
_NOT_OF_THAT_KIND: Final = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION, ErrorCode.INVALID_GROUP_ID)

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class LiveGroup(NamedTuple):
    """A group as its coordinator lists it; ``state`` is "" from brokers before 2.6, ``type`` from those before 3.8."""

    group: str
    state: str
    type: str
    protocol_type: str


class Listed(NamedTuple):
    """What brokers list, ``asked`` of them. ``unanswered``: why, of each that has not said which groups it
    coordinates."""

    groups: dict[str, LiveGroup]
    unanswered: Sequence[UpstreamError]
    asked: int

    @property
    def is_whole(self) -> bool:
        return bool(self.asked) and not self.unanswered

    @property
    def trouble(self) -> UpstreamError:
        """Why these are not all groups."""
        return UpstreamError("; ".join(map(str, self.unanswered)) or "no broker of the cluster is known")


class RefusedPartition(NamedTuple):
    """What a broker has refused of a commit or a deletion; as text a line for an operator."""

    group: str
    at: TopicPartition
    code: int

    def __str__(self) -> str:
        return str(BrokerRefused(self.code, f"group {self.group} {self.at}"))


class Shown(Enum):
    """How much a cluster shows to the one who asks."""

    ALL = auto()
    """It has no authorizer."""
    ALL_GROUPS = auto()
    """Of their offsets those of topics that he may describe: others are left out without a word."""
    SOME_GROUPS = auto()
    """Those that he may describe; and of their offsets the same."""


class ClusterGroups:
    """The groups of one cluster. Everything raises UpstreamError."""

    def __init__(self, brokers: Brokers, patience_seconds: float = PATIENCE_SECONDS) -> None:
        """``patience_seconds``: how long what passes by itself, at the brokers, is waited for."""
        self._brokers = brokers
        self._patience_seconds = patience_seconds
        self._coordinators = Coordinators(brokers, patience_seconds)

    def forget(self, group: str) -> None:
        """Something about it has failed: another broker may coordinate it by now."""
        self._coordinators.forget(group)

    async def _until_ready(self, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        return await until_ready(ask, self._patience_seconds)

    # --- groups ------------------------------------------------------------------------------------------------------

    async def groups(self, within_seconds: float | None = None) -> dict[str, LiveGroup]:
        """All groups but share groups, whose offsets are others. Raises UpstreamError where any broker has not said
        which it coordinates: those that are known would look like all. ``within_seconds``: see :meth:`listed`."""
        listed = await self.listed(within_seconds)
        if not listed.is_whole:
            raise listed.trouble
        return listed.groups

    async def listed(self, within_seconds: float | None = None) -> Listed:
        """Likewise, of the brokers that answer; all are asked at once. ``within_seconds``: for how long each is waited
        for, where that is less than a request may take."""
        node_ids = list(self._brokers.addresses)
        answers = await asyncio.gather(*(self._listed_by(node_id, within_seconds) for node_id in node_ids))
        found: dict[str, LiveGroup] = {}
        for node_id, answer in zip(node_ids, answers, strict=True):
            for listed in () if isinstance(answer, UpstreamError) else answer:
                if listed.group_type.lower() != "share" and not _is_busier(found.get(listed.group_id), listed):
                    found[listed.group_id] = LiveGroup(
                        listed.group_id, listed.group_state, listed.group_type, listed.protocol_type
                    )
                    self._coordinators.learn(listed.group_id, node_id)
        return Listed(found, [each for each in answers if isinstance(each, UpstreamError)], len(answers))

    async def _listed_by(
        self, node_id: int, within_seconds: float | None
    ) -> tuple[list_groups.ListedGroup, ...] | UpstreamError:
        try:
            async with self._coordinators.answering(node_id, within_seconds):
                return await self._until_ready(partial(self._listed, node_id))
        except UpstreamError as error:
            return error

    async def shown(self) -> Shown:
        """As Describe on the cluster decides (KIP-11), which DescribeAcls needs, too."""
        node_id = next(iter(self._brokers.addresses))
        if not await self._brokers.offers(node_id, describe_acls.API):
            return Shown.ALL_GROUPS  # before Kafka 0.11 those are listed for whom all may be shown, or nobody
        answer = await self._brokers.ask(node_id, describe_acls.API, NO_ACLS)
        if answer.error_code == ErrorCode.SECURITY_DISABLED:
            return Shown.ALL
        return Shown.ALL_GROUPS if answer.error_code == ErrorCode.NONE else Shown.SOME_GROUPS

    async def _listed(self, node_id: int) -> tuple[list_groups.ListedGroup, ...]:
        answer = await self._brokers.ask(node_id, list_groups.API, list_groups.ListGroupsRequest())
        raise_for(answer.error_code, f"{self._coordinators.named(node_id)}: ListGroups")
        return answer.groups

    async def state_of(self, group: str) -> str:
        """One of ``NOBODY`` when nobody is in the group."""
        return (await self.described(group)).group_state

    async def described(self, group: str, within_seconds: float | None = None) -> describe_groups.DescribedGroup:
        """State, protocol and members; the state of one that there is not is Dead. Of which kind it is says
        :func:`protocol.group_kinds.kind_of`; where the shim may not describe a topic of one of another kind than the
        classic one neither state nor members are told: it is :data:`NOT_TOLD`. ``within_seconds``: see
        :meth:`listed`."""
        if within_seconds is not None:
            return _told((await self.all_described([group], within_seconds))[group])
        try:
            return await self._until_ready(partial(self._described, group))
        except UpstreamError:
            self.forget(group)
            raise

    async def _described(self, group: str) -> describe_groups.DescribedGroup:
        found = (await self.described_by(await self._coordinators.of(group), [group]))[group]
        if isinstance(found, UpstreamError):
            if passes(found):
                self.forget(group)
            raise found
        return found

    async def all_described(
        self, groups: Collection[str], within_seconds: float
    ) -> dict[str, describe_groups.DescribedGroup | UpstreamError]:
        """Of each as :meth:`described`; see :meth:`at_once`."""
        return await self._coordinators.at_once(groups, self.described_by, within_seconds)

    async def at_once(
        self,
        groups: Collection[str],
        ask: Callable[[int, Sequence[str]], Awaitable[Mapping[str, Answer | UpstreamError]]],
        within_seconds: float,
    ) -> dict[str, Answer | UpstreamError]:
        """See :meth:`Coordinators.at_once`."""
        return await self._coordinators.at_once(groups, ask, within_seconds)

    async def described_by(
        self, node_id: int, groups: Sequence[str]
    ) -> dict[str, describe_groups.DescribedGroup | UpstreamError]:
        """As :meth:`all_described`, of those whose coordinator this broker is."""
        version = await self._brokers.newest(node_id, describe_groups.API, at_least=0, at_most=_NEWEST_DESCRIBE)
        nothing = UpstreamError(f"{self._coordinators.named(node_id)}: DescribeGroups is answered with nothing")
        found: dict[str, describe_groups.DescribedGroup | UpstreamError] = dict.fromkeys(groups, nothing)
        for some in slices(groups, GROUPS_A_REQUEST):
            request = describe_groups.DescribeGroupsRequest(tuple(some))
            answer = await self._brokers.ask(node_id, describe_groups.API, request, version=version)
            found |= {each.group_id: _refusal(each.error_code, each.group_id) or each for each in answer.groups}
        for kind in OTHER_KINDS:
            dead = [
                name for name, each in found.items() if not isinstance(each, UpstreamError) and each.group_state == DEAD
            ]
            if dead and await self._brokers.offers(node_id, kind.describe):
                for some in slices(dead, GROUPS_A_REQUEST):
                    found |= await self._of_kind(kind, node_id, some)
        answered = [name for name, each in found.items() if not isinstance(each, UpstreamError)]
        return found | await self._coordinators.not_believed(node_id, answered)

    async def _of_kind(
        self, kind: Kind, node_id: int, groups: Sequence[str]
    ) -> dict[str, describe_groups.DescribedGroup | BrokerRefused]:
        """Those of them that are such."""
        answer = await self._brokers.ask(node_id, kind.describe, kind.describe.request(tuple(groups), False))
        return {
            each.group_id: _refused_description(each) or _described(kind, each)
            for each in answer.groups
            if each.error_code not in _NOT_OF_THAT_KIND
        }

    async def has_kind(self, group: str, kind: Kind) -> bool:
        """Whether the cluster has that protocol, as the group's coordinator says: one that is off is offered, too."""
        node_id = await self._coordinators.of(group)
        if not await self._brokers.offers(node_id, kind.describe):
            return False
        answer = await self._brokers.ask(node_id, kind.describe, kind.describe.request((group,), False))
        return all(each.error_code != ErrorCode.UNSUPPORTED_VERSION for each in answer.groups)

    async def leave(self, group: str, members: Sequence[describe_groups.DescribedGroupMember]) -> None:
        """Have these members leave, who have gone without a word (KIP-345)."""
        identities = tuple(leave_group.MemberIdentity(each.member_id, each.group_instance_id) for each in members)
        request = leave_group.LeaveGroupRequest(group, members=identities)
        answer = await self._brokers.ask(await self._coordinators.of(group), leave_group.API, request)
        raise_for(answer.error_code, f"group {group}")

    async def transactions_ended(self, group: str, known: Collection[int] = ()) -> None:
        """Wait until those that are open now, in the partition of the cluster's log that has the group, have ended:
        what they have of the group no OffsetFetch tells. ``known``: producers of whose transactions it is known that
        they have nothing of it. Raises UpstreamError where it takes too long.

        Brokers before 2.8 cannot be asked.
        """
        node_id = await self._coordinators.of(group)
        if not await self._brokers.offers(node_id, describe_producers.API):
            return
        look = partial(self._open_transactions, group)
        begun = {each for each in await self._until_ready(look) if each[0] not in known}
        deadline = time.monotonic() + self._patience_seconds
        while begun & await self._until_ready(look):
            if time.monotonic() > deadline:
                raise UpstreamError(f"group {group}: a transaction that may have offsets of it has not ended yet")
            await asyncio.sleep(_LOOK_S)  # a broker tells nobody when it ends

    async def _open_transactions(self, group: str) -> set[tuple[int, int]]:
        """Of each the producer and where it begins."""
        partition = partition_for(group, await self._coordinators.leaders.partitions())
        request = describe_producers.DescribeProducersRequest(
            (describe_producers.TopicRequest(OFFSETS_TOPIC, (partition,)),)
        )
        node_id = await self._coordinators.of(group)
        answer = await self._brokers.ask(node_id, describe_producers.API, request)
        ((found,),) = (topic.partitions for topic in answer.topics)
        if found.error_code:
            self.forget(group)
            raise_for(found.error_code, f"the transactions in {OFFSETS_TOPIC}-{partition}")
        await self._raise_where_not_believed(node_id, [group])
        return {
            (each.producer_id, each.current_txn_start_offset)
            for each in found.active_producers
            if each.current_txn_start_offset >= 0
        }

    # --- offsets -----------------------------------------------------------------------------------------------------

    async def offsets_of(self, groups: Sequence[str], *, stable: bool = True) -> dict[str, Committed]:
        """Of each group all that it has committed; waits for transactions that are about to commit more, but for
        ``stable=False``.

        Brokers do not tell when an offset was committed, so that is now.
        """
        found: dict[str, Committed] = {}
        for its_groups in (await self._by_coordinator(groups)).values():
            for some in slices(its_groups, GROUPS_A_REQUEST):
                await self._until_ready(partial(self._fetch_rest, some, found, stable))
        return found

    async def offsets_soon(
        self, groups: Collection[str], within_seconds: float, *, stable: bool = True
    ) -> dict[str, Committed | UpstreamError]:
        """Of each as :meth:`offsets_of`; see :meth:`at_once`."""

        async def ask(_: int, its: Sequence[str]) -> Mapping[str, Committed]:
            return await self.offsets_of(its, stable=stable)

        return await self.at_once(groups, ask, within_seconds)

    async def offsets_of_one(
        self, group: str, within_seconds: float | None = None, *, stable: bool = True
    ) -> Committed:
        """As :meth:`offsets_of`. ``within_seconds``: see :meth:`listed`."""
        if within_seconds is None:
            return (await self.offsets_of([group], stable=stable))[group]
        return _told((await self.offsets_soon([group], within_seconds, stable=stable))[group])

    async def _by_coordinator(self, groups: Sequence[str]) -> dict[int, list[str]]:
        by_node: dict[int, list[str]] = {}
        for group, node_id in (await self._coordinators.of_each(groups)).items():
            by_node.setdefault(node_id, []).append(group)
        return by_node

    async def _fetch_rest(self, groups: Sequence[str], found: dict[str, Committed], stable: bool) -> None:
        """Of these what is not found yet. Where it is not believed another one is asked the next time."""
        left = [group for group in groups if group not in found]
        for node_id, its_groups in (await self._by_coordinator(left)).items():
            version = await self._brokers.newest(node_id, offset_fetch.API, at_least=2, at_most=_NEWEST_OFFSET_FETCH)
            for some in slices(its_groups, GROUPS_A_REQUEST if version >= _MANY_GROUPS_SINCE else 1):
                try:
                    fetched = await self._fetch(node_id, version, some, stable)
                except UpstreamError as error:
                    if passes(error):
                        for group in some:
                            self.forget(group)
                    raise
                await self._raise_where_not_believed(node_id, some)
                found |= fetched

    async def _fetch(self, node_id: int, version: int, groups: Sequence[str], stable: bool) -> dict[str, Committed]:
        if version < _MANY_GROUPS_SINCE:
            stable = stable and version >= _STABLE_SINCE
            request = offset_fetch.OffsetFetchRequest(groups[0], topics=None, require_stable=stable)
            answer = await self._brokers.ask(node_id, offset_fetch.API, request, version=version)
            return {groups[0]: _committed(groups[0], answer.error_code, answer.topics)}
        wanted = tuple(offset_fetch.OffsetFetchRequestGroup(group, topics=None) for group in groups)
        request = offset_fetch.OffsetFetchRequest(groups=wanted, require_stable=stable)
        answer = await self._brokers.ask(node_id, offset_fetch.API, request, version=version)
        return {each.group_id: _committed(each.group_id, each.error_code, each.topics) for each in answer.groups}

    async def _raise_where_not_believed(self, node_id: int, groups: Sequence[str]) -> None:
        for error in (await self._coordinators.not_believed(node_id, groups)).values():
            raise error

    async def commit(self, group: str, offsets: Committed) -> list[str]:
        """As somebody who is no member (generation -1), which a group without members lets in. Gives a line for each
        partition that was refused."""
        return [str(each) for each in await self.try_commit(group, offsets)]

    async def try_commit(self, group: str, offsets: Committed) -> list[RefusedPartition]:
        """As :meth:`commit`; gives the partitions that were refused."""
        refused: list[RefusedPartition] = []
        for some in slices(sorted(offsets.items()), _PARTITIONS_A_REQUEST):
            topics = tuple(
                offset_commit.OffsetCommitRequestTopic(topic, partitions=tuple(_to_commit(*each) for each in its))
                for topic, its in groupby(some, key=lambda each: each[0].topic)
            )
            request = offset_commit.OffsetCommitRequest(group, topics=topics)
            refused += await self._until_ready(partial(self._commit, request))
        return refused

    async def _commit(self, request: offset_commit.OffsetCommitRequest) -> list[RefusedPartition]:
        node_id = await self._coordinators.of(request.group_id)
        version = await self._brokers.newest(node_id, offset_commit.API, at_least=2, at_most=_NEWEST_OFFSET_COMMIT)
        answer = await self._brokers.ask(node_id, offset_commit.API, request, version=version)
        return _refused(
            request.group_id, ((t.name, p.partition_index, p.error_code) for t in answer.topics for p in t.partitions)
        )

    async def keeps_leader_epochs(self, group: str) -> bool:
        """Whether :meth:`commit` can tell them (KIP-320, Kafka 2.1)."""
        node_id = await self._coordinators.of(group)
        newest = await self._brokers.newest(node_id, offset_commit.API, at_least=2, at_most=_NEWEST_OFFSET_COMMIT)
        return newest >= _LEADER_EPOCHS_SINCE

    async def delete(self, group: str, partitions: Sequence[TopicPartition]) -> list[str]:
        """Forget offsets; as :meth:`commit`."""
        return [str(each) for each in await self.try_delete(group, partitions)]

    async def try_delete(self, group: str, partitions: Sequence[TopicPartition]) -> list[RefusedPartition]:
        """As :meth:`delete`; gives the partitions that were refused."""
        topics = tuple(
            offset_delete.OffsetDeleteRequestTopic(
                topic, tuple(offset_delete.OffsetDeleteRequestPartition(at.partition) for at in its)
            )
            for topic, its in groupby(sorted(partitions), key=lambda at: at.topic)
        )
        node_id = await self._coordinators.of(group)
        answer = await self._brokers.ask(node_id, offset_delete.API, offset_delete.OffsetDeleteRequest(group, topics))
        raise_for(answer.error_code, f"group {group}")
        return _refused(group, ((t.name, p.partition_index, p.error_code) for t in answer.topics for p in t.partitions))

    async def delete_group(self, group: str) -> None:
        """With its offsets. Raises BrokerRefused where it has members, or is not there."""
        node_id = await self._coordinators.of(group)
        answer = await self._brokers.ask(node_id, delete_groups.API, delete_groups.DeleteGroupsRequest((group,)))
        for each in answer.results:
            if each.error_code in PASSES_BY_ITSELF:
                self.forget(group)
            raise_for(each.error_code, f"group {group}")


def _is_busier(before: LiveGroup | None, listed: list_groups.ListedGroup) -> bool:
    """Whether another broker that lists the group has members of it, and this one has not: one of the two was deposed,
    nobody knows which, and members there may be."""
    return before is not None and listed.group_state in NOBODY and before.state not in (*NOBODY, "")


def _refusal(code: int, group: str) -> BrokerRefused | None:
    return BrokerRefused(code, f"group {group}") if code else None


def _refused_description(described: Any) -> BrokerRefused | None:
    if described.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:  # which is said of one of that kind alone
        return None
    return _refusal(described.error_code, described.group_id)


def _described(kind: Kind, described: Any) -> describe_groups.DescribedGroup:
    if described.error_code:
        return kind.group(0, None, described.group_id, NOT_TOLD, kind.name)
    members = tuple(
        describe_groups.DescribedGroupMember(
            # Nobody is static in a share group.
            *(each.member_id, getattr(each, "instance_id", None), each.client_id, each.client_host),
            member_metadata=b"",
            member_assignment=kind.assignment(each),
        )
        for each in described.members
    )
    return kind.group(0, None, described.group_id, described.group_state, kind.name, "", members)


def _told(answer: Answer | UpstreamError) -> Answer:
    if isinstance(answer, UpstreamError):
        raise answer
    return answer


def _committed(group: str, code: int, topics: Sequence[Any]) -> Committed:
    raise_for(code, f"group {group}")
    found: Committed = {}
    now_ms = time.time_ns() // 1_000_000
    for topic in topics:
        for index, offset, leader_epoch, text, error, _ in topic.partitions:
            raise_for(error, f"group {group}, {topic.name}-{index}")
            if offset >= 0:
                found[TopicPartition(topic.name, index)] = CommittedOffset(offset, leader_epoch, text or "", now_ms)
    return found


def _to_commit(at: TopicPartition, committed: CommittedOffset) -> offset_commit.OffsetCommitRequestPartition:
    return offset_commit.OffsetCommitRequestPartition(
        at.partition, committed.offset, committed.leader_epoch, committed_metadata=committed.metadata
    )


def _refused(group: str, answers: Iterator[tuple[str, int, int]]) -> list[RefusedPartition]:
    """Raises BrokerRefused where all that can be done is to ask again."""
    refused = [RefusedPartition(group, TopicPartition(topic, index), code) for topic, index, code in answers if code]
    for each in refused:
        if each.code in PASSES_BY_ITSELF:
            raise BrokerRefused(each.code, f"group {group} {each.at}")
    return refused
