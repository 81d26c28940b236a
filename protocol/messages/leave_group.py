"""LeaveGroup (key 13), versions 0-5.

Source: Kafka 4.3, KIP-345 (many members in one request, version 3), KIP-800 (reason).
"""

from typing import Annotated, NamedTuple

from protocol.api import Api
from protocol.wire import Int16, Int32, NullableString, String, TaggedFields, ignorable, since, until


class MemberIdentity(NamedTuple):
    member_id: String
    group_instance_id: NullableString = None
    reason: Annotated[NullableString, since(5), ignorable] = None
    tagged: TaggedFields = ()


class LeaveGroupRequest(NamedTuple):
    group_id: String
    member_id: Annotated[String, until(2)] = ""
    members: Annotated[tuple[MemberIdentity, ...], since(3)] = ()
    tagged: TaggedFields = ()


class MemberResponse(NamedTuple):
    member_id: String
    group_instance_id: NullableString
    error_code: Int16
    tagged: TaggedFields = ()


class LeaveGroupResponse(NamedTuple):
    throttle_time_ms: Annotated[Int32, since(1), ignorable] = 0
    error_code: Int16 = 0
    members: Annotated[tuple[MemberResponse, ...], since(3)] = ()
    tagged: TaggedFields = ()


API = Api(
    key=13, name="LeaveGroup", request=LeaveGroupRequest, response=LeaveGroupResponse, versions=(0, 5), flexible_since=4
)
