"""StreamsGroupHeartbeat (key 88, KIP-1071)."""

from __future__ import annotations

from protocol.group_kinds import STREAMS
from protocol.messages.streams_group_heartbeat import API
from shim.api.heartbeat_of_a_kind import HeartbeatOfAKind
from shim.coordinator import GroupCoordinator

VERSIONS = (0, 0)

_HEARTBEAT = HeartbeatOfAKind(STREAMS, GroupCoordinator.streams_group_heartbeat)

handle, failure = _HEARTBEAT.handle, _HEARTBEAT.failure

__all__ = ["API", "VERSIONS", "failure", "handle"]
