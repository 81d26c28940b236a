"""DescribeGroups (key 15), versions 0-6.

Source: Kafka 4.3, KIP-430 (authorized operations), KIP-345, KIP-1043 (GROUP_ID_NOT_FOUND, 6).
"""

from typing import Annotated, NamedTuple

from protocol.api import Api
from protocol.wire import Bool, Bytes, Int16, Int32, NullableString, String, TaggedFields, ignorable, since


class DescribeGroupsRequest(NamedTuple):
    groups: tuple[String, ...]
    include_authorized_operations: Annotated[Bool, since(3)] = False
    tagged: TaggedFields = ()


class DescribedGroupMember(NamedTuple):
    member_id: String
    group_instance_id: Annotated[NullableString, since(4), ignorable] = None
    client_id: String = ""
    client_host: String = ""
    member_metadata: Bytes = b""
    member_assignment: Bytes = b""
    tagged: TaggedFields = ()


class DescribedGroup(NamedTuple):
    """`authorized_operations` is a bit set, -2147483648 when nobody asked for it."""

    error_code: Int16
    error_message: Annotated[NullableString, since(6)] = None
    group_id: String = ""
    group_state: String = ""
    protocol_type: String = ""
    protocol_data: String = ""
    members: tuple[DescribedGroupMember, ...] = ()
    authorized_operations: Annotated[Int32, since(3)] = -2147483648
    tagged: TaggedFields = ()


class DescribeGroupsResponse(NamedTuple):
    throttle_time_ms: Annotated[Int32, since(1), ignorable] = 0
    groups: tuple[DescribedGroup, ...] = ()
    tagged: TaggedFields = ()


API = Api(
    key=15,
    name="DescribeGroups",
    request=DescribeGroupsRequest,
    response=DescribeGroupsResponse,
    versions=(0, 6),
    flexible_since=5,
)
