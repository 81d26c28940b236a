"""JoinGroup (key 11), served: the answer is parked by the coordinator until the rebalance completes."""

from __future__ import annotations

from protocol.errors import ErrorCode
from protocol.messages.join_group import API, JoinGroupRequest, JoinGroupResponse
from shim.api.call import Call, Services
from shim.coordinator import GroupCoordinator
from shim.coordinator.decision import join_response

VERSIONS = (0, 9)


def handle(services: Services, call: Call[JoinGroupRequest, JoinGroupResponse]) -> None:
    call.decide(services, call.request.group_id, GroupCoordinator.join_group)
    # It may be parked for long, and what the coordinator does not want of it would be kept that long.
    call.request = call.request._replace(protocols=())


def failure(call: Call[JoinGroupRequest, JoinGroupResponse], error: ErrorCode) -> JoinGroupResponse:
    return join_response(call.version, error, call.request.member_id)


__all__ = ["API", "VERSIONS", "failure", "handle"]
