"""JoinGroup, versions 0-9 (Kafka 4.3; static members KIP-345, member id required KIP-394, skip assignment KIP-814)."""

from protocol.errors import ErrorCode
from protocol.messages.join_group import JoinGroupRequest
from protocol.offsets_log import GroupMetadataKey, GroupMetadataValue
from shim.coordinator import events
from shim.coordinator.decision import Decision, join_response, joined_members, joined_response
from shim.coordinator.outcome import Asker, Caller
from shim.coordinator.requests.rebalance import maybe_complete_join, prepare_rebalance, rebalance_or_complete_join
from shim.coordinator.state.group import Deadline, DeadlineKind, Group, GroupState, Member, Parked, Protocol
from shim.coordinator.state.group_memory import group_size, member_size, metadata_size, protocols_size, record_size
from shim.coordinator.state.partition_state import group_metadata
from shim.coordinator.state.subscription import usable_protocols

# A dynamic member without an id is first given one, and has to join with it.
_MEMBER_ID_REQUIRED_FROM = 4
_SKIP_ASSIGNMENT_FROM = 9
# A longer one fits neither into responses nor into records.
_MAX_STRING_BYTES = 32_767


def join_group(decision: Decision, caller: Caller, version: int, request: JoinGroupRequest, asker: Asker) -> None:
    """Answer or park a JoinGroup request."""
    _Join(decision, caller, version, request, asker).decide()


