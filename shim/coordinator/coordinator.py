"""The group coordinator of one offsets partition: every decision about its groups and offsets, and its deadlines."""

import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from protocol.own.position import Position
from protocol.own.state_log import (
    Hands,
)
from shim.coordinator import events
from shim.coordinator.decision import Decision
from shim.coordinator.outcome import Asker, Caller, GroupEvent, OffsetReset, Outcome
from shim.coordinator.readable import ReadablePartition
from shim.coordinator.requests.delete_groups import GROUP_DELETED, delete_group
from shim.coordinator.requests.hands import abandon, adopt, take_in_hand
from shim.coordinator.requests.heartbeat import heartbeat
from shim.coordinator.requests.heartbeat_of_another_kind import heartbeat_of_another_kind
from shim.coordinator.requests.in_zookeeper import carry, note_written
from shim.coordinator.requests.join_group import join_group
from shim.coordinator.requests.leave_group import leave_group
from shim.coordinator.requests.offset_commit import offset_commit
from shim.coordinator.requests.offset_delete import offset_delete
from shim.coordinator.requests.rebalance import (
    join_deadline_due,
    prepare_rebalance,
    session_due,
    still_waits,
    sync_deadline_due,
)
from shim.coordinator.requests.reset_offsets import reset_offsets
from shim.coordinator.requests.sync_group import sync_group
from shim.coordinator.requests.txn_offset_commit import (
    commit_deadline_due,
    txn_offset_commit,
    txn_offset_commit_given_up,
    txn_offset_commit_told,
)
from shim.coordinator.settings import CoordinatorSettings
from shim.coordinator.state.group import Deadline, DeadlineKind, Group
from shim.coordinator.state.group_memory import GroupMemory
from shim.coordinator.state.offsets import Before, Moved
from shim.coordinator.state.overruled import LeftOut, Overruled
from shim.coordinator.state.parked_commits import CommitDeadline
from shim.coordinator.state.partition_state import PartitionState
from shim.coordinator.upkeep.followed import (
    LostTransaction,
    Reset,
    end_left_open,
    follow,
    steps_of_reset,
)
from shim.coordinator.upkeep.retention_check import RetentionCheck
from shim.coordinator.upkeep.topic_deletion import TopicDeletion


def _session_due(decision: Decision, group: Group, deadline: Deadline) -> None:
    session_due(decision, group, deadline.member_id)


def _join_due(decision: Decision, group: Group, _deadline: Deadline) -> None:
    join_deadline_due(decision, group)


def _sync_due(decision: Decision, group: Group, _deadline: Deadline) -> None:
    sync_deadline_due(decision, group)


def _tell_due(decision: Decision, group: Group, _deadline: Deadline) -> None:
    still_waits(decision, group)


# So many deadlines are a few milliseconds' work.
_EXPIRED_AT_ONCE = 256

_DUE: dict[DeadlineKind, Callable[[Decision, Group, Deadline], None]] = {
    DeadlineKind.SESSION: _session_due,
    DeadlineKind.JOIN: _join_due,
    DeadlineKind.SYNC: _sync_due,
    DeadlineKind.TELL: _tell_due,
}


class _OfGroup(Protocol):
    @property
    def group_id(self) -> str: ...


Request = TypeVar("Request", bound=_OfGroup)
P = ParamSpec("P")


def _request(
    decide: Callable[[Decision, Caller, int, Request, Asker], None],
) -> Callable[["GroupCoordinator", int, Caller, int, Request, Asker], Outcome]:
    """The method that has this function decide a request at `now`, and gives what comes of it.

    Every commit and heartbeat goes through here: :func:`_decided_by`, which takes anything, would add a fifth to what
    deciding a heartbeat costs.
    """

    def operation(
        self: "GroupCoordinator", now: int, caller: Caller, version: int, request: Request, asker: Asker, /
    ) -> Outcome:
        if self._state.closed:
            self._check_served(request.group_id)
        decision = Decision(self._state, now)
        decide(decision, caller, version, request, asker)
        return decision.outcome

    return operation


def _decided_by(
    decide: Callable[Concatenate[Decision, P], None],
) -> Callable[Concatenate["GroupCoordinator", int, P], Outcome]:
    """Likewise, whatever else it is told."""

    def operation(self: "GroupCoordinator", now: int, /, *args: P.args, **kwargs: P.kwargs) -> Outcome:
        decision = Decision(self._state, now)
        decide(decision, *args, **kwargs)
        return decision.outcome

    return operation


