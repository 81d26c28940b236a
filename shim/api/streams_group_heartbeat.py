"""StreamsGroupHeartbeat (key 88, KIP-1071): as ConsumerGroupHeartbeat."""

from __future__ import annotations

from protocol.errors import ErrorCode
from protocol.messages.streams_group_heartbeat import (
    API,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from shim.api.call import Call, Services
from shim.coordinator import GroupCoordinator

VERSIONS = (0, 0)

_Call = Call[StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse]


def handle(services: Services, call: _Call) -> None:
    call.decide(services, call.request.group_id, GroupCoordinator.streams_group_heartbeat, after_flight=False)


def failure(call: _Call, error: ErrorCode) -> StreamsGroupHeartbeatResponse:
    return StreamsGroupHeartbeatResponse(0, error)


__all__ = ["API", "VERSIONS", "failure", "handle"]
