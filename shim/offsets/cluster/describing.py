"""Which groups the cluster has of its own: listed by its brokers, and described by those that coordinate them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from enum import Enum, auto
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from protocol.errors import ErrorCode
from protocol.group_kinds import OTHER_KINDS, SHARE, Kind
from protocol.messages import describe_acls, describe_groups, leave_group, list_groups
from shim.offsets.cluster.brokers import (
    PATIENCE_SECONDS,
    BrokerRefused,
    Brokers,
    passes,
    raise_for,
    told,
    until_ready,
)
from shim.offsets.cluster.coordinators import GROUPS_A_REQUEST, Coordinators, Deadline, slices
from shim.upstream import NO_ACLS
from shim.upstream.errors import UpstreamError

DEAD: Final = "Dead"
NOBODY: Final = ("Empty", DEAD)
"""States of groups that nobody is in."""
LOOK_SECONDS: Final = 3.0
"""For so long each broker is waited for, all at once, by who only looks: what else is known is told then."""
NOT_TOLD: Final = "Unknown"
"""The state of a group of which brokers do not tell it."""

# Newer ones call a group that there is not an error.
_NEWEST_DESCRIBE: Final = 5

# Or the brokers have that protocol switched off; or the group is that of the empty name, which may have offsets.
_NOT_OF_THAT_KIND: Final = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION, ErrorCode.INVALID_GROUP_ID)

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


class Shown(Enum):
    """How much a cluster shows to the one who asks."""

    ALL = auto()
    """It has no authorizer."""
    ALL_GROUPS = auto()
    """Of their offsets those of topics that he may describe: others are left out without a word."""
    SOME_GROUPS = auto()
    """Those that he may describe; and of their offsets the same."""


class DescribedGroups:
    """The groups of one cluster, their states and members. Everything raises UpstreamError, but for what gives it, for
    each broker or group that has not answered."""

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
        deadline = None if within_seconds is None else Deadline.within(within_seconds)
        answers = await asyncio.gather(*(self._listed_by(node_id, deadline) for node_id in node_ids))
        found: dict[str, LiveGroup] = {}
        for node_id, answer in zip(node_ids, answers, strict=True):
            for listed in () if isinstance(answer, UpstreamError) else answer:
                if listed.group_type.lower() != SHARE.name and not _is_busier(found.get(listed.group_id), listed):
                    found[listed.group_id] = LiveGroup(
                        listed.group_id, listed.group_state, listed.group_type, listed.protocol_type
                    )
                    self._coordinators.learn(listed.group_id, node_id)
        return Listed(found, [each for each in answers if isinstance(each, UpstreamError)], len(answers))

    async def _listed_by(
        self, node_id: int, deadline: Deadline | None
    ) -> tuple[list_groups.ListedGroup, ...] | UpstreamError:
        try:
            async with self._coordinators.answering(node_id, deadline):
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
            return told((await self.all_described([group], within_seconds))[group])
        try:
            return await self._until_ready(partial(self._described, group))
        except UpstreamError:
            self.forget(group)
            raise

    async def _described(self, group: str) -> describe_groups.DescribedGroup:
        node_id = (await self._coordinators.found([group]))[group]
        found = (await self.described_by(node_id, [group]))[group]
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
