"""Produce (key 0), versions 0-13. Source: Kafka 4.3; 3.9 for versions 0-2, which Kafka 4 advertises but refuses.

Version 3 has the transactional id (KIP-98), 5 the log start offset, 8 record errors (KIP-467), 10 the current leader
and its address as tagged fields (KIP-951), 13 topic ids (KIP-516). Versions 0 and 1 carry message sets v0 and v1, 3
and newer record batches v2.
"""

from struct import Struct
from typing import Annotated, Final, NamedTuple

from protocol.api import Api
from protocol.errors import DecodeError
from protocol.messages.fetch import LeaderIdAndEpoch as LeaderIdAndEpoch
from protocol.messages.fetch import NodeEndpoint as NodeEndpoint
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
_LONGEST_STRING: Final = (1 << 15) - 1
_INT32_MAX: Final = (1 << 31) - 1

MAX_HEADER_TAGS: Final = 16
"""Tagged fields that a header may have for its request's `acks` to be looked for. Kafka defines none (4.3)."""


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


class ProduceResponse(NamedTuple):
    responses: tuple[TopicProduceResponse, ...]
    throttle_time_ms: Annotated[Int32, since(1), ignorable] = 0
    node_endpoints: Annotated[tuple[NodeEndpoint, ...], since(10), tag(0)] = ()
    tagged: TaggedFields = ()


API = Api(key=0, name="Produce", request=ProduceRequest, response=ProduceResponse, versions=(0, 13), flexible_since=9)


_PLAIN_FROM: Final = 10
_BEFORE_TOPICS: Final = 9  # size, correlation id, no tagged fields of the header
_ONE_BYTE_BELOW: Final = 0x80  # of lengths and counts, which are one more than what they count
_TOPIC_IDS_FROM: Final = 13
_TOPIC_ID_SIZE: Final = 16
_NUMBERS_SIZE: Final = 30  # of a partition
_PLAIN_REST: Final = b"\x01\x00\x00"  # no record errors, no message, no tagged fields
_PARTITION_SIZE: Final = _NUMBERS_SIZE + len(_PLAIN_REST)
_BEHIND_TOPICS_SIZE: Final = 5  # throttle time, no tagged fields


def is_plain_response(frame: bytes, version: int) -> bool:
    """Whether this response's frame, size included, has numbers alone for each partition, and no tagged field anywhere:
    what brokers answer where nothing went wrong. So it names no address.

    Of version 10 and newer; the topics' names are not looked at. False also where it cannot be read so quickly, as with
    more than 126 partitions of a topic, and for what is no response.
    """
    assert version >= _PLAIN_FROM
    try:
        topics, position = frame[_BEFORE_TOPICS], _BEFORE_TOPICS + 1
        if frame[_BEFORE_TOPICS - 1] or not 0 < topics < _ONE_BYTE_BELOW:
            return False
        for _ in range(topics - 1):
            name = frame[position]
            if version < _TOPIC_IDS_FROM and not 0 < name < _ONE_BYTE_BELOW:
                return False
            position += name if version < _TOPIC_IDS_FROM else _TOPIC_ID_SIZE
            partitions, first = frame[position], position + 1
            position = first + (partitions - 1) * _PARTITION_SIZE
            if not 0 < partitions < _ONE_BYTE_BELOW or frame[position]:
                return False
            for rest in range(first + _NUMBERS_SIZE, position, _PARTITION_SIZE):
                if frame[rest : rest + len(_PLAIN_REST)] != _PLAIN_REST:
                    return False
            position += 1
        return len(frame) == position + _BEHIND_TOPICS_SIZE and not frame[-1]
    except IndexError:
        return False


def produce_acks(data: bytes | memoryview, start: int, end: int, version: int) -> tuple[int | None, int]:
    """`acks` of the request whose frame, size included, begins at `start`, and where it ends; where it lies beyond
    `end`: None, and up to where the request has to be there for more to be said.

    For who passes the request on before all of it is there, or ever is, in version 3 and newer: nothing behind `acks`
    is looked at. It follows the header's client id and the transactional id. Raises DecodeError for what no client
    sends, and one server might read otherwise than the next: Kafka drops the bits of a varint that an int32 has no room
    for, takes lengths below -1 for null and negative counts for none.
    """
    try:
        position = _behind_string(data, start + _BEFORE_CLIENT_ID, end, "client_id")
        if API.is_flexible(version):
            tags, position = _uvarint(data, position, end, "tagged")
            if tags > MAX_HEADER_TAGS:
                raise DecodeError(f"{tags} tagged fields in the header", position, "tagged")
            for _ in range(tags):
                _, position = _uvarint(data, position, end, "tagged")
                size, position = _uvarint(data, position, end, "tagged")
                position += size
            length, position = _uvarint(data, position, end, "transactional_id")
            if length - 1 > _LONGEST_STRING:
                raise DecodeError(f"a string of {length - 1} bytes", position, "transactional_id")
            position += max(0, length - 1)
        else:
            position = _behind_string(data, position, end, "transactional_id")
        if position + 2 > end:
            return None, position + 2
    except _CutOff as cut_off:
        return None, cut_off.position
    acks: int = _INT16.unpack_from(data, position)[0]
    return acks, position + 2


class _CutOff(Exception):
    """The request has to be there up to `position`."""

    def __init__(self, position: int) -> None:
        super().__init__(position)
        self.position = position


def _behind_string(data: bytes | memoryview, position: int, end: int, path: str) -> int:
    """Where a nullable string with an int16 length ends."""
    if position + 2 > end:
        raise _CutOff(position + 2)
    length: int = _INT16.unpack_from(data, position)[0]
    if length < -1:
        raise DecodeError(f"a string of {length} bytes", position, path)
    return position + 2 + max(0, length)


def _uvarint(data: bytes | memoryview, position: int, end: int, path: str) -> tuple[int, int]:
    """An unsigned varint that a positive int32 has room for, and where it ends."""
    value = 0
    for shift in range(0, 35, 7):
        if position >= end:
            raise _CutOff(position + 1)
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
    else:
        raise DecodeError("a varint of more than 5 bytes", position, path)
    if value > _INT32_MAX:
        raise DecodeError("a varint of more than 31 bits", position, path)
    return value, position
