"""The group coordinator of one offsets partition: every operation on its groups and offsets, and its deadlines."""

import uuid
from collections.abc import Callable, KeysView, Sequence

from protocol.messages.describe_groups import DescribedGroup
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.list_groups import ListedGroup
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from protocol.messages.sync_group import SyncGroupRequest
from shim.coordinator import listing
from shim.coordinator.decision import Decision
from shim.coordinator.group import Deadline, DeadlineKind, Group
from shim.coordinator.heartbeat import heartbeat
from shim.coordinator.join_group import join_group
from shim.coordinator.leave_group import leave_group
from shim.coordinator.offset_commit import offset_commit
from shim.coordinator.offset_fetch import offset_fetch
from shim.coordinator.outcome import Caller, Key, Outcome, Ticket, Value
from shim.coordinator.rebalance import join_deadline_due, prepare_rebalance, session_due, sync_deadline_due
from shim.coordinator.settings import CoordinatorSettings
from shim.coordinator.snapshot import StateDump, restore_state
from shim.coordinator.state import PartitionState
from shim.coordinator.sync_group import sync_group


def _session_due(decision: Decision, group: Group, deadline: Deadline) -> None:
    session_due(decision, group, deadline.member_id)


def _join_due(decision: Decision, group: Group, _deadline: Deadline) -> None:
    join_deadline_due(decision, group)


def _sync_due(decision: Decision, group: Group, _deadline: Deadline) -> None:
    sync_deadline_due(decision, group)


_DUE: dict[DeadlineKind, Callable[[Decision, Group, Deadline], None]] = {
    DeadlineKind.SESSION: _session_due,
    DeadlineKind.JOIN: _join_due,
    DeadlineKind.SYNC: _sync_due,
}


class GroupCoordinator:
    """The groups and offsets of one offsets partition, as a state machine without a clock of its own.

    `now` is in milliseconds since the epoch. An operation applies its records to the state before it returns them; if
    they then cannot be made durable, this object is of no more use: make a new one, and have it `replay` the log.

    Request versions are the caller's to check against the API's range.
    """

    def __init__(
        self, settings: CoordinatorSettings | None = None, new_uuid: Callable[[], str] = lambda: str(uuid.uuid4())
    ) -> None:
        """`new_uuid` gives the second part of new member ids, `<client id or instance id>-<uuid>`."""
        self._state = PartitionState(settings or CoordinatorSettings(), new_uuid)

    # -- recovery

    def replay(self, key: Key, value: Value | None) -> None:
        """Apply a record of the log; None is a tombstone. Raises TypeError for a value of another key's kind."""
        self._state.replay(key, value)

    def begin_dump(self) -> StateDump:
        """What the records replayed so far, and those of all outcomes, have made, to be had as bytes."""
        return StateDump(self._state)

    def dump(self) -> bytes:
        """All of :meth:`begin_dump` at once."""
        dump = self.begin_dump()
        while dump.step():
            pass
        return b"".join(dump.pieces())

    def restore(self, dump: bytes | bytearray | memoryview, check: Callable[[], None] = lambda: None) -> None:
        """In place of replaying those records, on a new object; later records are replayed after it.

        Raises DecodeError for anything that is no dump, and what `check` raises, which is called for each group: this
        object is of no more use then.
        """
        restore_state(self._state, dump, check)

    @property
    def offset_count(self) -> int:
        """How many offsets there are, of all groups."""
        return len(self._state.offsets)

    def loaded(self, now: int) -> None:
        """To be called once, after the last record of the log: the sessions of restored members begin."""
        decision = Decision(self._state, now)
        for group in self._state.groups.values():
            for member in group.members.values():
                decision.renew_session(member)
            if len(group.members) > self._state.settings.group_max_size:
                # The limit was lowered: members rejoin, and may commit before, until the group is full.
                prepare_rebalance(decision, group)

    # -- requests

    def join_group(self, now: int, caller: Caller, version: int, request: JoinGroupRequest, ticket: Ticket) -> Outcome:
        """JoinGroup, versions 0-9."""
        decision = Decision(self._state, now)
        join_group(decision, caller, version, request, ticket)
        return decision.outcome

    def sync_group(self, now: int, caller: Caller, version: int, request: SyncGroupRequest, ticket: Ticket) -> Outcome:
        """SyncGroup, versions 0-5."""
        decision = Decision(self._state, now)
        sync_group(decision, version, request, ticket)
        return decision.outcome

    def heartbeat(self, now: int, caller: Caller, version: int, request: HeartbeatRequest, ticket: Ticket) -> Outcome:
        """Heartbeat, versions 0-4."""
        decision = Decision(self._state, now)
        heartbeat(decision, request, ticket)
        return decision.outcome

    def leave_group(
        self, now: int, caller: Caller, version: int, request: LeaveGroupRequest, ticket: Ticket
    ) -> Outcome:
        """LeaveGroup, versions 0-5."""
        decision = Decision(self._state, now)
        leave_group(decision, version, request, ticket)
        return decision.outcome

    def offset_commit(
        self, now: int, caller: Caller, version: int, request: OffsetCommitRequest, ticket: Ticket
    ) -> Outcome:
        """OffsetCommit, versions 0-10; topic ids (version 10) have been given their names, which records hold."""
        decision = Decision(self._state, now)
        offset_commit(decision, caller, version, request, ticket)
        return decision.outcome

    # -- reads

    def offset_fetch(self, request: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup:
        """The offsets of one group as of the latest outcome, durable or not."""
        return offset_fetch(self._state.offsets, request)

    def describe_group(self, group_id: str, version: int) -> DescribedGroup:
        """One group of a DescribeGroups request of that version, authorized operations left out."""
        return listing.describe_group(self._state.groups, group_id, version)

    def list_groups(
        self, states_filter: Sequence[str] = (), types_filter: Sequence[str] = ()
    ) -> tuple[ListedGroup, ...]:
        """The groups that pass both filters of a ListGroups request."""
        return listing.list_groups(self._state.groups.values(), states_filter, types_filter)

    @property
    def group_count(self) -> int:
        """How many groups there are, in whatever state."""
        return len(self._state.groups)

    def group_ids(self) -> KeysView[str]:
        """The groups that there are, in whatever state."""
        return self._state.groups.keys()

    def parked(self) -> list[Ticket]:
        """The tickets of all requests that wait for their answers."""
        return [
            parked.ticket
            for group in self._state.groups.values()
            for member in group.members.values()
            for parked in (member.join, member.sync)
            if parked is not None
        ]

    # -- deadlines

    def next_deadline(self) -> int | None:
        """When `expire` is next to be called, in milliseconds since the epoch; None when nothing is waited for."""
        return self._state.deadlines.next()

    def expire(self, now: int) -> Outcome:
        """Do what deadlines at or before `now` call for: ends of sessions, join phases and syncs."""
        decision = Decision(self._state, now)
        while (deadline := self._state.deadlines.pop_due(now)) is not None:
            group = self._state.groups.get(deadline.group_id)
            if group is not None:
                _DUE[deadline.kind](decision, group, deadline)
        return decision.outcome
