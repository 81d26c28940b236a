"""The group coordinator of one offsets partition: every operation on its groups and offsets, and its deadlines."""

import uuid
from collections import Counter
from collections.abc import Callable, KeysView, Mapping, Sequence, Set
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from protocol.messages.describe_groups import DescribedGroup
from protocol.messages.list_groups import ListedGroup
from protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from protocol.own.position import Position, Producer
from protocol.own.state_log import (
    GroupHandsValue,
    Hands,
    Step,
    WrittenValue,
)
from shim.coordinator.decision import Decision
from shim.coordinator.outcome import Asker, Caller, OffsetReset, Outcome
from shim.coordinator.replayed import ReplayedPartition
from shim.coordinator.requests import listing
from shim.coordinator.requests.delete_groups import GROUP_DELETED, delete_group
from shim.coordinator.requests.elsewhere import carry, write_ahead
from shim.coordinator.requests.hands import abandon, adopt, take_in_hand
from shim.coordinator.requests.heartbeat import heartbeat
from shim.coordinator.requests.join_group import join_group
from shim.coordinator.requests.leave_group import leave_group
from shim.coordinator.requests.offset_commit import offset_commit
from shim.coordinator.requests.offset_delete import offset_delete
from shim.coordinator.requests.offset_fetch import offset_fetch
from shim.coordinator.requests.rebalance import join_deadline_due, prepare_rebalance, session_due, sync_deadline_due
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


# So many deadlines are a few milliseconds' work.
_EXPIRED_AT_ONCE = 256

