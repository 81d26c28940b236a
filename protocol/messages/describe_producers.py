"""DescribeProducers (key 61), version 0. Source: Kafka 4.3, KIP-664."""

from typing import NamedTuple

from protocol.api import Api
from protocol.wire import Int16, Int32, Int64, NullableString, String, TaggedFields


class TopicRequest(NamedTuple):
    name: String
    partition_indexes: tuple[Int32, ...]
    tagged: TaggedFields = ()


class DescribeProducersRequest(NamedTuple):
    topics: tuple[TopicRequest, ...]
    tagged: TaggedFields = ()


class ProducerState(NamedTuple):
    """`producer_epoch` has 32 bits here, 16 everywhere else; `last_timestamp` is in milliseconds since the epoch."""

    producer_id: Int64
    producer_epoch: Int32
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32 = 0
    current_txn_start_offset: Int64 = -1
    tagged: TaggedFields = ()


class PartitionResponse(NamedTuple):
    partition_index: Int32
    error_code: Int16
    error_message: NullableString = None
    active_producers: tuple[ProducerState, ...] = ()
    tagged: TaggedFields = ()


class TopicResponse(NamedTuple):
    name: String
    partitions: tuple[PartitionResponse, ...]
    tagged: TaggedFields = ()


class DescribeProducersResponse(NamedTuple):
    throttle_time_ms: Int32
    topics: tuple[TopicResponse, ...]
    tagged: TaggedFields = ()


API = Api(
    key=61,
    name="DescribeProducers",
    request=DescribeProducersRequest,
    response=DescribeProducersResponse,
    versions=(0, 0),
    flexible_since=0,
)
