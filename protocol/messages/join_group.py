"""JoinGroup (key 11), versions 0-9.

Source: Kafka 4.3, KIP-62, KIP-345 (static members), KIP-394, KIP-559, KIP-800 (reason), KIP-814.
"""

from typing import Annotated, NamedTuple

from protocol.api import Api
from protocol.wire import (
    Bool,
    Bytes,
    Int16,
    Int32,
    NullableString,
    String,
    TaggedFields,
    ignorable,
    nullable_since,
    since,
)


class JoinGroupRequestProtocol(NamedTuple):
    name: String
    metadata: Bytes
    tagged: TaggedFields = ()


class JoinGroupRequest(NamedTuple):
    """`session_timeout_ms` also bounds the rebalance in version 0, which has no `rebalance_timeout_ms`."""

    group_id: String
    session_timeout_ms: Int32
    rebalance_timeout_ms: Annotated[Int32, since(1), ignorable] = -1
    member_id: String = ""
    group_instance_id: Annotated[NullableString, since(5)] = None
    protocol_type: String = ""
    protocols: tuple[JoinGroupRequestProtocol, ...] = ()
    reason: Annotated[NullableString, since(8), ignorable] = None
    tagged: TaggedFields = ()


class JoinGroupResponseMember(NamedTuple):
    member_id: String
    group_instance_id: Annotated[NullableString, since(5), ignorable] = None
    metadata: Bytes = b""
    tagged: TaggedFields = ()


class JoinGroupResponse(NamedTuple):
    throttle_time_ms: Annotated[Int32, since(2), ignorable] = 0
    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_type: Annotated[NullableString, since(7), ignorable] = None
    protocol_name: Annotated[NullableString, nullable_since(7)] = ""
    leader: String = ""
    skip_assignment: Annotated[Bool, since(9)] = False
    member_id: String = ""
    members: tuple[JoinGroupResponseMember, ...] = ()
    tagged: TaggedFields = ()


API = Api(
    key=11, name="JoinGroup", request=JoinGroupRequest, response=JoinGroupResponse, versions=(0, 9), flexible_since=6
)
