"""OffsetCommit (key 8), versions 0-10. Source: Kafka 4.3; 3.9 for versions 0 and 1, which Kafka 4 dropped.

Version 0 was committed to ZooKeeper; 1 has a timestamp a partition, 2-4 a retention time, 6 the leader epoch (KIP-320),
7 the group instance id (KIP-345), 9 may be used by KIP-848 members, 10 names topics by id (KIP-848).
"""

from typing import Annotated, NamedTuple

from protocol.api import Api
from protocol.wire import (
    ZERO_UUID,
    Int16,
    Int32,
    Int64,
    NullableOpaqueString,
    NullableString,
    String,
    TaggedFields,
    Uuid,
    between,
    ignorable,
    only,
    since,
    until,
)


class OffsetCommitRequestPartition(NamedTuple):
    """`commit_timestamp` is in milliseconds since the epoch, -1 for "now"."""

    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Annotated[Int32, since(6), ignorable] = -1
    commit_timestamp: Annotated[Int64, only(1)] = -1
    committed_metadata: NullableOpaqueString = ""
    tagged: TaggedFields = ()


class OffsetCommitRequestTopic(NamedTuple):
    name: Annotated[String, until(9), ignorable] = ""
    topic_id: Annotated[Uuid, since(10), ignorable] = ZERO_UUID
    partitions: tuple[OffsetCommitRequestPartition, ...] = ()
    tagged: TaggedFields = ()


class OffsetCommitRequest(NamedTuple):
    group_id: String
    generation_id_or_member_epoch: Annotated[Int32, since(1), ignorable] = -1
    member_id: Annotated[String, since(1), ignorable] = ""
    group_instance_id: Annotated[NullableString, since(7)] = None
    retention_time_ms: Annotated[Int64, between(2, 4), ignorable] = -1
    topics: tuple[OffsetCommitRequestTopic, ...] = ()
    tagged: TaggedFields = ()


class OffsetCommitResponsePartition(NamedTuple):
    partition_index: Int32
    error_code: Int16
    tagged: TaggedFields = ()


class OffsetCommitResponseTopic(NamedTuple):
    name: Annotated[String, until(9), ignorable] = ""
    topic_id: Annotated[Uuid, since(10), ignorable] = ZERO_UUID
    partitions: tuple[OffsetCommitResponsePartition, ...] = ()
    tagged: TaggedFields = ()


class OffsetCommitResponse(NamedTuple):
    throttle_time_ms: Annotated[Int32, since(3), ignorable] = 0
    topics: tuple[OffsetCommitResponseTopic, ...] = ()
    tagged: TaggedFields = ()


API = Api(
    key=8,
    name="OffsetCommit",
    request=OffsetCommitRequest,
    response=OffsetCommitResponse,
    versions=(0, 10),
    flexible_since=8,
)
