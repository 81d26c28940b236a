"""SyncGroup (key 14), served: answered once the group's record, with the leader's assignment, is durable."""

from __future__ import annotations

from protocol.errors import ErrorCode
from protocol.messages.sync_group import API, SyncGroupRequest, SyncGroupResponse
from shim.api.call import Call, Services
from shim.api.counting import of_response as codes
from shim.coordinator import GroupCoordinator

VERSIONS = (0, 5)


def handle(services: Services, call: Call[SyncGroupRequest, SyncGroupResponse]) -> None:
    call.decide(services, call.request.group_id, GroupCoordinator.sync_group)
    call.request = kept(call.request)


def failure(call: Call[SyncGroupRequest, SyncGroupResponse], error: ErrorCode) -> SyncGroupResponse:
    # At COORDINATOR_LOAD_IN_PROGRESS clients end with an exception, Java's of 4.3 too. They are to join again, as
    # brokers before 4.0 had it, and wait there.
    loading = error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS if loading else error)


def kept(request: SyncGroupRequest) -> SyncGroupRequest:
    """It may be parked for long, and assignments that no leader has made would be kept that long."""
    return request._replace(assignments=())


__all__ = ["API", "VERSIONS", "codes", "failure", "handle"]