_DUE: dict[DeadlineKind, Callable[[Decision, Group, Deadline], None]] = {
    DeadlineKind.SESSION: _session_due,
    DeadlineKind.JOIN: _join_due,
    DeadlineKind.SYNC: _sync_due,
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


_OLD_DESCRIPTION = 5
"""The newest version of DescribeGroups to which a group that there is not is no error."""


class NotServed(Exception):
    """What was asked is about a group that is not the shim's to decide about, or not now."""


class GroupCoordinator(ReplayedPartition):
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

    # -- for whoever measures

    @property
    def rebalances(self) -> int:
        """New generations of its groups, since it was made."""
        return self._state.rebalances

    def count_states(self) -> Counter[str]:
        """How many groups are in each state, by the names that ListGroups shows."""
        served = (group for name, group in self._state.groups.items() if name not in self._state.closed)
        return Counter(group.state.value for group in served)

    def count_members(self) -> int:
        """Of all groups."""
        return sum(len(group.members) for name, group in self._state.groups.items() if name not in self._state.closed)

    def count_steps(self) -> Counter[Step | None]:
        """How many groups are at each step, those that were deleted among them; None of those that are passed through
        to the cluster."""
        state = self._state
        counts = Counter(Step(word.step) if word.hands == Hands.SERVED else None for word in state.hands.values())
        counts[Step.KAFKA] += sum(name not in state.hands for name in state.groups)
        return counts

    @property
    def offset_count(self) -> int:
        """How many offsets there are, of all groups."""
        return len(self._state.offsets.committed)

    def loaded(self, now: int, memory: GroupMemory | None = None) -> None:
        """To be called once, after the last record of the log: the sessions of restored members begin.

        Where it follows the cluster's log, offsets are neither served nor taken (COORDINATOR_LOAD_IN_PROGRESS) until it
        has :meth:`caught_up`.

        `memory`: the limit that it has in common with other partitions, until :meth:`released`.
        """
        if memory is not None:
            self._state.memory.move_to(memory)
        self._state.behind = set(self._state.offsets.transactions.positions)
        self._state.offsets.touched.clear()
        decision = Decision(self._state, now)
        for group in self._state.groups.values():
            for member in group.members.values():
                decision.renew_session(member)
            if len(group.members) > self._state.settings.group_max_size:
                # The limit was lowered: members rejoin, and may commit before, until the group is full.
                prepare_rebalance(decision, group)

    def released(self) -> None:
        """It will decide nothing any more: what its groups take is theirs no longer to count."""
        self._state.memory.move_to(GroupMemory(0))

    @property
    def group_bytes(self) -> int:
        """What the groups take in memory, as the limit counts it."""
        return self._state.memory.used

    # -- requests: (now, caller, version, request, asker), the version being one that the API has

    join_group = _request(join_group)
    sync_group = _request(sync_group)
    heartbeat = _request(heartbeat)
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

    def was_given_up(self, producer_id: int, group_id: str) -> bool:
        """Whether a batch of that producer for the group may yet be read that was written for another request."""
        return self._state.commits.was_given_up(producer_id, group_id)

    @property
    def overdue_commits(self) -> int:
        """How many were answered COORDINATOR_NOT_AVAILABLE as the cluster's answer, or their batch, came too late."""
        return self._state.commits.overdue

    @property
    def followed(self) -> Mapping[int, Position]:
        """How far each partition of the cluster's `__consumer_offsets` has been taken over."""
        return self._state.offsets.transactions.positions

    def caught_up(self, followed: int) -> None:
        """That partition has been taken over up to where it ended at some time since :meth:`loaded`."""
        self._state.behind.discard(followed)

    @property
    def is_behind(self) -> bool:
        """Whether there is a partition that it has not caught up with yet."""
        return bool(self._state.behind)

    def steps_of_reset(self, position: Position) -> list[LostTransaction | Reset]:
        """What to :meth:`follow`, at once and in this order, where the cluster's log is no more the one that was taken
        over: it is up to ``position``, and is read again from there on.
        """
        return steps_of_reset(self._state, position)

    follow = _decided_by(follow)

    def left_open(self) -> list[Producer]:
        """Whose transactions the log has not ended, though all that was pending of them was deleted."""
        return self._state.offsets.transactions.left_open()

    end_left_open = _decided_by(end_left_open)

    # -- in whose hands groups are

    def hands_of(self, group_id: str) -> Hands | None:
        """None where it is still to be found out."""
        return self._state.hands_of(group_id)

    def hands(self) -> Mapping[str, GroupHandsValue]:
        """Of the groups of which the log says so, those that are deleted included."""
        return self._state.hands

    def close_group(self, group_id: str, *, closed: bool) -> None:
        """Nothing is decided or told of it from here on (:class:`NotServed`), or no longer so: it changes hands. Of one
        that is not in the shim's hands that is so in any case."""
        if self.hands_of(group_id) is not Hands.PASSED_THROUGH:
            self._state.close(group_id, closed=closed)

    def _check_served(self, group_id: str) -> None:
        if group_id in self._state.closed:
            raise NotServed(group_id)

    def own_offsets(self, group_id: str) -> OffsetFetchResponseGroup:
        """All that are committed, also of a group that is closed."""
        return offset_fetch(self._state, OffsetFetchRequestGroup(group_id, topics=None))

    def commit_times(self, group_id: str) -> dict[tuple[str, int], int]:
        """Of all that are committed, by topic and partition, the commit timestamps (ms since the epoch)."""
        return {
            (topic, at): each.commit_timestamp for topic, at, each in self._state.offsets.committed.of_group(group_id)
        }

    def own_description(self, group_id: str) -> DescribedGroup:
        """Of a group that is closed, too."""
        return listing.describe_group(self._state.groups, group_id, _OLD_DESCRIPTION)

    def producers_in_transaction(self) -> set[int]:
        """Of transactions that have not ended, with offsets of groups that are served: these came through the shim."""
        return {producer.producer_id for producer in self._state.offsets.transactions.pending}

    def has_pending(self, group_id: str) -> bool:
        """Whether a transaction that has not ended may yet change its offsets."""
        return self._state.offsets.transactions.has_group(group_id)

    def pending_offsets(self, group_id: str) -> Set[tuple[str, int, int]]:
        """Every (topic, partition, offset) that such a transaction may put in force."""
        return self._state.offsets.transactions.offsets_of(group_id)

    # -- where else offsets are kept

    def step_of(self, group_id: str) -> Step:
        """Of a group that is served."""
        return self._state.step_of(group_id)

    def is_elsewhere(self, group_id: str) -> bool:
        """Whether the group is served, and its offsets are in another place beside the log, too."""
        return group_id in self._state.elsewhere

    def from_zookeeper(self, group_id: str) -> bool:
        """Whether the group's offsets were in ZooKeeper at first."""
        known = self._state.hands.get(group_id)
        return known is not None and bool(known.from_zookeeper)

    def written(self, group_id: str) -> Mapping[tuple[str, int], WrittenValue]:
        """By topic and partition, what ZooKeeper has by the shim's hand, or is about to have."""
        return self._state.written.get(group_id, {})

    def is_used_elsewhere(self, now: int, group_id: str, *, used: bool) -> None:
        """Whether consumers of the group are in ZooKeeper: as long as that is so, or not known, no offset expires, nor
        sooner after it than after a commit."""
        if used:
            self._state.unused_elsewhere.pop(group_id, None)
        else:
            self._state.unused_elsewhere.setdefault(group_id, now)

    def take_touched(self) -> set[str]:
        """The groups whose offsets have changed since this was last asked, or since :meth:`loaded`."""
        offsets = self._state.offsets
        touched, offsets.touched = offsets.touched, set()
        return touched

    carry = _decided_by(carry)
    write_ahead = _decided_by(write_ahead)

    take_in_hand = _decided_by(take_in_hand)
    adopt = _decided_by(adopt)
    abandon = _decided_by(abandon)

    # -- topics that are gone

    def topics(self) -> set[str]:
        """Those for which there are offsets, also of transactions that have not ended."""
        return self._state.offsets.topics()

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

    # -- reads

    def offset_fetch(
        self, request: OffsetFetchRequestGroup, *, require_stable: bool = False
    ) -> OffsetFetchResponseGroup:
        """The offsets of one group as of the latest outcome, durable or not."""
        self._check_served(request.group_id)
        return offset_fetch(self._state, request, require_stable=require_stable)

    def describe_group(self, group_id: str, version: int) -> DescribedGroup:
        """One group of a DescribeGroups request of that version, authorized operations left out."""
        self._check_served(group_id)
        return listing.describe_group(self._state.groups, group_id, version)

    def list_groups(
        self, states_filter: Sequence[str] = (), types_filter: Sequence[str] = ()
    ) -> tuple[ListedGroup, ...]:
        """The groups that pass both filters of a ListGroups request."""
        return listing.list_groups(self._state.groups.values(), states_filter, types_filter)

    def group_ids(self) -> KeysView[str]:
        """The groups that there are, in whatever state."""
        return self._state.groups.keys()

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
