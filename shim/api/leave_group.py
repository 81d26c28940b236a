"""LeaveGroup (key 13), served; many members in one request from v3 on (KIP-345)."""

from __future__ import annotations

from protocol.errors import ErrorCode
from protocol.messages.leave_group import API, LeaveGroupRequest, LeaveGroupResponse
from shim.api.call import Call, Services
from shim.coordinator import GroupCoordinator

VERSIONS = (0, 5)


def handle(services: Services, call: Call[LeaveGroupRequest, LeaveGroupResponse]) -> None:
    call.decide(services, call.request.group_id, GroupCoordinator.leave_group)


def failure(call: Call[LeaveGroupRequest, LeaveGroupResponse], error: ErrorCode) -> LeaveGroupResponse:
    return LeaveGroupResponse(error_code=error)


__all__ = ["API", "VERSIONS", "failure", "handle"]
