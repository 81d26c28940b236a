"""TxnOffsetCommit (key 28), versions 0-5. Source: Kafka 4.3, KIP-98.

Version 2 has the leader epoch (KIP-320), 3 the member, its generation and instance id (KIP-447), 4 may answer
TRANSACTION_ABORTABLE, 5 also adds the group's offsets to the transaction (both KIP-890).
"""

from typing import Annotated, NamedTuple

from protocol.api import Api
from protocol.wire import (
    Int16,
    Int32,
    Int64,
    NullableOpaqueString,
    NullableString,
    String,
    TaggedFields,
    ignorable,
    since,
)


class TxnOffsetCommitRequestPartition(NamedTuple):
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Annotated[Int32, since(2), ignorable] = -1
    committed_metadata: NullableOpaqueString = ""
    tagged: TaggedFields = ()


class TxnOffsetCommitRequestTopic(NamedTuple):
    name: String
    partitions: tuple[TxnOffsetCommitRequestPartition, ...]
    tagged: TaggedFields = ()


class TxnOffsetCommitRequest(NamedTuple):
    transactional_id: String
    group_id: String
    producer_id: Int64
    producer_epoch: Int16
    generation_id: Annotated[Int32, since(3)] = -1
    member_id: Annotated[String, since(3)] = ""
    group_instance_id: Annotated[NullableString, since(3)] = None
    topics: tuple[TxnOffsetCommitRequestTopic, ...] = ()
    tagged: TaggedFields = ()


class TxnOffsetCommitResponsePartition(NamedTuple):
    partition_index: Int32
    error_code: Int16
    tagged: TaggedFields = ()


class TxnOffsetCommitResponseTopic(NamedTuple):
    name: String
    partitions: tuple[TxnOffsetCommitResponsePartition, ...]
    tagged: TaggedFields = ()


class TxnOffsetCommitResponse(NamedTuple):
    throttle_time_ms: Int32
    topics: tuple[TxnOffsetCommitResponseTopic, ...]
    tagged: TaggedFields = ()


API = Api(
    key=28,
    name="TxnOffsetCommit",
    request=TxnOffsetCommitRequest,
    response=TxnOffsetCommitResponse,
    versions=(0, 5),
    flexible_since=3,
)
