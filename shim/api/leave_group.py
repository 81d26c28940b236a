"""LeaveGroup (key 13), served; many members in one request from v3 on (KIP-345)."""

from __future__ import annotations

from collections.abc import Iterable

from protocol.errors import ErrorCode
from protocol.messages.leave_group import API, LeaveGroupRequest, LeaveGroupResponse
from shim.api.call import Call, Services
from shim.coordinator import GroupCoordinator

VERSIONS = (0, 5)


def handle(services: Services, call: Call[LeaveGroupRequest, LeaveGroupResponse]) -> None:
    call.decide(services, call.request.group_id, GroupCoordinator.leave_group)


def failure(call: Call[LeaveGroupRequest, LeaveGroupResponse], error: ErrorCode) -> LeaveGroupResponse:
    return LeaveGroupResponse(error_code=error)


def codes(response: LeaveGroupResponse) -> Iterable[int]:
    return (response.error_code, *(each.error_code for each in response.members))


__all__ = ["API", "VERSIONS", "codes", "failure", "handle"]
