"""Metadata (key 3), versions 0-13.

Source: Kafka 4.3, KIP-430 (authorized operations), KIP-516 (topic ids), KIP-1102 (rebootstrap).
"""

from typing import Annotated, NamedTuple

from protocol.api import Api
from protocol.wire import (
    ZERO_UUID,
    Bool,
    Int16,
    Int32,
    NullableString,
    String,
    TaggedFields,
    Uuid,
    between,
    ignorable,
    nullable_since,
    since,
)

# What the "authorized operations" fields hold when nobody asked for them.
OPERATIONS_NOT_ASKED = -2147483648


class MetadataRequestTopic(NamedTuple):
    topic_id: Annotated[Uuid, since(10), ignorable] = ZERO_UUID
    name: Annotated[NullableString, nullable_since(10)] = ""
    tagged: TaggedFields = ()


class MetadataRequest(NamedTuple):
    """`topics`: None asks for all topics (version 0: the empty array does)."""

    topics: Annotated[tuple[MetadataRequestTopic, ...] | None, nullable_since(1)]
    allow_auto_topic_creation: Annotated[Bool, since(4)] = True
    include_cluster_authorized_operations: Annotated[Bool, between(8, 10)] = False
    include_topic_authorized_operations: Annotated[Bool, since(8)] = False
    tagged: TaggedFields = ()


class MetadataResponseBroker(NamedTuple):
    node_id: Int32
    host: String
    port: Int32
    rack: Annotated[NullableString, since(1), ignorable] = None
    tagged: TaggedFields = ()


class MetadataResponsePartition(NamedTuple):
    error_code: Int16
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Annotated[Int32, since(7), ignorable] = -1
    replica_nodes: tuple[Int32, ...] = ()
    isr_nodes: tuple[Int32, ...] = ()
    offline_replicas: Annotated[tuple[Int32, ...], since(5), ignorable] = ()
    tagged: TaggedFields = ()


class MetadataResponseTopic(NamedTuple):
    error_code: Int16
    name: Annotated[NullableString, nullable_since(12)]
    topic_id: Annotated[Uuid, since(10), ignorable] = ZERO_UUID
    is_internal: Annotated[Bool, since(1), ignorable] = False
    partitions: tuple[MetadataResponsePartition, ...] = ()
    topic_authorized_operations: Annotated[Int32, since(8)] = OPERATIONS_NOT_ASKED
    tagged: TaggedFields = ()


class MetadataResponse(NamedTuple):
    throttle_time_ms: Annotated[Int32, since(3), ignorable] = 0
    brokers: tuple[MetadataResponseBroker, ...] = ()
    cluster_id: Annotated[NullableString, since(2), ignorable] = None
    controller_id: Annotated[Int32, since(1), ignorable] = -1
    topics: tuple[MetadataResponseTopic, ...] = ()
    cluster_authorized_operations: Annotated[Int32, between(8, 10)] = OPERATIONS_NOT_ASKED
    error_code: Annotated[Int16, since(13), ignorable] = 0
    tagged: TaggedFields = ()


API = Api(
    key=3, name="Metadata", request=MetadataRequest, response=MetadataResponse, versions=(0, 13), flexible_since=9
)
