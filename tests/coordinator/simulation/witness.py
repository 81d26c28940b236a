"""Judges a coordinator by what it answers and records; it looks at nothing of its insides.

What it holds against every decision, in its own words; `Broken` names the one that was broken:

- OWNERS: in a generation a partition is assigned to one member, as far as anybody was told.
- GENERATIONS: they grow, one by one; what was recorded of one stays, but for a static member's id.
- FENCED: nothing is accepted from whom the group does not have in this generation, has replaced, let go, or not heard
  of for a session; nor from outside while there are members.
- LIVE: who is a member, and is heard of, is not told otherwise.
- LOG: what is fetched is what the log says, and never what it said before something that was told already.
- EXPIRY: nothing goes before its time, nor while somebody reads it, nor while a transaction may replace it.
- ANSWERS: each request that was accepted has left its records, and no other has.
- RECOVERY: what was recorded is there again, all of it, however it was read back.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from protocol.consumer import subscribed_topics
from protocol.errors import ErrorCode
from protocol.messages.delete_groups import DeletableGroupResult
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from protocol.messages.offset_delete import OffsetDeleteResponse
from protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics, OffsetFetchResponseGroup
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from protocol.offsets_log import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from shim.coordinator import GroupCoordinator, Outcome, TopicDeletionStep
from tests.coordinator.transacting import Written

from .consumer import owned
from .membership import Membership
from .shim import Batch, Call, CheckRetention, DeleteGroup, DeleteTopic, Fetch, replay
from .table import Table

LONGEST_JOIN_MS = 34_000
"""The longest rebalance time-out, which is the session of a member of version 0, and the initial delay."""


def without_overruled(coordinator: GroupCoordinator, groups: Iterable[str]) -> bytes:
    """Its dump. Of the offsets that were overruled a snapshot has fewer: not those that a start before it forgot."""
    copy = GroupCoordinator()
    copy.restore(coordinator.dump())
    for group in groups:
        copy.overruled_there(group, copy.overruled(group))
    return copy.dump()


class Broken(AssertionError):
    """`name`: what does not hold."""

    def __init__(self, name: str, what: str) -> None:
        super().__init__(f"{name}: {what}")
        self.name = name


def hold(condition: object, name: str, what: object) -> None:
    if not condition:
        raise Broken(name, str(what))


class Witness:
    def __init__(self, retention_ms: int, group_max_size: int) -> None:
        self.retention_ms = retention_ms
        self.group_max_size = group_max_size
        self.table = Table()
        self.groups: dict[str, Membership] = {}
        self.epochs: dict[str, int] = {}
        self.owners: dict[tuple[str, int, int, str], str] = {}
        self.told_place: dict[OffsetCommitKey, int] = {}
        self.taken_over: set[tuple[OffsetCommitKey, int]] = set()
        self.deletions: dict[int, int] = {}
        self.counts: dict[str, int] = {}

    def group(self, group_id: str) -> Membership:
        if group_id not in self.groups:
            self.groups[group_id] = Membership(self.epochs.get(group_id, 0))
        return self.groups[group_id]

    def count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    # -- requests

    def asked(self, now: int, call: Call) -> None:
        match call.request:
            case JoinGroupRequest() as request:
                group = self.group(request.group_id)
                group.joining[call] = now
                group.may_rebalance = True
                group.settles_by = now + request.rebalance_timeout_ms + 3_000
            case SyncGroupRequest() as request:
                self.group(request.group_id).syncing[call] = request.member_id
            case DeleteTopic(deletion, _):
                self.deletions.setdefault(id(deletion), self.table.next)

    def decided(self, now: int, cause: Call | None, outcome: Outcome) -> None:
        before = {call: self._expected(call) for call, _ in outcome.answers if isinstance(call, Call)}
        self._records(now, cause, outcome)
        for call, response in outcome.answers:
            if isinstance(response, LeaveGroupResponse):
                assert isinstance(call, Call)
                self._left(call, response)
        if cause is not None and isinstance(cause.request, JoinGroupRequest):
            self._replaced(cause, outcome)
        joined: dict[str, list[tuple[Call, JoinGroupResponse]]] = {}
        for call, response in outcome.answers:
            assert isinstance(call, Call)
            match response, call.request:
                case JoinGroupResponse(), JoinGroupRequest() as request:
                    group = self.group(request.group_id)
                    waited = now - group.joining.pop(call)
                    hold(waited <= LONGEST_JOIN_MS, "LIVE", f"a join waits for {waited} ms")
                    if response.error_code == ErrorCode.NONE:
                        joined.setdefault(request.group_id, []).append((call, response))
                    else:
                        self._parked_in_vain(cause, call, response.error_code)
                        if response.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED:
                            group.removed.add(request.member_id)
                        self._refused(now, call, response.error_code, request.member_id, request.group_instance_id)
        for group_id, answers in joined.items():
            self._joined(now, cause, group_id, answers)
        for call, response in outcome.answers:
            assert isinstance(call, Call)
            match response:
                case SyncGroupResponse():
                    self._synced(now, cause, call, response)
                case HeartbeatResponse():
                    self._beat(now, call, response)
                case OffsetCommitResponse():
                    self._committed(now, call, response, outcome, before[call])
                case OffsetDeleteResponse():
                    wanted = {key for key, value in outcome.records if value is None}
                    for topic in response.topics:
                        for p in topic.partitions:
                            key = OffsetCommitKey(call.request.group_id, topic.name, p.partition_index)  # type: ignore[union-attr]
                            hold(not p.error_code or key not in wanted, "ANSWERS", "deleted in spite of the error")
                            if not p.error_code:
                                hold(key not in self.table.offsets, "ANSWERS", f"{key} is not deleted")
                    call.note = [(key, self.table.place(key)) for key in wanted if isinstance(key, OffsetCommitKey)]
                case TxnOffsetCommitResponse():
                    self._said_to_be_pending(call, response)
                case TopicDeletionStep() if not response.more:
                    self._topic_deleted(call)
                case DeletableGroupResult():
                    self._group_deleted(now, call, response)
        if cause is not None and isinstance(cause.request, TxnOffsetCommitRequest):
            self._let_in(now, cause, outcome)

    def _expected(self, call: Call) -> dict[tuple[str, int], int | None]:
        """Of a conditional commit: what is committed before it; None where a transaction may change that."""
        if not isinstance(call.request, OffsetCommitRequest) or not isinstance(call.note, dict):
            return {}
        keys = [OffsetCommitKey(call.request.group_id, *at) for at in call.note]
        unstable = self.table.unstable()
        return {(key.topic, key.partition): None if key in unstable else self.table.offset(key) for key in keys}

    # -- records

    def _records(self, now: int, cause: Call | None, outcome: Outcome) -> None:
        plain: list[tuple[OffsetCommitKey, OffsetCommitValue | None]] = []
        for key, value in outcome.records:
            if isinstance(key, OffsetCommitKey):
                hold(value is not None or outcome.transaction is None, "ANSWERS", "a tombstone in a transaction")
                if value is None and cause is not None and isinstance(cause.request, CheckRetention):
                    self._offset_expires(now, key)
                assert isinstance(value, OffsetCommitValue | None)
                plain.append((key, value))
        request = cause.request if cause is not None else None
        writers = (OffsetCommitRequest, CheckRetention, DeleteTopic, DeleteGroup)
        allowed = (
            outcome.transaction is not None
            or isinstance(request, writers)
            or type(request).__name__ == "OffsetDeleteRequest"
        )
        hold(not plain or allowed, "ANSWERS", f"offsets written by {request}")
        self.table.take(Written(tuple(plain), outcome.transaction))
        if outcome.transaction is not None:
            self.taken_over |= {(key, value.offset) for key, value in plain if value is not None}
        for key, value in outcome.records:
            if isinstance(key, GroupMetadataKey):
                assert isinstance(value, GroupMetadataValue | None)
                self._group_record(now, cause, key.group, value)

    def _offset_expires(self, now: int, key: OffsetCommitKey) -> None:
        group = self.group(key.group)
        hold(key in self.table.offsets, "EXPIRY", f"{key} is not there")
        hold(key not in self.table.unstable(), "EXPIRY", f"{key} has a transaction pending")
        hold(
            not group.joining and (group.is_settled(group.generation) or not group.members),
            "EXPIRY",
            "amid a rebalance",
        )
        readers = [m for m in group.members if group.is_alive(m, now) and key.topic in group.subscribed[m]]
        hold(not readers, "EXPIRY", f"{key} is read by {readers}")
        since = self.table.committed_at(key)
        if group.recorded is not None and not group.members and group.recorded.protocol_type:
            since = max(since, group.recorded.current_state_timestamp)
        hold(now - since >= self.retention_ms, "EXPIRY", f"{key} after {now - since} ms")
        self.count("expired offsets")

    def _group_record(self, now: int, cause: Call | None, group_id: str, value: GroupMetadataValue | None) -> None:
        group, request = self.group(group_id), cause.request if cause is not None else None
        if value is None:
            hold(isinstance(request, DeleteGroup | CheckRetention), "EXPIRY", f"{group_id} deleted by {request}")
            hold(not group.is_occupied(), "EXPIRY", f"{group_id} deleted with members {[*group.members]}")
            hold(not self.table.has_group(group_id), "EXPIRY", f"{group_id} is deleted and its offsets are not")
            self.epochs[group_id] = group.epoch + 1
            self.groups.pop(group_id, None)
            self.count("groups deleted")
            return
        last = group.recorded
        ids = [member.member_id for member in value.members]
        hold(len(set(ids)) == len(ids), "GENERATIONS", f"a member twice: {ids}")
        hold(value.leader in ids if ids else value.leader is None, "GENERATIONS", f"leader {value.leader} of {ids}")
        if ids and isinstance(request, SyncGroupRequest):
            hold(
                value.generation == group.generation == request.generation_id, "GENERATIONS", "another one than joined"
            )
            hold(last is None or value.generation > last.generation, "GENERATIONS", f"{value.generation} twice")
            hold(group.members.keys() == set(ids), "GENERATIONS", f"{[*group.members]} joined, {ids} recorded")
            hold(value.leader == request.member_id, "GENERATIONS", f"{request.member_id} is not the leader")
        elif ids:
            hold(isinstance(request, JoinGroupRequest), "GENERATIONS", f"recorded by {request}")
            assert isinstance(request, JoinGroupRequest)
            hold(last is not None and value.generation == last.generation, "GENERATIONS", "without a sync")
            assert last is not None
            places = {m.group_instance_id or m.member_id: m.assignment for m in last.members}
            now_there = {m.group_instance_id or m.member_id: m.assignment for m in value.members}
            hold(places == now_there, "OWNERS", f"{places} became {now_there}")
            new = set(ids) - group.members.keys()
            hold(len(new) == 1, "GENERATIONS", f"{new} by one join")
            (old,) = {member.member_id for member in last.members} - set(ids)
            (member_id,) = new
            group.session[member_id] = request.session_timeout_ms
            group.longest[member_id] = group.longest_session(old)
        elif last is not None:
            hold(value.generation > last.generation or not last.members, "GENERATIONS", "empty in the same one")
            hold(not group.joining, "ANSWERS", f"{group_id} is empty, and somebody joins")
        else:
            hold(isinstance(request, JoinGroupRequest) or value.generation > 0, "GENERATIONS", f"made by {request}")
        if last is not None:
            hold(value.generation >= last.generation, "GENERATIONS", f"{value.generation} after {last.generation}")
        removed = {member.member_id for member in last.members} - set(ids) if last is not None and ids else set()
        group.record(value)
        if isinstance(request, JoinGroupRequest):
            group.removed |= removed
        for member in value.members:
            group.session.setdefault(member.member_id, member.session_timeout)

    # -- answers to members

    def _joined(
        self, now: int, cause: Call | None, group_id: str, answers: list[tuple[Call, JoinGroupResponse]]
    ) -> None:
        group = self.group(group_id)
        (generation,) = {response.generation_id for _, response in answers}
        if generation == group.generation:
            # Told again, or a static member that takes its old one's place: nobody but who has just asked.
            (call, response), *others = answers
            hold(not others and call is cause, "GENERATIONS", f"joined into {generation}, which was there before")
            assert isinstance(call.request, JoinGroupRequest)
            hold(response.member_id in group.members, "GENERATIONS", f"{response.member_id} came late")
            again = response.member_id == call.request.member_id
            is_leader = group.recorded is not None and group.recorded.leader == response.member_id
            hold(
                not (again and is_leader and group.is_settled(generation)),
                "GENERATIONS",
                "a leader rejoins, and nothing",
            )
            group.hears(response.member_id, now, surely=not again)
            return
        hold(generation == group.generation + 1, "GENERATIONS", f"{generation} after {group.generation}")
        leaders = [response for _, response in answers if response.leader == response.member_id]
        hold(len(leaders) == 1, "OWNERS", f"{len(leaders)} leaders in one generation")
        hold(sum(bool(response.members) for _, response in answers) == 1, "OWNERS", "two who would assign")
        members = {member.member_id: member.group_instance_id for member in leaders[0].members}
        ids = [response.member_id for _, response in answers]
        hold(len(set(ids)) == len(ids), "ANSWERS", f"a member twice: {ids}")
        hold(set(ids) <= members.keys(), "GENERATIONS", f"{ids} joined, the leader knows {[*members]}")
        gone = group.removed & members.keys()
        hold(not gone, "FENCED", f"{gone} are members again")
        absent = {member for member, instance in members.items() if instance is None} - set(ids)
        hold(not absent, "GENERATIONS", f"{absent} have not joined")
        instances = [instance for instance in members.values() if instance is not None]
        hold(len(set(instances)) == len(instances), "OWNERS", f"an instance twice: {instances}")
        static = {member for member, instance in group.members.items() if instance is not None}
        missing = {m for m in group.members if group.is_alive(m, now) and (group.waits(m) or m in static)}
        hold(missing <= members.keys(), "LIVE", f"{missing - members.keys()} live, and are left out")
        for call, response in answers:
            assert isinstance(call.request, JoinGroupRequest)
            group.session[response.member_id] = call.request.session_timeout_ms
        for member in leaders[0].members:
            group.subscribed[member.member_id] = set(subscribed_topics(member.metadata))
        group.generation, group.members = generation, members
        group.syncing.clear()
        group.synced.clear()
        group.may_rebalance = False
        group.synced_by = now + max(c.request.rebalance_timeout_ms for c, _ in answers)  # type: ignore[union-attr]
        for member_id in members:
            group.hears(member_id, now, surely=True)
        self.count("generations")

    def _replaced(self, cause: Call, outcome: Outcome) -> None:
        """A static member that comes back without an id takes its old one's place, whether it has to wait or not."""
        request = cause.request
        assert isinstance(request, JoinGroupRequest)
        refused = any(call is cause and getattr(response, "error_code", 0) for call, response in outcome.answers)
        if request.group_instance_id is not None and not request.member_id and not refused:
            group, new = self.group(request.group_id), {m.member_id for m in self._members_recorded(outcome)}
            group.removed |= {
                member
                for member, instance in group.members.items()
                if instance == request.group_instance_id and member not in new
            }

    def _members_recorded(self, outcome: Outcome) -> Iterable[Any]:
        for _, value in outcome.records:
            if isinstance(value, GroupMetadataValue):
                yield from value.members

    def _parked_in_vain(self, cause: Call | None, call: Call, error: int) -> None:
        """Whoever waits for an answer is a member, until it leaves or is replaced."""
        request: Any = call.request
        lost = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID)
        if call is not cause and error in lost and request.member_id in self.group(request.group_id).members:
            hold(
                request.member_id in self.group(request.group_id).removed, "LIVE", f"{request.member_id} waits in vain"
            )

    def _synced(self, now: int, cause: Call | None, call: Call, response: SyncGroupResponse) -> None:
        request = call.request
        assert isinstance(request, SyncGroupRequest)
        group = self.group(request.group_id)
        was_parked = group.syncing.pop(call, None) is not None
        if response.error_code != ErrorCode.NONE:
            self._parked_in_vain(cause, call, response.error_code)
            self._refused(now, call, response.error_code, request.member_id, request.group_instance_id)
            if response.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
                group.hears(request.member_id, now, surely=False)
            return
        hold(group.is_settled(request.generation_id), "OWNERS", "an assignment that is not recorded")
        hold(group.may_be_alive(request.member_id, now) or was_parked, "FENCED", f"{request.member_id} syncs")
        assert group.recorded is not None
        recorded = {member.member_id: member.assignment for member in group.recorded.members}
        hold(recorded.get(request.member_id) == response.assignment, "OWNERS", "another assignment than recorded")
        group.hears(request.member_id, now, surely=False)
        group.synced.add(request.member_id)
        owner = group.members.get(request.member_id) or request.member_id
        call.note = (request.group_id, group.epoch, request.generation_id, owner)
        self.count("assignments")

    def _beat(self, now: int, call: Call, response: HeartbeatResponse) -> None:
        request = call.request
        assert isinstance(request, HeartbeatRequest)
        group, error = self.group(request.group_id), response.error_code
        if error in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            hold(request.generation_id == group.generation, "FENCED", f"{request.generation_id} beats")
            hold(group.may_be_alive(request.member_id, now), "FENCED", f"{request.member_id} beats")
            group.hears(request.member_id, now, surely=True)
        else:
            self._refused(now, call, error, request.member_id, request.group_instance_id, request.generation_id)

    def _left(self, call: Call, response: LeaveGroupResponse) -> None:
        request = call.request
        assert isinstance(request, LeaveGroupRequest)
        group = self.group(request.group_id)
        for who in response.members:
            if who.error_code == ErrorCode.NONE:
                group.may_rebalance = True
                group.removed |= {
                    member
                    for member, instance in group.members.items()
                    if member == who.member_id
                    or (not who.member_id and instance is not None and instance == who.group_instance_id)
                }

    def _refused(
        self, now: int, call: Call, error: int, member_id: str, instance: str | None, generation: int | None = None
    ) -> None:
        """Nobody who is a member is told that it is none."""
        request: Any = call.request
        group = self.group(request.group_id)
        lost = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID)
        if error in lost and group.members.get(member_id, "?") == instance:
            certain = group.is_settled(group.generation) and group.is_alive(member_id, now)
            hold(not certain, "LIVE", f"{member_id} is told {ErrorCode(error).name}")
        if error == ErrorCode.UNKNOWN_MEMBER_ID and member_id and instance is not None:
            others = [
                m for m, i in group.members.items() if i == instance and m != member_id and group.is_alive(m, now)
            ]
            hold(not others, "FENCED", f"{member_id} is not told that it is fenced by {others}")
        if error == ErrorCode.ILLEGAL_GENERATION and member_id in group.members:
            hold(generation != group.generation, "LIVE", f"{generation} is the generation")

    # -- commits

    def _let_in(self, now: int, call: Call, outcome: Outcome) -> None:
        request = call.request
        assert isinstance(request, TxnOffsetCommitRequest)
        group = self.group(request.group_id)
        if any(ticket is call for ticket, _ in outcome.answers):
            return
        if request.generation_id >= 0 or (request.member_id and group.is_occupied()):
            hold(request.generation_id == group.generation, "FENCED", f"{request.generation_id} commits")
            hold(group.may_be_alive(request.member_id, now), "FENCED", f"{request.member_id} commits")
        self.count("commits in transactions")

    def _committed(
        self,
        now: int,
        call: Call,
        response: OffsetCommitResponse,
        outcome: Outcome,
        before: dict[tuple[str, int], int | None],
    ) -> None:
        request = call.request
        assert isinstance(request, OffsetCommitRequest)
        group = self.group(request.group_id)
        generation, member_id = request.generation_id_or_member_epoch, request.member_id
        asked = {(t.name, p.partition_index): p for t in request.topics for p in t.partitions}
        errors = {(t.name, p.partition_index): p.error_code for t in response.topics for p in t.partitions}
        hold(errors.keys() == asked.keys(), "ANSWERS", "not what was asked")
        written: dict[tuple[str, int], int] = {}
        for key, value in outcome.records:
            assert isinstance(key, OffsetCommitKey)
            assert isinstance(value, OffsetCommitValue)
            hold(key.group == request.group_id, "ANSWERS", "another group's")
            written[key.topic, key.partition] = value.offset
        accepted = {at: asked[at].committed_offset for at, error in errors.items() if not error}
        hold(written == accepted, "ANSWERS", f"{accepted} accepted, {written} written")
        if isinstance(call.note, dict):
            holds = all(before[at] == expected for at, expected in call.note.items())
            hold(None not in before.values() or not accepted, "LOG", "it is not certain what is committed")
            hold(holds or not accepted, "LOG", f"{call.note} expected, {before} committed")
            if not accepted:
                return
            self.count("conditional commits")
        if not accepted:
            (error,) = set(errors.values())
            self._refused(now, call, error, member_id, request.group_instance_id, generation)
            return
        if generation < 0:
            hold(not group.is_occupied(), "FENCED", f"from outside into {[*group.members]}")
        else:
            # Between two rebalances it may be that of a generation that never came to its assignment.
            settled = group.is_settled(generation) or (
                generation == group.generation and group.may_rebalance_again(now)
            )
            hold(settled, "FENCED", f"generation {generation}, it is {group.generation}")
            hold(group.may_be_alive(member_id, now), "FENCED", f"{member_id} commits")
            hold(request.group_instance_id in (None, group.members[member_id]), "FENCED", "another instance's")
            group.hears(member_id, now, surely=True)
        keys = [OffsetCommitKey(request.group_id, *at) for at in accepted]
        call.note = [(key, self.table.place(key)) for key in keys]
        self.count("commits")

    def _said_to_be_pending(self, call: Call, response: TxnOffsetCommitResponse) -> None:
        request = call.request
        assert isinstance(request, TxnOffsetCommitRequest)
        asked = {(t.name, p.partition_index): p.committed_offset for t in request.topics for p in t.partitions}
        for topic in response.topics:
            for p in topic.partitions:
                at = topic.name, p.partition_index
                there = (OffsetCommitKey(request.group_id, *at), asked[at]) in self.taken_over
                hold(there or p.error_code, "ANSWERS", f"{at} is not in the log")

    def _topic_deleted(self, call: Call) -> None:
        """Of what there was when it began nothing is left, settled or not."""
        assert isinstance(call.request, DeleteTopic)
        began = self.deletions.pop(id(call.request.deletion))
        left = [self.table.offsets, *self.table.pending.values()]
        for key, (at, _) in [each for offsets in left for each in offsets.items()]:
            hold(key.topic != call.request.topic or at >= began, "ANSWERS", f"{key} is left of the topic")
        self.count("topics deleted")

    def _group_deleted(self, now: int, call: Call, response: DeletableGroupResult) -> None:
        group_id = response.group_id
        if response.error_code == ErrorCode.NONE:
            hold(group_id not in self.groups or not self.groups[group_id].is_occupied(), "ANSWERS", "not deleted")
            hold(not self.table.has_group(group_id), "ANSWERS", f"offsets of {group_id} are left")
        elif response.error_code == ErrorCode.NON_EMPTY_GROUP:
            hold(
                self.group(group_id).is_occupied() or now < self.group(group_id).settles_by,
                "ANSWERS",
                f"{group_id} has no members",
            )

    # -- reads

    def fetched(self, now: int, call: Call, response: OffsetFetchResponseGroup) -> None:
        assert isinstance(call.request, Fetch)
        unstable, seen = self.table.unstable(), []
        for topic in response.topics:
            for p in topic.partitions:
                key = OffsetCommitKey(response.group_id, topic.name, p.partition_index)
                if p.error_code:
                    hold(call.request.require_stable, "LOG", f"{key}: error {p.error_code}")
                    continue
                hold(not call.request.require_stable or key not in unstable, "LOG", f"{key} is unstable")
                hold(p.committed_offset == self.table.offset(key), "LOG", f"{key}: {p.committed_offset}")
                seen.append((key, self.table.place(key)))
        call.note = seen
        self.count("fetches")

    def told(self, now: int, call: Call, response: Any) -> None:
        match response:
            case SyncGroupResponse() if response.error_code == ErrorCode.NONE:
                group_id, epoch, generation, owner = call.note
                for partition in owned(response.assignment):
                    other = self.owners.setdefault((group_id, epoch, generation, partition), owner)
                    hold(other == owner, "OWNERS", f"{partition} is {other}'s and {owner}'s in {generation}")
            case OffsetFetchResponseGroup() | OffsetCommitResponse() | OffsetDeleteResponse() if isinstance(
                call.note, list
            ):
                for key, place in call.note:
                    known = self.told_place.get(key, -1)
                    if isinstance(response, OffsetFetchResponseGroup):
                        hold(place >= known, "LOG", f"{key} of {place}, {known} was told before")
                    self.told_place[key] = max(known, place)

    # -- after a restart, or a failed write

    def loaded(self, now: int, log: list[Batch], coordinator: GroupCoordinator) -> None:
        self.table, self.groups, self.epochs = Table(), {}, {}
        self.deletions.clear()
        seen: set[OffsetCommitKey] = set()
        for batch in log:
            offsets = tuple((key, value) for key, value in batch.records if isinstance(key, OffsetCommitKey))
            seen |= {key for key, _ in offsets}
            self.table.take(Written(offsets, batch.transaction))  # type: ignore[arg-type]
            for key, value in batch.records:
                if not isinstance(key, GroupMetadataKey):
                    continue
                if isinstance(value, GroupMetadataValue):
                    self.group(key.group).record(value)
                else:
                    self.epochs[key.group] = self.group(key.group).epoch + 1
                    del self.groups[key.group]
        for group_id, group in self.groups.items():
            assert group.recorded is not None
            for member in group.recorded.members:
                group.session[member.member_id] = member.session_timeout
                group.hears(member.member_id, now, surely=True)
                group.synced.add(member.member_id)
            described = coordinator.describe_group(group_id, 6)
            # Static members that do not rejoin stay, so there may be more than the limit; then all are to rejoin.
            state = "PreparingRebalance" if len(group.members) > self.group_max_size else "Stable"
            hold(described.group_state == (state if group.members else "Empty"), "RECOVERY", described.group_state)
            there = [(m.member_id, m.group_instance_id, m.member_assignment) for m in described.members]
            recorded = [(m.member_id, m.group_instance_id, m.assignment) for m in group.recorded.members]
            hold(there == recorded, "RECOVERY", f"{there} instead of {recorded}")
        restored = GroupCoordinator()  # one that need not read the cluster's log first
        restored.restore(coordinator.dump())
        for key in seen:
            wanted = OffsetFetchRequestGroup(
                key.group, topics=(OffsetFetchRequestTopics(key.topic, partition_indexes=(key.partition,)),)
            )
            found = restored.offset_fetch(wanted).topics[0].partitions[0].committed_offset
            hold(found == self.table.offset(key), "RECOVERY", f"{key}: {found} instead of {self.table.offset(key)}")
            stable = not restored.offset_fetch(wanted, require_stable=True).topics[0].partitions[0].error_code
            hold(stable == (key not in self.table.unstable()), "RECOVERY", f"{key}: pending or not")
        hold(coordinator.offset_count == len(self.table.offsets), "RECOVERY", "more offsets than the log has")
        again = GroupCoordinator()
        for batch in log:
            replay(again, batch)
        again.loaded(now)
        groups = {key.group for key in seen} | set(self.groups)
        noted = [{group: set(each.overruled(group)) for group in groups} for each in (coordinator, again)]
        hold(noted[0] == noted[1], "RECOVERY", "what is overruled in the cluster")
        two = [without_overruled(each, groups) for each in (coordinator, again)]
        hold(two[0] == two[1], "RECOVERY", "read back in two ways, it is two things")
        self.count("loads")
