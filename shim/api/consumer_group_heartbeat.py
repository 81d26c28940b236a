"""ConsumerGroupHeartbeat (key 68, KIP-848)."""

from __future__ import annotations

from protocol.group_kinds import CONSUMER
from protocol.messages.consumer_group_heartbeat import API
from shim.api.heartbeat_of_a_kind import HeartbeatOfAKind
from shim.coordinator import GroupCoordinator

VERSIONS = (0, 1)

_HEARTBEAT = HeartbeatOfAKind(CONSUMER, GroupCoordinator.consumer_group_heartbeat)

handle, failure = _HEARTBEAT.handle, _HEARTBEAT.failure

__all__ = ["API", "VERSIONS", "failure", "handle"]