class _Join:
    """One JoinGroup request while it is decided."""

    __slots__ = ("caller", "decision", "parked", "protocols", "rebalance_timeout_ms", "request", "version")

    def __init__(
        self, decision: Decision, caller: Caller, version: int, request: JoinGroupRequest, asker: Asker
    ) -> None:
        self.decision = decision
        self.caller = caller
        self.version = version
        self.request = request
        self.parked = Parked(asker, version, decision.now)
        self.protocols: tuple[Protocol, ...] = usable_protocols(request.protocol_type, request.protocols)
        # Version 0 has no rebalance timeout of its own.
        self.rebalance_timeout_ms = request.session_timeout_ms if version == 0 else request.rebalance_timeout_ms

    def refuse(self, error: ErrorCode, member_id: str, why: str = "") -> None:
        """``why``: for whoever looks after the group."""
        event = events.join_refused(self.request.group_id, self.request.member_id, self.caller, error, why)
        self.decision.tell(event)
        self.decision.refuse_join(self.parked, error, member_id)

    def decide(self) -> None:
        request, settings = self.request, self.decision.state.settings
        if not request.group_id:
            self.refuse(ErrorCode.INVALID_GROUP_ID, request.member_id)
        elif not (
            settings.group_min_session_timeout_ms <= request.session_timeout_ms <= settings.group_max_session_timeout_ms
        ):
            self.refuse(ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id, events.session_timeout(request, settings))
        elif not self._may_make_group():
            self.refuse(ErrorCode.GROUP_MAX_SIZE_REACHED, "", events.NO_MEMORY)
        else:
            group = self._group()
            if group is None:
                self.refuse(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
            elif not self._has_room(group):
                # Whoever comes back to a full group last has lost its place in it.
                self._drop(group)
                self.refuse(ErrorCode.GROUP_MAX_SIZE_REACHED, "", f"group.max.size is {settings.group_max_size}")
            elif not group.supports(request.protocol_type, self.protocols):
                why = events.inconsistent(group, request.protocol_type, self.protocols)
                self.refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id, why)
            elif not request.member_id:
                self._unknown_member(group)
            else:
                self._known_member(group)

    def _may_make_group(self) -> bool:
        """There is room for the group, if it is to be made, and for its first member."""
        state, group_id = self.decision.state, self.request.group_id
        if group_id in state.groups or self.request.member_id:
            return True
        return state.memory.has_room(group_size(group_id) + self._member_size())

    def _member_size(self) -> int:
        return member_size(self.caller.client_id, self.request.group_instance_id, self.protocols)

    def _has_memory(self, member: Member | None) -> bool:
        """For a new member, or for what this one offers now."""
        more = (
            self._member_size() if member is None else protocols_size(self.protocols) - protocols_size(member.protocols)
        )
        return self.decision.state.memory.has_room(more)

    def _group(self) -> Group | None:
        """The group; it is made, and recorded as Empty, for a member that comes without an id."""
        groups, group_id = self.decision.state.groups, self.request.group_id
        if group_id not in groups and not self.request.member_id:
            self.decision.write(
                GroupMetadataKey(group_id),
                GroupMetadataValue(
                    protocol_type="",
                    generation=0,
                    protocol=None,
                    leader=None,
                    current_state_timestamp=self.decision.now,
                    members=(),
                ),
            )
        return groups.get(group_id)

    def _has_room(self, group: Group) -> bool:
        size = self.decision.state.settings.group_max_size
        member = group.members.get(self.request.member_id)
        if group.state is GroupState.EMPTY:
            return True
        if group.state is GroupState.PREPARING_REBALANCE:
            # Members that have not rejoined do not count: when the limit was lowered, the last to rejoin must go.
            return (member is not None and member.join is not None) or group.parked_joins < size
        return member is not None or len(group.members) < size

    def _drop(self, group: Group) -> None:
        group.remove(self.request.member_id)
        self.decision.state.deadlines.cancel(
            Deadline(DeadlineKind.SESSION, self.request.group_id, self.request.member_id)
        )

    def _unknown_member(self, group: Group) -> None:
        instance_id = self.request.group_instance_id
        prefix = instance_id if instance_id is not None else self.caller.client_id
        member_id = f"{prefix}-{self.decision.state.new_uuid()}"
        if len(member_id.encode()) > _MAX_STRING_BYTES:
            self.refuse(ErrorCode.INVALID_REQUEST, "")
        elif instance_id is not None and instance_id in group.static_members:
            replaced = group.members[group.static_members[instance_id]]
            if self._has_memory(replaced):
                self._replace_static_member(group, replaced, member_id)
            else:
                self.refuse(ErrorCode.GROUP_MAX_SIZE_REACHED, "", events.NO_MEMORY)
        elif not self._has_memory(None):
            self.refuse(ErrorCode.GROUP_MAX_SIZE_REACHED, "", events.NO_MEMORY)
        elif instance_id is None and self.version >= _MEMBER_ID_REQUIRED_FROM:
            group.add_pending(member_id)
            self.decision.state.deadlines.set(
                Deadline(DeadlineKind.SESSION, group.group_id, member_id),
                self.decision.now + self.request.session_timeout_ms,
            )
            # No refusal: it joins with that.
            self.decision.refuse_join(self.parked, ErrorCode.MEMBER_ID_REQUIRED, member_id)
        else:
            self._add_member(group, member_id)

    def _known_member(self, group: Group) -> None:
        request = self.request
        if request.member_id in group.pending_joins:
            if request.group_instance_id is None:
                if self._has_memory(None):
                    self._add_member(group, request.member_id)
                else:
                    self.refuse(ErrorCode.GROUP_MAX_SIZE_REACHED, request.member_id, events.NO_MEMORY)
            else:
                # A pending member is dynamic, so this cannot be the client that was given the id.
                self.refuse(ErrorCode.UNKNOWN_SERVER_ERROR, "")
            return
        error = group.validate(request.member_id, request.group_instance_id)
        if error is not ErrorCode.NONE:
            self.refuse(error, request.member_id)
            return
        member = group.members[request.member_id]
        if self._needs_no_rebalance(group, member):
            # The answer to the member's last JoinGroup may have been lost.
            member.heard_at = self.decision.now
            self.decision.answer(self.parked.asker, joined_response(self.version, group, member))
            return
        if not self._has_memory(member):
            self.refuse(ErrorCode.GROUP_MAX_SIZE_REACHED, request.member_id, events.NO_MEMORY)
            return
        why = events.has_rejoined(member, request.reason, leads=group.leader == member.member_id)
        self._update(group, member)
        self._park(group, member)
        rebalance_or_complete_join(self.decision, group, why)

    def _needs_no_rebalance(self, group: Group, member: Member) -> bool:
        if group.state is GroupState.PREPARING_REBALANCE or member.protocols != self.protocols:
            return False
        # A leader of a Stable group rejoins for a reason that only it knows, new partitions for example.
        return group.state is GroupState.COMPLETING_REBALANCE or group.leader != member.member_id

    def _add_member(self, group: Group, member_id: str) -> None:
        member = Member(
            group.group_id,
            member_id,
            self.request.group_instance_id,
            self.caller.client_id,
            self.caller.client_host,
            self.rebalance_timeout_ms,
            self.request.session_timeout_ms,
            self.protocols,
        )
        member.is_new = True
        if group.initial_delay is not None:
            group.new_member_added = True
        if not group.members:
            group.protocol_type = self.request.protocol_type
        group.add(member)
        self._park(group, member)
        decision = self.decision
        decision.state.deadlines.set(
            member.session_deadline, decision.now + decision.state.settings.new_member_join_timeout_ms
        )
        rebalance_or_complete_join(decision, group, events.has_joined(member, self.request.reason))

    def _update(self, group: Group, member: Member) -> None:
        group.set_protocols(member, self.protocols)
        member.rebalance_timeout_ms = self.rebalance_timeout_ms
        member.session_timeout_ms = self.request.session_timeout_ms

    def _park(self, group: Group, member: Member) -> None:
        member.heard_at = self.decision.now
        # The client has asked again on another connection; nobody waits for the older answer, but none is left without.
        replaced = group.park_join(member, self.parked)
        self.decision.refuse_join(replaced, ErrorCode.REBALANCE_IN_PROGRESS, member.member_id)

    def _replace_static_member(self, group: Group, old: Member, member_id: str) -> None:
        decision = self.decision
        old_leader = group.leader or ""
        decision.tell(events.takes_place(group, old, member_id, self.caller))
        member = group.replace_static_member(old, member_id)
        decision.refuse_join(old.join, ErrorCode.FENCED_INSTANCE_ID, old.member_id)
        decision.refuse_sync(old.sync, ErrorCode.FENCED_INSTANCE_ID)
        decision.state.deadlines.cancel(old.session_deadline)
        # In Kafka the session is as long as the old member had asked for. Where that is shorter than what the new one
        # asks for, a member that lives would be thrown out before its first heartbeat.
        self._update(group, member)
        member.heard_at = decision.now
        decision.renew_session(member, at_least_ms=old.session_timeout_ms)
        if group.state is GroupState.STABLE and group.protocol_name == group.select_protocol():
            assignments = {m.member_id: m.assignment for m in group.members.values()}
            value = group_metadata(group, group.state_timestamp, assignments)
            state, more = decision.state, metadata_size(value) - group.recorded_size
            if state.memory.has_room(more) and record_size(value) <= state.settings.group_metadata_max_bytes:
                decision.write(GroupMetadataKey(group.group_id), value)
                self._answer_replacement(group, member, old_leader)
                return
        self._park(group, member)
        if group.state is GroupState.PREPARING_REBALANCE:
            maybe_complete_join(decision, group)
        else:
            # In CompletingRebalance the leader may know the old member id already, and assign to it.
            prepare_rebalance(decision, group, events.has_come_back(member))

    def _answer_replacement(self, group: Group, member: Member, old_leader: str) -> None:
        skips = self.version >= _SKIP_ASSIGNMENT_FROM
        is_leader = group.leader == member.member_id
        # Before version 9 a leader that comes back is shown its old id as the leader's, so that it does not assign.
        self.decision.answer(
            self.parked.asker,
            join_response(
                self.version,
                ErrorCode.NONE,
                member.member_id,
                generation_id=group.generation_id,
                protocol_type=group.protocol_type,
                protocol_name=group.protocol_name,
                leader=(group.leader or "") if skips else old_leader,
                skip_assignment=skips and is_leader,
                members=joined_members(group) if skips and is_leader else (),
            ),
        )
