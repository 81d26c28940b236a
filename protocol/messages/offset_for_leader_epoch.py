"""OffsetForLeaderEpoch (key 23), versions 0-4.

Source: Kafka 4.3, KIP-101; 3.9 for versions 0 and 1, which Kafka 4 dropped.

Version 1 answers with the epoch too (KIP-279), 2 fences by the current epoch and may be sent by consumers (KIP-320), 3
says which replica asks (KIP-392).
"""

from typing import Annotated, NamedTuple

from protocol.api import Api
from protocol.wire import Int16, Int32, Int64, String, TaggedFields, ignorable, since


class OffsetForLeaderPartition(NamedTuple):
    partition: Int32
    current_leader_epoch: Annotated[Int32, since(2), ignorable] = -1
    leader_epoch: Int32 = 0
    tagged: TaggedFields = ()


class OffsetForLeaderTopic(NamedTuple):
    topic: String
    partitions: tuple[OffsetForLeaderPartition, ...]
    tagged: TaggedFields = ()


class OffsetForLeaderEpochRequest(NamedTuple):
    """`replica_id` is -1 for a consumer; -2, the default, may see beyond the high watermark."""

    replica_id: Annotated[Int32, since(3), ignorable] = -2
    topics: tuple[OffsetForLeaderTopic, ...] = ()
    tagged: TaggedFields = ()


class EpochEndOffset(NamedTuple):
    error_code: Int16
    partition: Int32
    leader_epoch: Annotated[Int32, since(1), ignorable] = -1
    end_offset: Int64 = -1
    tagged: TaggedFields = ()


class OffsetForLeaderTopicResult(NamedTuple):
    topic: String
    partitions: tuple[EpochEndOffset, ...]
    tagged: TaggedFields = ()


class OffsetForLeaderEpochResponse(NamedTuple):
    throttle_time_ms: Annotated[Int32, since(2), ignorable] = 0
    topics: tuple[OffsetForLeaderTopicResult, ...] = ()
    tagged: TaggedFields = ()


API = Api(
    key=23,
    name="OffsetForLeaderEpoch",
    request=OffsetForLeaderEpochRequest,
    response=OffsetForLeaderEpochResponse,
    versions=(0, 4),
    flexible_since=4,
)
