"""Consumers of the classic protocol, as clients are: one request at a time, heartbeats beside; and their faults."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from protocol.consumer import subscribed_topics
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.coordinator.driving import subscription

from .shim import Request

if TYPE_CHECKING:
    from .world import World


def owned(assignment: bytes) -> list[str]:
    """The partitions, `topic-number`, of an assignment as the leaders here write it."""
    return assignment.decode().split()


def plan(partitions: dict[str, int], members: Sequence[tuple[str, bytes]]) -> dict[str, bytes]:
    """Each partition of each topic to one of the members that subscribe to it, in turn."""
    shares: dict[str, list[str]] = {member_id: [] for member_id, _ in members}
    topics = {member_id: set(subscribed_topics(metadata)) for member_id, metadata in members}
    turn = 0
    for topic, count in partitions.items():
        readers = [member_id for member_id in shares if topic in topics[member_id]]
        for partition in range(count) if readers else ():
            shares[readers[turn % len(readers)]].append(f"{topic}-{partition}")
            turn += 1
    return {member_id: " ".join(share).encode() for member_id, share in shares.items()}


class Consumer:
    """`version`: of JoinGroup; 4 and newer are first given an id, 5 and newer may be static.

    Now and then it does what it should not: falls silent between join and sync, commits before it knows what it owns,
    assigns everything to itself though it does not lead.
    """

    def __init__(
        self,
        world: World,
        name: str,
        group: str,
        *,
        instance: str | None,
        version: int,
        topics: tuple[str, ...],
        session_ms: int,
        idles: bool,
    ) -> None:
        self.world = world
        self.name = name
        self.group = group
        self.instance = instance
        self.version = version
        self.topics = topics
        self.session_ms = session_ms
        self.rebalance_ms = 20_000
        self.idles = idles
        self.member_id = ""
        self.generation = -1
        self.owns: list[str] = []
        self.is_member = False
        self.is_over = False
        self.paused_until = 0
        self._turn = 0  # answers to what was asked before the present turn are not listened to
        self.past: list[tuple[str, int]] = []
        self.commits = 0
        self._joined_with = topics

    # -- life

    def start(self) -> None:
        self._join()
        self._every(lambda: self.session_ms // 4, self._beat)
        self._every(lambda: self.world.events.random.randint(500, 40_000), self._commit_some)

    def die(self) -> None:
        """Without a word."""
        self.is_over = True

    def leave(self) -> None:
        member = MemberIdentity(self.member_id, self.instance)
        self._send(5, LeaveGroupRequest(group_id=self.group, members=(member,)), lambda _: None)
        self.die()

    def pause(self, ms: int) -> None:
        """It hears and does nothing for so long, and then goes on as if it had been a moment."""
        self.paused_until = self.world.events.now + ms

    def change_topics(self, topics: tuple[str, ...]) -> None:
        self.topics = topics
        if self.is_member:
            self._rejoin()

    def rejoin(self) -> None:
        if self.is_member:
            self._rejoin()

    @property
    def is_paused(self) -> bool:
        return self.world.events.now < self.paused_until

    def _every(self, delay: Callable[[], int], do: Callable[[], None]) -> None:
        def once() -> None:
            if self.is_over:
                return
            if not self.is_paused:
                do()
            self.world.events.after(delay(), once)

        self.world.events.after(delay(), once)

    def _send(self, version: int, request: Request, heard: Callable[[Any], None]) -> None:
        self.world.send(self.name, version, request, lambda response: self._hear(heard, response))

    def _hear(self, heard: Callable[[Any], None], response: Any) -> None:
        if self.is_over:
            return
        if self.is_paused:
            self.world.events.after(self.paused_until - self.world.events.now, lambda: self._hear(heard, response))
            return
        heard(response)

    def _in_turn(self, heard: Callable[[Any], None]) -> Callable[[Any], None]:
        turn = self._turn
        return lambda response: heard(response) if turn == self._turn else None

    def _ask(self, version: int, request: Request, heard: Callable[[Any], None]) -> None:
        """A request that may be parked; that it was lost is noticed when the answer is overdue."""
        self._turn += 1
        in_turn = self._in_turn(heard)
        self._send(version, request, in_turn)
        self.world.events.after(
            self.rebalance_ms + 15_000, lambda: self._hear(in_turn, None) if not self.is_member else None
        )

    def _rejoin(self) -> None:
        self.is_member = False
        self._turn += 1
        self._soon(self._join)

    def _soon(self, do: Callable[[], None]) -> None:
        self.world.events.within(300, lambda: None if self.is_over else do())

    # -- join and sync

    def _join(self) -> None:
        self._joined_with = self.topics
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=self.session_ms,
            rebalance_timeout_ms=self.rebalance_ms,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocols=(JoinGroupRequestProtocol("range", subscription(*self.topics)),),
        )
        self._ask(self.version, request, self._joined)

    def _joined(self, response: JoinGroupResponse | ErrorCode | None) -> None:
        if not isinstance(response, JoinGroupResponse):
            self._rejoin()
            return
        match response.error_code:
            case ErrorCode.NONE:
                self.member_id, self.generation = response.member_id, response.generation_id
                if self.world.events.chance(0.05):
                    self.commit(self.member_id, self.generation)  # before it knows what it owns
                members = [(member.member_id, member.metadata) for member in response.members]
                assignments = {} if response.skip_assignment else plan(self.world.partitions, members)
                if not members and self.world.events.chance(0.02):
                    assignments = plan(self.world.partitions, [(self.member_id, subscription(*self.topics))])
                if self.world.events.chance(0.03) and self.world.in_disorder:
                    self.pause(30_000)
                    self._hear(lambda _: self._sync(assignments), None)
                else:
                    self._sync(assignments)
            case ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = response.member_id
                self._soon(self._join)
            case error:
                self._lose(error)

    def _sync(self, assignments: dict[str, bytes]) -> None:
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocol_name="range",
            assignments=tuple(SyncGroupRequestAssignment(*each) for each in assignments.items()),
        )
        self._ask(5, request, self._synced)

    def _synced(self, response: SyncGroupResponse | ErrorCode | None) -> None:
        if not isinstance(response, SyncGroupResponse):
            self._rejoin()
        elif response.error_code != ErrorCode.NONE:
            self._lose(response.error_code)
        else:
            self.is_member = True
            self.owns = owned(response.assignment)
            self.past.append((self.member_id, self.generation))
            if self._joined_with != self.topics:
                self._rejoin()

    def _lose(self, error: int) -> None:
        """What a client does at an error of its group."""
        if error == ErrorCode.FENCED_INSTANCE_ID:
            self.die()
            return
        if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            self.generation, self.owns = -1, []
            if error == ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
        self._rejoin()

    # -- while it is a member

    def _beat(self) -> None:
        if self.generation < 0 or not self.member_id:
            return
        request = HeartbeatRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
        )
        self._send(4, request, self._in_turn(self._beaten))

    def _beaten(self, response: HeartbeatResponse | ErrorCode | None) -> None:
        if self.is_member and isinstance(response, HeartbeatResponse) and response.error_code:
            self._lose(response.error_code)

    def _commit_some(self) -> None:
        if self.is_member and self.owns and not (self.idles and self.commits):
            self.commits += 1
            self.commit(self.member_id, self.generation)

    def commit(self, member_id: str, generation: int) -> None:
        random = self.world.events.random
        chosen = random.sample(self.owns, random.randint(1, len(self.owns))) if self.owns else ["orders-0"]
        request = self.world.commit_request(self.group, chosen, generation, member_id, self.instance)
        if request is not None:
            self._send(8, request, self._in_turn(self._committed))

    def _committed(self, response: OffsetCommitResponse | ErrorCode | None) -> None:
        if self.is_member and isinstance(response, OffsetCommitResponse):
            (error,) = {p.error_code for topic in response.topics for p in topic.partitions}
            if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.ILLEGAL_GENERATION):
                self._lose(error)

    def says_something_old(self) -> None:
        """A commit of a generation that it once had; of one that never was."""
        random = self.world.events.random
        if self.past:
            member_id, generation = random.choice(self.past)
            self.commit(member_id, generation + random.choice((-1, 0, 0, 0, 1)))


def commit_of(
    group: str, offsets: dict[str, int], generation: int, member_id: str, instance: str | None
) -> OffsetCommitRequest:
    """`offsets` by `topic-partition`."""
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for at, offset in offsets.items():
        topic, partition = at.split("-")
        topics.setdefault(topic, []).append(OffsetCommitRequestPartition(int(partition), offset))
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        group_instance_id=instance,
        topics=tuple(OffsetCommitRequestTopic(topic, partitions=tuple(each)) for topic, each in topics.items()),
    )
