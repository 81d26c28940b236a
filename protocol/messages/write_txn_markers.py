"""WriteTxnMarkers (key 27), versions 0-2. Source: Kafka 4.3, KIP-98; 3.9 for version 0, which Kafka 4 dropped.

Version 2 says which version of transactions the marker ends (KIP-1228).
"""

from typing import Annotated, NamedTuple

from protocol.api import Api
from protocol.wire import Bool, Int8, Int16, Int32, Int64, String, TaggedFields, ignorable, since


class WritableTxnMarkerTopic(NamedTuple):
    name: String
    partition_indexes: tuple[Int32, ...]
    tagged: TaggedFields = ()


class WritableTxnMarker(NamedTuple):
    """`transaction_result`: False aborts."""

    producer_id: Int64
    producer_epoch: Int16
    transaction_result: Bool
    topics: tuple[WritableTxnMarkerTopic, ...]
    coordinator_epoch: Int32
    transaction_version: Annotated[Int8, since(2), ignorable] = 0
    tagged: TaggedFields = ()


class WriteTxnMarkersRequest(NamedTuple):
    markers: tuple[WritableTxnMarker, ...]
    tagged: TaggedFields = ()


class WritableTxnMarkerPartitionResult(NamedTuple):
    partition_index: Int32
    error_code: Int16
    tagged: TaggedFields = ()


class WritableTxnMarkerTopicResult(NamedTuple):
    name: String
    partitions: tuple[WritableTxnMarkerPartitionResult, ...]
    tagged: TaggedFields = ()


class WritableTxnMarkerResult(NamedTuple):
    producer_id: Int64
    topics: tuple[WritableTxnMarkerTopicResult, ...]
    tagged: TaggedFields = ()


class WriteTxnMarkersResponse(NamedTuple):
    markers: tuple[WritableTxnMarkerResult, ...]
    tagged: TaggedFields = ()


API = Api(
    key=27,
    name="WriteTxnMarkers",
    request=WriteTxnMarkersRequest,
    response=WriteTxnMarkersResponse,
    versions=(0, 2),
    flexible_since=1,
)
