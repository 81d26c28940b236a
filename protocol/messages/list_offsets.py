"""ListOffsets (key 2), versions 0-11. Source: Kafka 4.3; 3.9 for version 0, which Kafka 4 dropped.

Version 0 gives several offsets a partition, 1 the one of a timestamp (KIP-79), 2 has the isolation level (KIP-98), 4
the leader epoch (KIP-320), 10 a time-out (KIP-1075). Further versions know more special timestamps: 7 the largest
timestamp (KIP-734), 8 the local log's start (KIP-405), 9 the end of what is tiered (KIP-1005), 11 the start of what
waits to be (KIP-1023).
"""

from typing import Annotated, NamedTuple

from protocol.api import Api
from protocol.wire import Int8, Int16, Int32, Int64, String, TaggedFields, ignorable, only, since


class ListOffsetsPartition(NamedTuple):
    """`timestamp` is in milliseconds since the epoch; -1 asks for the end of the log, -2 for its start."""

    partition_index: Int32
    current_leader_epoch: Annotated[Int32, since(4), ignorable] = -1
    timestamp: Int64 = 0
    max_num_offsets: Annotated[Int32, only(0)] = 1
    tagged: TaggedFields = ()


class ListOffsetsTopic(NamedTuple):
    name: String
    partitions: tuple[ListOffsetsPartition, ...]
    tagged: TaggedFields = ()


class ListOffsetsRequest(NamedTuple):
    """`replica_id` is -1 for a consumer."""

    replica_id: Int32
    isolation_level: Annotated[Int8, since(2)] = 0
    topics: tuple[ListOffsetsTopic, ...] = ()
    timeout_ms: Annotated[Int32, since(10), ignorable] = 0
    tagged: TaggedFields = ()


class ListOffsetsPartitionResponse(NamedTuple):
    partition_index: Int32
    error_code: Int16
    old_style_offsets: Annotated[tuple[Int64, ...], only(0)] = ()
    timestamp: Annotated[Int64, since(1)] = -1
    offset: Annotated[Int64, since(1)] = -1
    leader_epoch: Annotated[Int32, since(4)] = -1
    tagged: TaggedFields = ()


class ListOffsetsTopicResponse(NamedTuple):
    name: String
    partitions: tuple[ListOffsetsPartitionResponse, ...]
    tagged: TaggedFields = ()


class ListOffsetsResponse(NamedTuple):
    throttle_time_ms: Annotated[Int32, since(2), ignorable] = 0
    topics: tuple[ListOffsetsTopicResponse, ...] = ()
    tagged: TaggedFields = ()


API = Api(
    key=2,
    name="ListOffsets",
    request=ListOffsetsRequest,
    response=ListOffsetsResponse,
    versions=(0, 11),
    flexible_since=6,
)
