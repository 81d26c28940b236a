"""ConsumerGroupHeartbeat (key 68, KIP-848): passed through to the cluster, which serves groups of that protocol.

A group that nobody knows becomes one of the cluster's with it. For one that the shim serves it is refused.
"""

from __future__ import annotations

from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import (
    API,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from shim.api.call import Call, Services
from shim.coordinator import GroupCoordinator

VERSIONS = (0, 1)

_Call = Call[ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse]


def handle(services: Services, call: _Call) -> None:
    call.decide(services, call.request.group_id, GroupCoordinator.consumer_group_heartbeat, after_flight=False)


def failure(call: _Call, error: ErrorCode) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(0, error)


__all__ = ["API", "VERSIONS", "failure", "handle"]
