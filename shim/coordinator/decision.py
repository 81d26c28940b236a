"""The making of an outcome: records are applied as they are written, answers gathered as they are given."""

from collections.abc import Mapping, Sequence
from typing import Any

from protocol.commit_rows import CommitRows
from protocol.errors import ErrorCode
from protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.sync_group import SyncGroupResponse
from protocol.offsets_log import OffsetCommitKey, OffsetCommitValue
from protocol.own.history_log import DELETED, NO_OFFSET, HistoryRecord, OffsetHistoryKey, OffsetHistoryValue, Who
from protocol.own.state_log import (
    ABSENT,
    NOT_CARRIED,
    About,
    GroupChangeKey,
    GroupHandsKey,
    GroupHandsValue,
    Hands,
    StateRecord,
    Step,
    WrittenKey,
    WrittenValue,
)
from protocol.own.topic_log import PendingKey, Settled, pending_key
from shim.coordinator.outcome import (
    Asker,
    Caller,
    GroupEvent,
    Key,
    Outcome,
    Response,
    RowsOfTopic,
    TransactionBatch,
    TransactionEnd,
    Value,
)
from shim.coordinator.state.group import Group, Member, Parked
from shim.coordinator.state.partition_state import PartitionState

OffsetRecord = tuple[OffsetCommitKey, OffsetCommitValue]

RECORD_OVERHEAD = 80
"""Bytes that a record takes beside its names and metadata (a little less)."""

UTF8_MAX = 4
"""Bytes of a character, at most."""

_new: Any = tuple.__new__  # it skips the constructors of named tuples


class Decision:
    """What one request, or the deadlines that came up, is deciding at `now` (milliseconds since the epoch)."""

    __slots__ = ("cuts", "dropped", "events", "history", "now", "outcome", "room", "rows", "said", "state")

    def __init__(self, state: PartitionState, now: int) -> None:
        self.state = state
        self.now = now
        self.history: list[HistoryRecord] = []
        self.cuts: list[int] = []
        self.room = 0
        self.dropped: list[tuple[int, PendingKey]] = []
        self.rows: list[RowsOfTopic] = []
        self.said: list[StateRecord] = []
        self.events: list[GroupEvent] | None = None
        self.outcome: Outcome = _new(Outcome, ([], [], self.history, self.cuts, None, self.rows, (), self.dropped, ()))

    def write(self, key: Key, value: Value | None) -> None:
        """Apply the record to the state and hand it out to be appended."""
        if value is None and isinstance(key, OffsetCommitKey):
            self._drop_pending(key)
        self.state.replay(key, value)
        self.outcome.records.append((key, value))

    def _drop_pending(self, key: OffsetCommitKey) -> None:
        """The next record is a tombstone of that offset."""
        at = len(self.outcome.records)
        self.dropped += [
            (at, pending_key(producer, key)) for producer in self.state.offsets.transactions.producers_of(key)
        ]

    def write_rows(self, commit: OffsetCommitRequest, topic: str, rows: CommitRows, caller: Caller | None) -> None:
        """As :meth:`write`, of what a plain commit has for one topic; such commits are all that is decided. ``caller``:
        who commits, for the history; None where none is kept."""
        self.state.replay_rows(commit.group_id, topic, rows, self.now)
        self.rows.append(_new(RowsOfTopic, (commit, topic, rows, self.now, caller)))

    def write_hands(self, group_id: str, hands: Hands, step: Step, cause: str, *, from_zookeeper: bool) -> None:
        """The group is in these hands from here on, and at this step."""
        value = GroupHandsValue(hands, self.now, cause, step, int(from_zookeeper))
        records: list[StateRecord] = [(GroupHandsKey(group_id), value)]
        if self.state.hands_of(group_id) is not None:  # names that somebody once tried are not worth a second one
            records.append((GroupChangeKey(group_id, self.now), value))
        self.state.replay_hands(group_id, value)
        self._say(records)

    def mark_served(self, group_id: str) -> None:
        """A group that goes was served, if there is no word on it: what the cluster has of it must not rise again."""
        if group_id not in self.state.hands:
            self.write_hands(group_id, Hands.SERVED, Step.KAFKA, "it was served", from_zookeeper=False)

    def write_written(self, group_id: str, written: Mapping[tuple[str, int], WrittenValue | None]) -> None:
        """By topic and partition: ZooKeeper has this by the shim's hand, or is about to; None: nothing."""
        records: list[StateRecord] = []
        for (topic, partition), value in written.items():
            key = WrittenKey(group_id, topic, partition)
            self.state.replay_written(key, value)
            records.append((key, value))
        self._say(records)

    def _say(self, records: Sequence[StateRecord]) -> None:
        if not self.said:  # of most decisions nothing is
            self.outcome = self.outcome._replace(state=self.said)
        self.said.extend(records)

    def make_room(self, size: int) -> None:
        """For the next record, so large. Where the batch would be larger than `commit_max_bytes` another one begins,
        which may become durable later."""
        if self.room < size:
            if self.outcome.records:
                self.cuts.append(len(self.outcome.records))
            self.room = self.state.settings.commit_max_bytes
        self.room -= size

    def write_pending(self, batch: TransactionBatch, records: Sequence[OffsetRecord]) -> None:
        """As :meth:`write`, of offsets in a transaction; they are all that this decision writes."""
        self.outcome = self.outcome._replace(transaction=batch)
        producer = batch.producer
        for key, value in records:
            self.state.replay_pending(producer, batch.position, key, value)
        self.outcome.records.extend(records)

    def end_transaction(self, end: TransactionEnd) -> list[Settled]:
        """This decision is the end of a transaction, and writes no more. Gives what becomes of what was pending."""
        settled = self.state.replay_end(end.producer, end.position, committed=end.committed)
        self.outcome = self.outcome._replace(transaction=end._replace(settled=settled) if settled else end)
        return settled

    def remember(self, key: OffsetCommitKey, value: OffsetCommitValue, who: Who) -> None:
        """Hand out the record that the history has of an offset that was committed."""
        offset, leader_epoch, metadata, commit_timestamp, _, _, _ = value
        self.history.append(
            (
                OffsetHistoryKey(key.group, key.topic, key.partition, self.now),
                OffsetHistoryValue(offset, leader_epoch, metadata, commit_timestamp, *who),
            )
        )

    def delete(self, key: OffsetCommitKey, cause: str, caller: Caller, deleted: int = DELETED) -> None:
        """As :meth:`write`, of a tombstone; the history is told what was there and is not any more, by whom and why."""
        state = self.state
        if state.settings.offsets_history_retention_minutes > 0:
            committed = state.offsets.committed.get(key.group, key.topic, key.partition)
            if committed is not None:
                value = OffsetHistoryValue(
                    *(NO_OFFSET, -1, "", self.now, -1, "", None, *caller),
                    cause=cause,
                    replaced=committed.offset,
                    deleted=deleted,
                )
                self.history.append((OffsetHistoryKey(key.group, key.topic, key.partition, self.now), value))
        if key.group in state.with_stores and state.step_of(key.group) is Step.KAFKA_DUAL:
            self._note_deletion(key)
        self.write(key, None)

    def _note_deletion(self, key: OffsetCommitKey) -> None:
        """Nothing is there again: what is noted of ZooKeeper may say that there was nothing before, too, and after a
        crash nothing else tells that from no change at all."""
        at = (key.topic, key.partition)
        last = self.state.written.get(key.group, {}).get(at)
        its = self.state.offsets.committed.get(key.group, *at)
        if its is None:
            return
        if last is None:
            self.write_written(key.group, {at: WrittenValue(its.offset, ABSENT, about=About.WRITES)})
        elif last.replaced == NO_OFFSET:
            self.write_written(key.group, {at: last._replace(replaced=NOT_CARRIED)})
        elif last.replaced == NOT_CARRIED and last.offset == NO_OFFSET and its.offset >= 0:
            # Some offset stood there before one that nobody was about to write; and what was written there since is
            # older than what is deleted, too, where this note is there after a crash and its tombstone is not.
            self.write_written(key.group, {at: WrittenValue(its.offset, last.version - 1, about=About.WRITES)})

    def tell(self, event: GroupEvent) -> None:
        """Whoever looks after the group."""
        if self.events is None:  # of most decisions there is nothing to be told
            self.events = []
            self.outcome = self.outcome._replace(events=self.events)
        self.events.append(event)

    def answer(self, asker: Asker, response: Response) -> None:
        """Answer a request, this one or a parked one."""
        self.outcome.answers.append((asker, response))

    def hear_of(self, member: Member) -> None:
        """A request of the member has come: its session begins anew."""
        member.heard_at = self.now
        self.renew_session(member)

    def renew_session(self, member: Member, at_least_ms: int = 0) -> None:
        """Its session ends one session timeout from now, and not in less than that."""
        self.state.deadlines.set(member.session_deadline, self.now + max(member.session_timeout_ms, at_least_ms))

    def refuse_join(self, parked: Parked | None, error: ErrorCode, member_id: str) -> None:
        """Answer a JoinGroup, if there is one, with an error."""
        if parked is not None:
            self.answer(parked.asker, join_response(parked.version, error, member_id))

    def refuse_sync(self, parked: Parked | None, error: ErrorCode) -> None:
        """Answer a SyncGroup, if there is one, with an error."""
        if parked is not None:
            self.answer(parked.asker, sync_response(error))


