"""Produce (key 0), versions 0-13. Source: Kafka 4.3; 3.9 for versions 0-2, which Kafka 4 advertises but refuses.

Version 3 has the transactional id (KIP-98), 5 the log start offset, 8 record errors (KIP-467), 10 the current leader
and its address as tagged fields (KIP-951), 13 topic ids (KIP-516). Versions 0 and 1 carry message sets v0 and v1, 3
and newer record batches v2.
"""

from typing import Annotated, NamedTuple

from protocol.api import Api
from protocol.wire import (
    ZERO_UUID,
    Int16,
    Int32,
    Int64,
    NullableString,
    Records,
    String,
    TaggedFields,
    Uuid,
    ignorable,
    since,
    tag,
    until,
)


class PartitionProduceData(NamedTuple):
    index: Int32  # type: ignore[assignment]  # Kafka's name for it, which tuple.index has too
    records: Records
    tagged: TaggedFields = ()


class TopicProduceData(NamedTuple):
    name: Annotated[String, until(12), ignorable] = ""
    topic_id: Annotated[Uuid, since(13), ignorable] = ZERO_UUID
    partition_data: tuple[PartitionProduceData, ...] = ()
    tagged: TaggedFields = ()


class ProduceRequest(NamedTuple):
    """`acks` 0 means that no response follows."""

    transactional_id: Annotated[NullableString, since(3)] = None
    acks: Int16 = 0
    timeout_ms: Int32 = 0
    topic_data: tuple[TopicProduceData, ...] = ()
    tagged: TaggedFields = ()


class BatchIndexAndErrorMessage(NamedTuple):
    batch_index: Int32
    batch_index_error_message: NullableString = None
    tagged: TaggedFields = ()


class LeaderIdAndEpoch(NamedTuple):
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1
    tagged: TaggedFields = ()


class PartitionProduceResponse(NamedTuple):
    index: Int32  # type: ignore[assignment]  # Kafka's name for it, which tuple.index has too
    error_code: Int16
    base_offset: Int64
    log_append_time_ms: Annotated[Int64, since(2), ignorable] = -1
    log_start_offset: Annotated[Int64, since(5), ignorable] = -1
    record_errors: Annotated[tuple[BatchIndexAndErrorMessage, ...], since(8), ignorable] = ()
    error_message: Annotated[NullableString, since(8), ignorable] = None
    current_leader: Annotated[LeaderIdAndEpoch, since(10), tag(0)] = LeaderIdAndEpoch()
    tagged: TaggedFields = ()


class TopicProduceResponse(NamedTuple):
    name: Annotated[String, until(12), ignorable] = ""
    topic_id: Annotated[Uuid, since(13), ignorable] = ZERO_UUID
    partition_responses: tuple[PartitionProduceResponse, ...] = ()
    tagged: TaggedFields = ()


class NodeEndpoint(NamedTuple):
    node_id: Int32
    host: String
    port: Int32
    rack: NullableString = None
    tagged: TaggedFields = ()


class ProduceResponse(NamedTuple):
    responses: tuple[TopicProduceResponse, ...]
    throttle_time_ms: Annotated[Int32, since(1), ignorable] = 0
    node_endpoints: Annotated[tuple[NodeEndpoint, ...], since(10), tag(0)] = ()
    tagged: TaggedFields = ()


API = Api(key=0, name="Produce", request=ProduceRequest, response=ProduceResponse, versions=(0, 13), flexible_since=9)
