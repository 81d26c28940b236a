"""ConsumerGroupHeartbeat, StreamsGroupHeartbeat and ShareGroupHeartbeat (keys 68, 88 and 76): heartbeats of members
that have another protocol than the classic one, passed through to the cluster, which serves groups of that kind.

A group that nobody knows becomes one of the cluster's with the heartbeat that joins. For one that the shim serves it is
refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from protocol.errors import ErrorCode
from protocol.group_kinds import Kind
from shim.api.call import Call, Services
from shim.api.counting import of_response
from shim.coordinator import GroupCoordinator


class HeartbeatOfAnotherKind:
    """What a handler's module has."""

    def __init__(self, kind: Kind) -> None:
        self.API = kind.heartbeat
        self.VERSIONS = kind.heartbeat.versions

    def handle(self, services: Services, call: Call[Any, Any]) -> None:
        call.decide(services, call.request.group_id, GroupCoordinator.heartbeat_of_another_kind, after_flight=False)

    def failure(self, _: Call[Any, Any], error: ErrorCode) -> Any:
        return self.API.response(0, error)

    def codes(self, response: Any) -> Iterable[int]:
        return of_response(response)
