"""ShareGroupDescribe (key 77), version 1. Source: Kafka 4.3, KIP-932. Version 0 was never stable."""

from typing import NamedTuple

from protocol.api import Api
from protocol.messages.consumer_group_describe import Assignment as Assignment
from protocol.messages.consumer_group_describe import TopicPartitions as TopicPartitions
from protocol.wire import Bool, Int16, Int32, NullableString, String, TaggedFields


class ShareGroupDescribeRequest(NamedTuple):
    group_ids: tuple[String, ...]
    include_authorized_operations: Bool
    tagged: TaggedFields = ()


class Member(NamedTuple):
    member_id: String
    rack_id: NullableString = None
    member_epoch: Int32 = 0
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: tuple[String, ...] = ()
    assignment: Assignment = Assignment()
    tagged: TaggedFields = ()


class DescribedGroup(NamedTuple):
    """`authorized_operations` is a bit set, -2147483648 when nobody asked for it."""

    error_code: Int16
    error_message: NullableString = None
    group_id: String = ""
    group_state: String = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: String = ""
    members: tuple[Member, ...] = ()
    authorized_operations: Int32 = -2147483648
    tagged: TaggedFields = ()


class ShareGroupDescribeResponse(NamedTuple):
    throttle_time_ms: Int32
    groups: tuple[DescribedGroup, ...]
    tagged: TaggedFields = ()


API = Api(
    key=77,
    name="ShareGroupDescribe",
    request=ShareGroupDescribeRequest,
    response=ShareGroupDescribeResponse,
    versions=(1, 1),
    flexible_since=0,
)
