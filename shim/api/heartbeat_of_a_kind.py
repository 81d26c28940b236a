"""Heartbeats of members that have another protocol than the classic one: passed through to the cluster, which serves
groups of that kind.

A group that nobody knows becomes one of the cluster's with the heartbeat that joins. For one that the shim serves it is
refused.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from protocol.errors import ErrorCode
from protocol.group_kinds import Kind
from shim.api.call import Call, GroupOperation, Services


class HeartbeatOfAKind(NamedTuple):
    """``decide``: for a group that the shim serves."""

    kind: Kind
    decide: GroupOperation

    def handle(self, services: Services, call: Call[Any, Any]) -> None:
        call.decide(services, call.request.group_id, self.decide, after_flight=False)

    def failure(self, _: Call[Any, Any], error: ErrorCode) -> Any:
        return self.kind.heartbeat.response(0, error)
