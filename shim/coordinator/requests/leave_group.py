"""LeaveGroup, versions 0-5 (Kafka 4.3; many members at once, also by instance id alone, KIP-345)."""

from protocol.errors import ErrorCode
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from shim.coordinator import events
from shim.coordinator.decision import Decision
from shim.coordinator.outcome import Asker, Caller
from shim.coordinator.requests.rebalance import gone_meanwhile, rebalance_or_complete_join, remove_members
from shim.coordinator.state.group import Deadline, DeadlineKind, Group, GroupState, Member

_MANY_MEMBERS_FROM = 3


def leave_group(decision: Decision, _caller: Caller, version: int, request: LeaveGroupRequest, asker: Asker) -> None:
    """Remove members, or pending members; those who stay rebalance."""
    if not request.group_id:
        decision.answer(asker, _response(ErrorCode.INVALID_GROUP_ID))
        return
    group = decision.state.groups.get(request.group_id)
    identities = request.members if version >= _MANY_MEMBERS_FROM else (MemberIdentity(request.member_id),)
    left: list[Member] = []
    errors = [_leave(decision, group, identity, left) for identity in identities]
    if version < _MANY_MEMBERS_FROM:
        decision.answer(asker, _response(errors[0]))
    else:
        members = tuple(
            MemberResponse(member_id=who.member_id, group_instance_id=who.group_instance_id, error_code=error)
            for who, error in zip(identities, errors, strict=True)
        )
        decision.answer(asker, _response(ErrorCode.NONE, members))
    if group is not None and group.state is not GroupState.EMPTY and ErrorCode.NONE in errors:
        accepted = [who for who, error in zip(identities, errors, strict=True) if error is ErrorCode.NONE]
        why = events.left({who.reason for who in accepted}) if left else events.has_not_joined(accepted[0].member_id)
        if left and group.state is GroupState.PREPARING_REBALANCE:
            gone_meanwhile(decision, group, left, why)
        rebalance_or_complete_join(decision, group, events.are_gone(left, why))


def _response(error: ErrorCode, members: tuple[MemberResponse, ...] = ()) -> LeaveGroupResponse:
    return LeaveGroupResponse(throttle_time_ms=0, error_code=error, members=members)


def _leave(decision: Decision, group: Group | None, who: MemberIdentity, left: list[Member]) -> ErrorCode:
    """``left``: gets a member that has left."""
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    member_id = who.member_id
    if member_id in group.pending_joins:
        group.remove(member_id)
        decision.state.deadlines.cancel(Deadline(DeadlineKind.SESSION, group.group_id, member_id))
        return ErrorCode.NONE
    if not member_id and who.group_instance_id is not None:
        # An administrator removes a static member by its instance id alone.
        member_id = group.static_members.get(who.group_instance_id, "")
    error = group.validate(member_id, who.group_instance_id)
    if error is ErrorCode.NONE:
        left.append(group.members[member_id])
        remove_members(decision, group, left[-1:])
    return error
