"""ConsumerGroupDescribe (key 69), versions 0-1. Source: Kafka 4.3, KIP-848.

Version 1 says which protocol a member speaks (KIP-1099).
"""

from typing import Annotated, NamedTuple

from protocol.api import Api
from protocol.wire import Bool, Int8, Int16, Int32, NullableString, String, TaggedFields, Uuid, ignorable, since


class ConsumerGroupDescribeRequest(NamedTuple):
    group_ids: tuple[String, ...]
    include_authorized_operations: Bool
    tagged: TaggedFields = ()


class TopicPartitions(NamedTuple):
    topic_id: Uuid
    topic_name: String
    partitions: tuple[Int32, ...]
    tagged: TaggedFields = ()


class Assignment(NamedTuple):
    topic_partitions: tuple[TopicPartitions, ...] = ()
    tagged: TaggedFields = ()


class Member(NamedTuple):
    """`member_type`: -1 unknown, 0 the classic protocol, 1 the one of KIP-848."""

    member_id: String
    instance_id: NullableString = None
    rack_id: NullableString = None
    member_epoch: Int32 = 0
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: tuple[String, ...] = ()
    subscribed_topic_regex: NullableString = None
    assignment: Assignment = Assignment()
    target_assignment: Assignment = Assignment()
    member_type: Annotated[Int8, since(1), ignorable] = -1
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


class ConsumerGroupDescribeResponse(NamedTuple):
    throttle_time_ms: Int32
    groups: tuple[DescribedGroup, ...]
    tagged: TaggedFields = ()


API = Api(
    key=69,
    name="ConsumerGroupDescribe",
    request=ConsumerGroupDescribeRequest,
    response=ConsumerGroupDescribeResponse,
    versions=(0, 1),
    flexible_since=0,
)
