"""ConsumerGroupHeartbeat (key 68), versions 0-1. Source: Kafka 4.3, KIP-848.

Version 1 can subscribe to a regular expression, and the member makes its own id (KIP-1082).
"""

from typing import Annotated, NamedTuple

from protocol.api import Api
from protocol.wire import Int16, Int32, NullableString, String, TaggedFields, Uuid, since


class TopicPartitions(NamedTuple):
    topic_id: Uuid
    partitions: tuple[Int32, ...]
    tagged: TaggedFields = ()


class ConsumerGroupHeartbeatRequest(NamedTuple):
    """`member_epoch`: 0 joins, -1 leaves, -2 leaves for a while (static members). None means "as before"."""

    group_id: String
    member_id: String
    member_epoch: Int32
    instance_id: NullableString = None
    rack_id: NullableString = None
    rebalance_timeout_ms: Int32 = -1
    subscribed_topic_names: tuple[String, ...] | None = None
    subscribed_topic_regex: Annotated[NullableString, since(1)] = None
    server_assignor: NullableString = None
    topic_partitions: tuple[TopicPartitions, ...] | None = None
    tagged: TaggedFields = ()


class Assignment(NamedTuple):
    topic_partitions: tuple[TopicPartitions, ...]
    tagged: TaggedFields = ()


class ConsumerGroupHeartbeatResponse(NamedTuple):
    """`assignment`: None means "as before"."""

    throttle_time_ms: Int32
    error_code: Int16
    error_message: NullableString = None
    member_id: NullableString = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: Assignment | None = None
    tagged: TaggedFields = ()


API = Api(
    key=68,
    name="ConsumerGroupHeartbeat",
    request=ConsumerGroupHeartbeatRequest,
    response=ConsumerGroupHeartbeatResponse,
    versions=(0, 1),
    flexible_since=0,
)
