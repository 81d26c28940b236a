"""OffsetDelete (key 47), served: answered when the tombstones of all its offsets are durable."""

from __future__ import annotations

from protocol.errors import ErrorCode
from protocol.messages.offset_delete import API, OffsetDeleteRequest, OffsetDeleteResponse
from shim.api.call import Call, Services
from shim.coordinator import GroupCoordinator

VERSIONS = (0, 0)


def handle(services: Services, call: Call[OffsetDeleteRequest, OffsetDeleteResponse]) -> None:
    call.decide(services, call.request.group_id, GroupCoordinator.offset_delete)


def failure(call: Call[OffsetDeleteRequest, OffsetDeleteResponse], error: ErrorCode) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(error_code=error, throttle_time_ms=0, topics=())


__all__ = ["API", "VERSIONS", "failure", "handle"]
