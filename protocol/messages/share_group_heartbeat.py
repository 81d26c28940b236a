"""ShareGroupHeartbeat (key 76), version 1. Source: Kafka 4.3, KIP-932. Version 0 was never stable."""

from typing import NamedTuple

from protocol.api import Api
from protocol.messages.consumer_group_heartbeat import Assignment as Assignment
from protocol.messages.consumer_group_heartbeat import TopicPartitions as TopicPartitions
from protocol.wire import Int16, Int32, NullableString, String, TaggedFields


class ShareGroupHeartbeatRequest(NamedTuple):
    """`member_epoch`: 0 joins, -1 leaves. None means "as before"."""

    group_id: String
    member_id: String
    member_epoch: Int32
    rack_id: NullableString = None
    subscribed_topic_names: tuple[String, ...] | None = None
    tagged: TaggedFields = ()


class ShareGroupHeartbeatResponse(NamedTuple):
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
    key=76,
    name="ShareGroupHeartbeat",
    request=ShareGroupHeartbeatRequest,
    response=ShareGroupHeartbeatResponse,
    versions=(1, 1),
    flexible_since=0,
)
