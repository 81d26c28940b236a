"""DescribeTopicPartitions (key 75), version 0. Source: Kafka 4.3, KIP-966."""

from typing import Annotated, NamedTuple

from protocol.api import Api
from protocol.messages.metadata import OPERATIONS_NOT_ASKED
from protocol.wire import ZERO_UUID, Bool, Int16, Int32, NullableString, String, TaggedFields, Uuid, ignorable


class TopicRequest(NamedTuple):
    name: String
    tagged: TaggedFields = ()


class Cursor(NamedTuple):
    """Where the next page begins."""

    topic_name: String
    partition_index: Int32
    tagged: TaggedFields = ()


class DescribeTopicPartitionsRequest(NamedTuple):
    """No topics means all of them."""

    topics: tuple[TopicRequest, ...]
    response_partition_limit: Int32 = 2000
    cursor: Cursor | None = None
    tagged: TaggedFields = ()


class DescribeTopicPartitionsResponsePartition(NamedTuple):
    error_code: Int16
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Annotated[Int32, ignorable] = -1
    replica_nodes: tuple[Int32, ...] = ()
    isr_nodes: tuple[Int32, ...] = ()
    eligible_leader_replicas: tuple[Int32, ...] | None = None
    last_known_elr: tuple[Int32, ...] | None = None
    offline_replicas: Annotated[tuple[Int32, ...], ignorable] = ()
    tagged: TaggedFields = ()


class DescribeTopicPartitionsResponseTopic(NamedTuple):
    error_code: Int16
    name: NullableString
    topic_id: Annotated[Uuid, ignorable] = ZERO_UUID
    is_internal: Annotated[Bool, ignorable] = False
    partitions: tuple[DescribeTopicPartitionsResponsePartition, ...] = ()
    topic_authorized_operations: Int32 = OPERATIONS_NOT_ASKED
    tagged: TaggedFields = ()


class DescribeTopicPartitionsResponse(NamedTuple):
    throttle_time_ms: Annotated[Int32, ignorable]
    topics: tuple[DescribeTopicPartitionsResponseTopic, ...]
    next_cursor: Cursor | None = None
    tagged: TaggedFields = ()


API = Api(
    key=75,
    name="DescribeTopicPartitions",
    request=DescribeTopicPartitionsRequest,
    response=DescribeTopicPartitionsResponse,
    versions=(0, 0),
    flexible_since=0,
)
