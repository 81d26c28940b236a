"""OffsetDelete (key 47), version 0, which is not flexible. Source: Kafka 4.3, KIP-496."""

from typing import Annotated, NamedTuple

from protocol.api import Api
from protocol.wire import Int16, Int32, String, ignorable


class OffsetDeleteRequestPartition(NamedTuple):
    partition_index: Int32


class OffsetDeleteRequestTopic(NamedTuple):
    name: String
    partitions: tuple[OffsetDeleteRequestPartition, ...]


class OffsetDeleteRequest(NamedTuple):
    group_id: String
    topics: tuple[OffsetDeleteRequestTopic, ...]


class OffsetDeleteResponsePartition(NamedTuple):
    partition_index: Int32
    error_code: Int16


class OffsetDeleteResponseTopic(NamedTuple):
    name: String
    partitions: tuple[OffsetDeleteResponsePartition, ...]


class OffsetDeleteResponse(NamedTuple):
    """The throttle time comes after the error code here, other than in most responses."""

    error_code: Int16
    throttle_time_ms: Annotated[Int32, ignorable]
    topics: tuple[OffsetDeleteResponseTopic, ...]


API = Api(
    key=47,
    name="OffsetDelete",
    request=OffsetDeleteRequest,
    response=OffsetDeleteResponse,
    versions=(0, 0),
    flexible_since=None,
)