def record_size(*names: str) -> int:
    """At most so many bytes does a record take that has these in it."""
    return RECORD_OVERHEAD + UTF8_MAX * sum(map(len, names))


def join_response(
    version: int,
    error: ErrorCode,
    member_id: str,
    *,
    generation_id: int = -1,
    protocol_type: str | None = None,
    protocol_name: str | None = None,
    leader: str = "",
    skip_assignment: bool = False,
    members: tuple[JoinGroupResponseMember, ...] = (),
) -> JoinGroupResponse:
    """A JoinGroup response; before version 7 a protocol name cannot be null and is "" instead."""
    return JoinGroupResponse(
        throttle_time_ms=0,
        error_code=error,
        generation_id=generation_id,
        protocol_type=protocol_type,
        protocol_name="" if protocol_name is None and version < 7 else protocol_name,
        leader=leader,
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=members,
    )


def joined_response(version: int, group: Group, member: Member) -> JoinGroupResponse:
    """The JoinGroup response of the present generation: the leader is told who the members are."""
    return join_response(
        version,
        ErrorCode.NONE,
        member.member_id,
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader or "",
        members=joined_members(group) if group.leader == member.member_id else (),
    )


def joined_members(group: Group) -> tuple[JoinGroupResponseMember, ...]:
    """The members as the leader is told of them, each with its metadata for the chosen protocol."""
    return tuple(
        JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            metadata=member.metadata(group.protocol_name),
        )
        for member in group.members.values()
    )


def sync_response(error: ErrorCode) -> SyncGroupResponse:
    """A SyncGroup response with an error."""
    return SyncGroupResponse(
        throttle_time_ms=0, error_code=error, protocol_type=None, protocol_name=None, assignment=b""
    )


def synced_response(group: Group, member: Member) -> SyncGroupResponse:
    """The SyncGroup response with the member's assignment."""
    return SyncGroupResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=member.assignment,
    )
