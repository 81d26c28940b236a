"""OffsetFetch (key 9), versions 0-10.

Source: Kafka 4.3; 3.9 for version 0, which read ZooKeeper and which Kafka 4 dropped.

Version 2 asks for all topics with null and has an error of its own, 5 the leader epoch (KIP-320), 7 `require_stable`
(KIP-447), 8 many groups in one request (KIP-709), 9 the member (KIP-848), 10 names topics by id.
"""

from typing import Annotated, NamedTuple

from protocol.api import Api
from protocol.wire import (
    ZERO_UUID,
    Bool,
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
    nullable_since,
    since,
    until,
)


class OffsetFetchRequestTopic(NamedTuple):
    """Versions 0-7."""

    name: String
    partition_indexes: tuple[Int32, ...]
    tagged: TaggedFields = ()


class OffsetFetchRequestTopics(NamedTuple):
    """Versions 8 and newer."""

    name: Annotated[String, until(9), ignorable] = ""
    topic_id: Annotated[Uuid, since(10), ignorable] = ZERO_UUID
    partition_indexes: tuple[Int32, ...] = ()
    tagged: TaggedFields = ()


class OffsetFetchRequestGroup(NamedTuple):
    """`topics`: None asks for all topics of the group."""

    group_id: String
    member_id: Annotated[NullableString, since(9), ignorable] = None
    member_epoch: Annotated[Int32, since(9), ignorable] = -1
    topics: tuple[OffsetFetchRequestTopics, ...] | None = ()
    tagged: TaggedFields = ()


class OffsetFetchRequest(NamedTuple):
    """`topics`: None asks for all topics of the group (versions 2-7)."""

    group_id: Annotated[String, until(7)] = ""
    topics: Annotated[tuple[OffsetFetchRequestTopic, ...] | None, until(7), nullable_since(2)] = ()
    groups: Annotated[tuple[OffsetFetchRequestGroup, ...], since(8)] = ()
    require_stable: Annotated[Bool, since(7)] = False
    tagged: TaggedFields = ()


class OffsetFetchResponsePartition(NamedTuple):
    """Versions 0-7."""

    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Annotated[Int32, since(5), ignorable] = -1
    metadata: NullableOpaqueString = ""
    error_code: Int16 = 0
    tagged: TaggedFields = ()


class OffsetFetchResponseTopic(NamedTuple):
    """Versions 0-7."""

    name: String
    partitions: tuple[OffsetFetchResponsePartition, ...]
    tagged: TaggedFields = ()


class OffsetFetchResponsePartitions(NamedTuple):
    """Versions 8 and newer."""

    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Annotated[Int32, ignorable] = -1
    metadata: NullableOpaqueString = ""
    error_code: Int16 = 0
    tagged: TaggedFields = ()


class OffsetFetchResponseTopics(NamedTuple):
    """Versions 8 and newer."""

    name: Annotated[String, until(9), ignorable] = ""
    topic_id: Annotated[Uuid, since(10), ignorable] = ZERO_UUID
    partitions: tuple[OffsetFetchResponsePartitions, ...] = ()
    tagged: TaggedFields = ()


class OffsetFetchResponseGroup(NamedTuple):
    group_id: String
    topics: tuple[OffsetFetchResponseTopics, ...]
    error_code: Int16 = 0
    tagged: TaggedFields = ()


class OffsetFetchResponse(NamedTuple):
    throttle_time_ms: Annotated[Int32, since(3), ignorable] = 0
    topics: Annotated[tuple[OffsetFetchResponseTopic, ...], until(7)] = ()
    error_code: Annotated[Int16, between(2, 7), ignorable] = 0
    groups: Annotated[tuple[OffsetFetchResponseGroup, ...], since(8)] = ()
    tagged: TaggedFields = ()


API = Api(
    key=9,
    name="OffsetFetch",
    request=OffsetFetchRequest,
    response=OffsetFetchResponse,
    versions=(0, 10),
    flexible_since=6,
)
