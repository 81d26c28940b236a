"""Drives a coordinator as the runtime does, with a clock that only the test moves."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import Any, TypeVar

from protocol.messages.delete_groups import DeletableGroupResult
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponsePartitions,
)
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from protocol.own.history_log import HistoryRecord
from shim.coordinator import (
    Caller,
    CoordinatorSettings,
    GroupCoordinator,
    GroupEvent,
    Outcome,
    Record,
    Response,
    RetentionStep,
)

R = TypeVar("R")
START = 1_700_000_000_000
CALLER = Caller("client", "/127.0.0.1")


def subscription(*topics: str) -> bytes:
    """A `consumer` subscription, version 0, without user data."""
    names = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    return b"\0\0" + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff"


SUBSCRIPTION = subscription("orders")
RANGE = (("range", SUBSCRIPTION),)


def new_coordinator(
    settings: CoordinatorSettings | None = None, numbers: Iterator[int] | None = None
) -> GroupCoordinator:
    """A coordinator whose member ids are `<prefix>-1`, `<prefix>-2` and so on."""
    numbers = numbers or count(1)
    return GroupCoordinator(settings, lambda: str(next(numbers)))


def parked(coordinator: GroupCoordinator) -> list[object]:
    """Who waits for an answer."""
    state = coordinator._state
    return list(state.commits._parked) + [
        waiting.asker
        for group in state.groups.values()
        for member in group.members.values()
        for waiting in (member.join, member.sync)
        if waiting is not None
    ]


class Driven:
    """A coordinator, its clock, everything it has recorded, told and answered."""

    def __init__(self, settings: CoordinatorSettings | None = None) -> None:
        self.settings = settings
        self.numbers = count(1)
        self.coordinator = new_coordinator(settings, self.numbers)
        self.now = START
        self.records: list[Record] = []
        self.history: list[HistoryRecord] = []
        self.events: list[str] = []
        self.answers: dict[int, Response] = {}
        self.last = 0

    # -- what the runtime does

    def take(self, outcome: Outcome) -> None:
        self.records += outcome.records
        self.history += outcome.history
        self.told(outcome.events)
        for ticket, response in outcome.answers:
            assert isinstance(ticket, int)
            assert 0 < ticket <= self.last, "an answer to a request that was never made"
            assert ticket not in self.answers, f"request {ticket} is answered twice"
            self.answers[ticket] = response

    def told(self, events: Iterable[GroupEvent]) -> None:
        self.events += [each.template % each.values for each in events]

    def ticket(self) -> int:
        self.last += 1
        return self.last

    def advance(self, ms: int) -> None:
        """Let time pass, calling `expire` exactly when it is due."""
        until = self.now + ms
        while (deadline := self.coordinator.next_deadline()) is not None and deadline <= until:
            self.now = max(self.now, deadline)
            self.take(self.coordinator.expire(self.now))
        self.now = until

    def restart(self) -> None:
        """Forget the coordinator and load another one from the records."""
        coordinator = new_coordinator(self.settings, self.numbers)
        for key, value in self.records:
            coordinator.replay(key, value)
        self.told(coordinator.loaded(self.now))
        self.coordinator = coordinator

    def answer(self, ticket: int, kind: type[R]) -> R:
        assert ticket in self.answers, "the request is still parked"
        response = self.answers[ticket]
        assert isinstance(response, kind)
        return response

    # -- requests

    def ask_join(
        self,
        member_id: str = "",
        *,
        group: str = "g",
        instance: str | None = None,
        version: int = 9,
        protocols: Iterable[tuple[str, bytes]] = RANGE,
        protocol_type: str = "consumer",
        session: int = 10_000,
        rebalance: int = 60_000,
        caller: Caller = CALLER,
        reason: str | None = None,
    ) -> int:
        ticket = self.ticket()
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session,
            rebalance_timeout_ms=rebalance,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=tuple(JoinGroupRequestProtocol(name, metadata) for name, metadata in protocols),
            reason=reason,
        )
        self.take(self.coordinator.join_group(self.now, caller, version, request, ticket))
        return ticket

    def joined(self, ticket: int) -> JoinGroupResponse:
        return self.answer(ticket, JoinGroupResponse)

    def ask_sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        group: str = "g",
        instance: str | None = None,
        version: int = 5,
        protocol_type: str | None = "consumer",
        protocol_name: str | None = "range",
    ) -> int:
        ticket = self.ticket()
        request = SyncGroupRequest(
            group_id=group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type if version >= 5 else None,
            protocol_name=protocol_name if version >= 5 else None,
            assignments=tuple(SyncGroupRequestAssignment(*item) for item in (assignments or {}).items()),
        )
        self.take(self.coordinator.sync_group(self.now, CALLER, version, request, ticket))
        return ticket

    def synced(self, ticket: int) -> SyncGroupResponse:
        return self.answer(ticket, SyncGroupResponse)

    def heartbeat(self, member_id: str, generation: int, *, group: str = "g", instance: str | None = None) -> int:
        """The error code."""
        ticket = self.ticket()
        request = HeartbeatRequest(
            group_id=group, generation_id=generation, member_id=member_id, group_instance_id=instance
        )
        self.take(self.coordinator.heartbeat(self.now, CALLER, 4, request, ticket))
        return self.answer(ticket, HeartbeatResponse).error_code

    def leave(self, *who: str | MemberIdentity, group: str = "g", version: int = 5) -> LeaveGroupResponse:
        ticket = self.ticket()
        if version >= 3:
            members = tuple(one if isinstance(one, MemberIdentity) else MemberIdentity(one) for one in who)
            request = LeaveGroupRequest(group_id=group, members=members)
        else:
            (member_id,) = who
            assert isinstance(member_id, str)
            request = LeaveGroupRequest(group_id=group, member_id=member_id)
        self.take(self.coordinator.leave_group(self.now, CALLER, version, request, ticket))
        return self.answer(ticket, LeaveGroupResponse)

    def commit(
        self,
        member_id: str = "",
        generation: int = -1,
        offsets: Sequence[tuple[str, int, int]] = (("orders", 0, 5),),
        *,
        group: str = "g",
        instance: str | None = None,
        version: int = 8,
        metadata: str | None = "",
        leader_epoch: int = -1,
        **more: Any,
    ) -> OffsetCommitResponse:
        """Commit (topic, partition, offset)s, each in a topic entry of its own."""
        ticket = self.ticket()
        timestamp = more.pop("commit_timestamp", -1)
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance,
            topics=tuple(
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=(
                        OffsetCommitRequestPartition(
                            partition_index=partition,
                            committed_offset=offset,
                            committed_leader_epoch=leader_epoch,
                            commit_timestamp=timestamp,
                            committed_metadata=metadata,
                        ),
                    ),
                )
                for topic, partition, offset in offsets
            ),
            **more,
        )
        self.take(self.coordinator.offset_commit(self.now, CALLER, version, request, ticket))
        return self.answer(ticket, OffsetCommitResponse)

    def commit_error(self, *args: Any, **kwargs: Any) -> int:
        """The one error code of a commit."""
        response = self.commit(*args, **kwargs)
        (error,) = {partition.error_code for topic in response.topics for partition in topic.partitions}
        return error

    def delete_group(self, group: str = "g") -> int:
        """The error code."""
        ticket = self.ticket()
        self.take(self.coordinator.delete_group(self.now, CALLER, group, ticket))
        result = self.answer(ticket, DeletableGroupResult)
        assert result.group_id == group
        return result.error_code

    def delete_offsets(self, *topics: tuple[str, Sequence[int]], group: str = "g") -> OffsetDeleteResponse:
        ticket = self.ticket()
        request = OffsetDeleteRequest(
            group,
            tuple(
                OffsetDeleteRequestTopic(topic, tuple(map(OffsetDeleteRequestPartition, partitions)))
                for topic, partitions in topics
            ),
        )
        self.take(self.coordinator.offset_delete(self.now, CALLER, 0, request, ticket))
        return self.answer(ticket, OffsetDeleteResponse)

    def delete_offset_errors(self, *topics: tuple[str, Sequence[int]], group: str = "g") -> int | list[list[int]]:
        """The request's error code, or those of the partitions of each topic."""
        response = self.delete_offsets(*topics, group=group)
        if response.error_code:
            assert response.topics == ()
            return response.error_code
        assert [topic.name for topic in response.topics] == [topic for topic, _ in topics]
        return [[partition.error_code for partition in topic.partitions] for topic in response.topics]

    def check_retention(self) -> RetentionStep:
        """A whole look for expired offsets; what all its steps have deleted."""
        offsets = groups = 0
        more = True
        while more:
            step = self.retention_step()
            offsets, groups, more = offsets + step.offsets, groups + step.groups, step.more
        return RetentionStep(offsets, groups, more=False)

    def retention_step(self) -> RetentionStep:
        ticket = self.ticket()
        self.take(self.coordinator.check_retention(self.now, ticket))
        return self.answer(ticket, RetentionStep)

    def offsets(self, group: str = "g") -> dict[tuple[str, int], int]:
        """All the committed offsets of the group, by topic and partition."""
        answered = self.coordinator.offset_fetch(OffsetFetchRequestGroup(group_id=group, topics=None))
        return {(t.name, p.partition_index): p.committed_offset for t in answered.topics for p in t.partitions}

    def fetch(self, topic: str, partition: int, *, group: str = "g") -> OffsetFetchResponsePartitions:
        response = self.coordinator.offset_fetch(
            OffsetFetchRequestGroup(
                group_id=group, topics=(OffsetFetchRequestTopics(name=topic, partition_indexes=(partition,)),)
            )
        )
        ((found,),) = [entry.partitions for entry in response.topics]
        return found

    def state(self, group: str = "g") -> str:
        return self.coordinator.describe_group(group, 5).group_state

    # -- whole phases

    def member(self, **kwargs: Any) -> tuple[str, int]:
        """A dynamic member asks for an id and joins with it; returns its id and the ticket of its parked join."""
        version = kwargs.get("version", 9)
        assert version >= 4
        member_id = self.joined(self.ask_join(**kwargs)).member_id
        return member_id, self.ask_join(member_id, **kwargs)

    def stable(self, size: int = 1, **kwargs: Any) -> tuple[list[str], int]:
        """A new Stable group of that many dynamic members, the first one leading; member ids and generation."""
        members = [self.member(**kwargs) for _ in range(size)]
        self.advance(3_000)
        if size > 1:
            self.advance(3_000)
        answers = [self.joined(ticket) for _, ticket in members]
        generation = answers[0].generation_id
        leader = answers[0].leader
        assert leader == members[0][0]
        for member_id, _ in reversed(members):
            plan = {other: b"for " + other.encode() for other, _ in members} if member_id == leader else None
            self.ask_sync(
                member_id,
                generation,
                plan,
                protocol_name=answers[0].protocol_name,
                protocol_type=answers[0].protocol_type,
                group=kwargs.get("group", "g"),
            )
        assert self.state(kwargs.get("group", "g")) == "Stable"
        return [member_id for member_id, _ in members], generation
