"""Heartbeat (key 12), served. It reads nothing that is written, so it never waits for the disk."""

from __future__ import annotations

from protocol.errors import ErrorCode
from protocol.messages import heartbeat
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.repeated import Repeated
from shim.api.call import Call, Services
from shim.api.counting import of_response as codes
from shim.coordinator import GroupCoordinator

API = Repeated(heartbeat.API)
VERSIONS = (0, 4)


def handle(services: Services, call: Call[HeartbeatRequest, HeartbeatResponse]) -> None:
    call.decide(services, call.request.group_id, GroupCoordinator.heartbeat, after_flight=False)


def failure(call: Call[HeartbeatRequest, HeartbeatResponse], error: ErrorCode) -> HeartbeatResponse:
    # While a partition loads, Kafka lets its members believe that all is well: they are about to be known again.
    loading = error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return HeartbeatResponse(error_code=ErrorCode.NONE if loading else error)


__all__ = ["API", "VERSIONS", "codes", "failure", "handle"]
