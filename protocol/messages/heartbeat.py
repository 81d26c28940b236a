"""Heartbeat (key 12), versions 0-4. Source: Kafka 4.3, KIP-345 (static members)."""

from typing import Annotated, NamedTuple

from protocol.api import Api
from protocol.wire import Int16, Int32, NullableString, String, TaggedFields, ignorable, since


class HeartbeatRequest(NamedTuple):
    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: Annotated[NullableString, since(3)] = None
    tagged: TaggedFields = ()


class HeartbeatResponse(NamedTuple):
    throttle_time_ms: Annotated[Int32, since(1), ignorable] = 0
    error_code: Int16 = 0
    tagged: TaggedFields = ()


API = Api(
    key=12, name="Heartbeat", request=HeartbeatRequest, response=HeartbeatResponse, versions=(0, 4), flexible_since=4
)
