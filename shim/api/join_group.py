"""JoinGroup (key 11), served: the answer is parked by the coordinator until the rebalance completes."""

from __future__ import annotations

from protocol.errors import ErrorCode
from protocol.messages.join_group import API, JoinGroupRequest, JoinGroupResponse
from shim.api.call import Call, Services
from shim.api.counting import of_response as codes
from shim.coordinator import GroupCoordinator
from shim.coordinator.decision import join_response

VERSIONS = (0, 9)


def handle(services: Services, call: Call[JoinGroupRequest, JoinGroupResponse]) -> None:
    call.decide(services, call.request.group_id, GroupCoordinator.join_group)
    call.request = kept(call.request)


def failure(call: Call[JoinGroupRequest, JoinGroupResponse], error: ErrorCode) -> JoinGroupResponse:
    return join_response(call.version, error, call.request.member_id)


def kept(request: JoinGroupRequest) -> JoinGroupRequest:
    """It may be parked for long, and what nobody wants of it once it is decided or sent on would be kept that long."""
    return request._replace(protocols=())


def with_rebalance_timeout(request: JoinGroupRequest) -> JoinGroupRequest:
    """A request of v0 as one of v1, which has that of its own."""
    return request._replace(rebalance_timeout_ms=request.session_timeout_ms)


__all__ = ["API", "VERSIONS", "codes", "failure", "handle"]
