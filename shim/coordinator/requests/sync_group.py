"""SyncGroup, versions 0-5 (Kafka 4.3; protocol type and name KIP-559)."""

from protocol.errors import ErrorCode
from protocol.messages.sync_group import SyncGroupRequest
from protocol.offsets_log import GroupMetadataKey
from shim.coordinator import events
from shim.coordinator.decision import Decision, sync_response, synced_response
from shim.coordinator.outcome import Asker, Caller
from shim.coordinator.requests.rebalance import prepare_rebalance
from shim.coordinator.state.group import Group, GroupState, Member, Parked
from shim.coordinator.state.group_memory import metadata_size, record_size
from shim.coordinator.state.partition_state import group_metadata

# Protocol type and name are mandatory from here on.
_PROTOCOL_REQUIRED_FROM = 5


def sync_group(decision: Decision, caller: Caller, version: int, request: SyncGroupRequest, asker: Asker) -> None:
    """Answer or park a SyncGroup request; the leader's brings the assignment, which makes the group Stable."""
    group = decision.state.groups.get(request.group_id)
    error = _check(group, version, request)
    if error is not ErrorCode.NONE or group is None:
        if events.is_told(error):
            decision.tell(events.refused("a SyncGroup", request, request.generation_id, group, caller, error))
        decision.answer(asker, sync_response(error))
        return
    member = group.members[request.member_id]
    member.heard_at = decision.now
    group.forget_pending_sync(member.member_id)
    if not group.pending_syncs:
        decision.state.deadlines.cancel(group.sync_deadline)
        decision.state.deadlines.cancel(group.tell_deadline)
    if group.state is GroupState.STABLE:
        decision.answer(asker, synced_response(group, member))
        return
    # The client has asked again on another connection: see JoinGroup.
    decision.refuse_sync(member.sync, ErrorCode.REBALANCE_IN_PROGRESS)
    member.sync = Parked(asker, version, decision.now)
    if group.leader == member.member_id:
        _become_stable(decision, group, request)


def _check(group: Group | None, version: int, request: SyncGroupRequest) -> ErrorCode:
    if version >= _PROTOCOL_REQUIRED_FROM and (request.protocol_type is None or request.protocol_name is None):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if group is None or group.state is GroupState.EMPTY:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = group.validate(request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    if _differs(request.protocol_type, group.protocol_type) or _differs(request.protocol_name, group.protocol_name):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _differs(asked: str | None, is_: str | None) -> bool:
    return asked is not None and is_ is not None and asked != is_


def _become_stable(decision: Decision, group: Group, request: SyncGroupRequest) -> None:
    group.check_transition(GroupState.STABLE)
    assignments = {assignment.member_id: assignment.assignment for assignment in request.assignments}
    value = group_metadata(group, decision.now, assignments)
    state, more = decision.state, metadata_size(value) - group.recorded_size
    if not state.memory.has_room(more) or record_size(value) > state.settings.group_metadata_max_bytes:
        # The broker's log refuses it (MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE); clients are told of that as here, and
        # the group tries again with whatever its members then bring.
        for member in group.members.values():
            parked, member.sync = member.sync, None
            if parked is not None:
                decision.refuse_sync(parked, ErrorCode.UNKNOWN_SERVER_ERROR)
                decision.renew_session(member)
        prepare_rebalance(decision, group, events.TOO_LARGE)
        return
    decision.write(GroupMetadataKey(group.group_id), value)
    decision.tell(events.assigned(group))
    for member in group.members.values():
        _answer_sync(decision, group, member)


def _answer_sync(decision: Decision, group: Group, member: Member) -> None:
    parked, member.sync = member.sync, None
    if parked is not None:
        decision.answer(parked.asker, synced_response(group, member))
        # While the request was parked, the session may have come to its end without anything happening.
        decision.renew_session(member)
