"""ShareGroupHeartbeat (key 76, KIP-932)."""

from __future__ import annotations

from protocol.group_kinds import SHARE
from protocol.messages.share_group_heartbeat import API
from shim.api.heartbeat_of_a_kind import HeartbeatOfAKind
from shim.coordinator import GroupCoordinator

VERSIONS = (1, 1)

_HEARTBEAT = HeartbeatOfAKind(SHARE, GroupCoordinator.share_group_heartbeat)

handle, failure = _HEARTBEAT.handle, _HEARTBEAT.failure

__all__ = ["API", "VERSIONS", "failure", "handle"]