class GroupCoordinator(ReadablePartition):
    """The groups and offsets of one offsets partition, as a state machine without a clock of its own.

    `now` is in milliseconds since the epoch. An operation applies its records to the state before it returns them; if
    they then cannot be made durable, this object is of no more use: make a new one, and have it `replay` the log.

    Request versions are the caller's to check against the API's range.
    """

    def __init__(
        self, settings: CoordinatorSettings | None = None, new_uuid: Callable[[], str] = lambda: str(uuid.uuid4())
    ) -> None:
        """`new_uuid` gives the second part of new member ids, `<client id or instance id>-<uuid>`."""
        super().__init__(PartitionState(settings or CoordinatorSettings(), new_uuid))
        self._retention_check: RetentionCheck | None = None

    def take_settings(self, settings: CoordinatorSettings) -> None:
        """Of what is decided from now on. Members and offsets that there are stay, though they were not let in now."""
        self._state.settings = settings

    # -- from the end of its log's replay to its own

    def loaded(self, now: int, memory: GroupMemory | None = None) -> Sequence[GroupEvent]:
        """To be called once, after the last record of the log: the sessions of restored members begin. Gives what is
        to be told of that.

        Where it follows the cluster's log, offsets are neither served nor taken (COORDINATOR_LOAD_IN_PROGRESS) until it
        has :meth:`caught_up`.

        `memory`: the limit that it has in common with other partitions, until :meth:`released`.
        """
        if memory is not None:
            self._state.memory.move_to(memory)
        self._state.behind = set(self._state.offsets.transactions.positions)
        self._state.offsets.touched.clear()
        if not self._state.offsets.transactions.open_producers():
            self._state.offsets.overruled.forget_offsets()
        decision = Decision(self._state, now)
        for group in self._state.groups.values():
            for member in group.members.values():
                decision.renew_session(member)
            if len(group.members) > self._state.settings.group_max_size:
                # The limit was lowered: members rejoin, and may commit before, until the group is full.
                most = self._state.settings.group_max_size
                prepare_rebalance(decision, group, events.is_too_full(group, most))
        return decision.outcome.events

    def released(self) -> None:
        """It will decide nothing any more: what its groups take is theirs no longer to count."""
        self._state.memory.move_to(GroupMemory(0))

    # -- requests: (now, caller, version, request, asker), the version being one that the API has

    join_group = _request(join_group)
    sync_group = _request(sync_group)
    heartbeat = _request(heartbeat)
    heartbeat_of_another_kind = _request(heartbeat_of_another_kind)
    leave_group = _request(leave_group)
    offset_commit = _request(offset_commit)  # topic ids have been given their names, which records hold
    offset_delete = _request(offset_delete)

    def delete_group(
        self, now: int, caller: Caller, group_id: str, asker: Asker, cause: str = GROUP_DELETED
    ) -> Outcome:
        """One of a DeleteGroups request. ``cause``: for the history."""
        self._check_served(group_id)
        decision = Decision(self._state, now)
        delete_group(decision, caller, group_id, asker, cause)
        return decision.outcome

    def reset_offsets(
        self, now: int, caller: Caller, group_id: str, changes: Sequence[OffsetReset], cause: str, asker: Asker
    ) -> Outcome:
        """Set offsets of a group without members at the word of whoever looks after it. Each is named once."""
        self._check_served(group_id)
        decision = Decision(self._state, now)
        reset_offsets(decision, caller, group_id, changes, cause, asker)
        return decision.outcome

    # -- transactions

    def txn_offset_commit(
        self,
        now: int,
        caller: Caller,
        request: TxnOffsetCommitRequest,
        asker: Asker,
        not_before: Position | None = None,
    ) -> tuple[Outcome, TxnOffsetCommitRequest | None]:
        """TxnOffsetCommit, versions 0-5. Where it is not answered, it is parked, and is to be sent on to the cluster as
        what this gives; what the cluster answers goes to :meth:`txn_offset_commit_told`.
        Where that takes longer than twice `offsets.commit.timeout.ms`, or what the cluster has taken is not read there
        within that time, the answer is COORDINATOR_NOT_AVAILABLE.

        ``not_before``: where the cluster's log ended at some time since the request came; needed only where
        :meth:`was_given_up` says so.
        """
        self._check_served(request.group_id)
        decision = Decision(self._state, now)
        sent_on = txn_offset_commit(decision, caller, request, asker, not_before)
        return decision.outcome, sent_on

    txn_offset_commit_told = _decided_by(txn_offset_commit_told)
    txn_offset_commit_given_up = _decided_by(txn_offset_commit_given_up)

    def caught_up(self, followed: int) -> None:
        """That partition has been taken over up to where it ended at some time since :meth:`loaded`."""
        self._state.behind.discard(followed)

    def steps_of_reset(self, position: Position) -> list[LostTransaction | Reset]:
        """What to :meth:`follow`, at once and in this order, where the cluster's log is no more the one that was taken
        over: it is up to ``position``, and is read again from there on.
        """
        return steps_of_reset(self._state, position)

    follow = _decided_by(follow)
    end_left_open = _decided_by(end_left_open)

    # -- in whose hands groups are, and where else offsets are kept

    def close_group(self, group_id: str, *, closed: bool) -> None:
        """Nothing is decided or told of it from here on (:class:`NotServed`), or no longer so: it changes hands. Of one
        that is not in the shim's hands that is so in any case."""
        if self.hands_of(group_id) is not Hands.PASSED_THROUGH:
            self._state.close(group_id, closed=closed)

    def is_used_in_zookeeper(self, now: int, group_id: str, *, used: bool) -> None:
        """Whether consumers of the group are in ZooKeeper: as long as that is so, or not known, no offset expires, nor
        sooner after it than after a commit."""
        if used:
            self._state.unused_in_zookeeper.pop(group_id, None)
        else:
            self._state.unused_in_zookeeper.setdefault(group_id, now)

    def keep_before(self, before: Before) -> None:
        """What commits change from here on is noted there, of the groups that are in it."""
        self._state.offsets.before = before

    def note_moved(self, moved: Moved) -> None:
        """Likewise, which offsets have become others. No decision goes by that."""
        self._state.offsets.moved = moved

    def note_in_force(self, groups: dict[str, None]) -> None:
        """Likewise, of which transactions have put something in force; whoever knows of it takes them away."""
        self._state.offsets.in_force = groups

    def take_touched(self) -> Collection[str]:
        """The groups whose offsets have changed since this was last asked, or since :meth:`loaded`, in the order in
        which they have."""
        offsets = self._state.offsets
        touched, offsets.touched = offsets.touched, {}
        return touched

    def overruled_there(self, group_id: str, those: Mapping[tuple[str, int], Overruled]) -> None:
        """The cluster's own offsets go by what has overruled these: of :meth:`overruled`."""
        self._state.offsets.overruled.brought(group_id, those)

    def take_left_out(self) -> LeftOut | None:
        """What :meth:`overruled` has not, as there was no room, since this was last asked."""
        return self._state.offsets.overruled.take_left_out()

    carry = _decided_by(carry)
    note_written = _decided_by(note_written)
    take_in_hand = _decided_by(take_in_hand)
    adopt = _decided_by(adopt)
    abandon = _decided_by(abandon)

    # -- topics that are gone

    def delete_topic_offsets(self, topic: str) -> TopicDeletion:
        """The deletion of all offsets for a topic that is gone, to be made in steps."""
        return TopicDeletion(self._state, topic)

    # -- retention

    def check_retention(self, now: int, asker: Asker) -> Outcome:
        """One step of a look for expired offsets; it begins a look when none is under way.

        The answer is a RetentionStep. A look at many offsets takes many steps, as short as other requests are.
        """
        if self._retention_check is None:
            self._retention_check = RetentionCheck(self._state)
        outcome = self._retention_check.step(now, asker)
        if self._retention_check.over:
            self._retention_check = None
        return outcome

    # -- deadlines

    def next_deadline(self) -> int | None:
        """When `expire` is next to be called, in milliseconds since the epoch; None when nothing is waited for."""
        return self._state.deadlines.next()

    def may_be_due_before(self, time: int) -> bool:
        """Whether `next_deadline` may be before that time; costs less."""
        return self._state.deadlines.may_be_before(time)

    def expire(self, now: int) -> Outcome:
        """Do what deadlines at or before `now` call for: ends of sessions, join phases and syncs, and of the time that
        a commit in a transaction may take.

        Where they are very many, not all of it: `next_deadline` is at or before `now` then.
        """
        decision = Decision(self._state, now)
        for _ in range(_EXPIRED_AT_ONCE):
            deadline = self._state.deadlines.pop_due(now)
            if deadline is None:
                break
            if isinstance(deadline, CommitDeadline):
                commit_deadline_due(decision, deadline.asker)
                continue
            group = self._state.groups.get(deadline.group_id)
            if group is not None:
                _DUE[deadline.kind](decision, group, deadline)
        return decision.outcome
