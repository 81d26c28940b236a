"""SyncGroup (key 14), versions 0-5. Source: Kafka 4.3, KIP-345 (static members), KIP-559 (protocol type and name)."""

from typing import Annotated, NamedTuple

from protocol.api import Api
from protocol.wire import Bytes, Int16, Int32, NullableString, String, TaggedFields, ignorable, since


class SyncGroupRequestAssignment(NamedTuple):
    member_id: String
    assignment: Bytes
    tagged: TaggedFields = ()


class SyncGroupRequest(NamedTuple):
    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: Annotated[NullableString, since(3)] = None
    protocol_type: Annotated[NullableString, since(5), ignorable] = None
    protocol_name: Annotated[NullableString, since(5), ignorable] = None
    assignments: tuple[SyncGroupRequestAssignment, ...] = ()
    tagged: TaggedFields = ()


class SyncGroupResponse(NamedTuple):
    throttle_time_ms: Annotated[Int32, since(1), ignorable] = 0
    error_code: Int16 = 0
    protocol_type: Annotated[NullableString, since(5), ignorable] = None
    protocol_name: Annotated[NullableString, since(5), ignorable] = None
    assignment: Bytes = b""
    tagged: TaggedFields = ()


API = Api(
    key=14, name="SyncGroup", request=SyncGroupRequest, response=SyncGroupResponse, versions=(0, 5), flexible_since=4
)
