"""Heartbeat, versions 0-4 (Kafka 4.3)."""

from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from shim.coordinator import events
from shim.coordinator.decision import Decision
from shim.coordinator.outcome import Asker, Caller
from shim.coordinator.state.group import GroupState

# By error code, so that the commonest request of all makes no object for its answer.
_RESPONSES = {error: HeartbeatResponse(throttle_time_ms=0, error_code=error) for error in ErrorCode}


def heartbeat(decision: Decision, caller: Caller, _version: int, request: HeartbeatRequest, asker: Asker) -> None:
    """Answer a heartbeat; it renews the member's session, also while a rebalance asks the member to rejoin."""
    error = _beat(decision, request)
    if error is ErrorCode.FENCED_INSTANCE_ID:  # of all others the client joins again, which is told
        group = decision.state.groups[request.group_id]
        decision.tell(events.refused("a heartbeat", request, request.generation_id, group, caller, error))
    decision.answer(asker, _RESPONSES[error])


def _beat(decision: Decision, request: HeartbeatRequest) -> ErrorCode:
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    group = decision.state.groups.get(request.group_id)
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = group.validate(request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    decision.hear_of(group.members[request.member_id])
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE
