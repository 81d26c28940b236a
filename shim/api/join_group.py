"""JoinGroup (key 11), served: the answer is parked by the coordinator until the rebalance completes."""

from __future__ import annotations

from protocol.errors import ErrorCode
from protocol.messages.join_group import API, JoinGroupRequest, JoinGroupResponse
from shim.api.call import Call, Services
from shim.runtime import GroupCoordinator

VERSIONS = (0, 9)


def handle(services: Services, call: Call[JoinGroupRequest, JoinGroupResponse]) -> None:
    call.decide(services, call.request.group_id, GroupCoordinator.join_group)


def failure(call: Call[JoinGroupRequest, JoinGroupResponse], error: ErrorCode) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=error, member_id=call.request.member_id, protocol_name=None if call.version >= 7 else ""
    )


__all__ = ["API", "VERSIONS", "failure", "handle"]
