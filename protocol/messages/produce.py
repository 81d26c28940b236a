"""Produce (key 0), versions 0-13. Source: Kafka 4.3; 3.9 for versions 0-2, which Kafka 4 advertises but refuses.

Version 3 has the transactional id (KIP-98), 5 the log start offset, 8 record errors (KIP-467), 10 the current leader
and its address as tagged fields (KIP-951), 13 topic ids (KIP-516). Versions 0 and 1 carry message sets v0 and v1, 3
and newer record batches v2.
"""

from struct import Struct
from typing import Annotated, Final, NamedTuple

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

_INT16: Final = Struct(">h")
# Size, API key, API version and correlation id: what stands before the client id.
_BEFORE_CLIENT_ID: Final = 12


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


def produce_acks(data: bytes, start: int, end: int, version: int) -> int | None:
    """`acks` of the request whose frame, size included, begins at `start`; None when it lies beyond `end`.

    For who passes the request on before all of it is there, or ever is: nothing behind `acks` is looked at. It follows
    the header's client id and, from version 3 on, the transactional id.
    """
    position = start + _BEFORE_CLIENT_ID
    if position + 2 > end:
        return None
    position += 2 + max(0, _INT16.unpack_from(data, position)[0])
    if API.is_flexible(version):
        tags, position = _uvarint(data, position, end)
        for _ in range(tags):
            if position >= end:
                return None
            _, position = _uvarint(data, position, end)
            size, position = _uvarint(data, position, end)
            position += size
        length, position = _uvarint(data, position, end)
        position += max(0, length - 1)
    elif version >= 3:
        if position + 2 > end:
            return None
        position += 2 + max(0, _INT16.unpack_from(data, position)[0])
    if position + 2 > end:
        return None
    acks: int = _INT16.unpack_from(data, position)[0]
    return acks


def _uvarint(data: bytes, position: int, end: int) -> tuple[int, int]:
    """An unsigned varint and where it ends; a position past `end` when it is cut off."""
    value = shift = 0
    while position < end and shift < 35:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    return 0, end + 1
