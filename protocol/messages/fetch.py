"""Fetch (key 1), versions 0-18. Source: Kafka 4.3; 3.9 for versions 0-3, which Kafka 4 dropped.

Version 3 bounds the whole response (KIP-74), 4 has the isolation level (KIP-98), 5 the log start offset (KIP-107), 7
sessions (KIP-227), 9 the current leader epoch (KIP-320), 11 racks (KIP-392), 12 the raft fields as tagged ones
(KIP-595), 13 topic ids (KIP-516), 15 the replica's state (KIP-903), 16 the addresses of new leaders (KIP-951), 17 the
replica's directory (KIP-853), 18 the follower's high watermark (KIP-1166).

Records are opaque here: message sets v0 up to version 1, v1 in 2 and 3 at most, record batches v2 from 4 on.
"""

from typing import Annotated, NamedTuple

from protocol.api import Api
from protocol.wire import (
    ZERO_UUID,
    Int8,
    Int16,
    Int32,
    Int64,
    NullableString,
    Records,
    String,
    TaggedFields,
    Uuid,
    between,
    ignorable,
    since,
    tag,
    until,
)


class ReplicaState(NamedTuple):
    replica_id: Int32 = -1
    replica_epoch: Int64 = -1
    tagged: TaggedFields = ()


class FetchPartition(NamedTuple):
    partition: Int32
    current_leader_epoch: Annotated[Int32, since(9), ignorable] = -1
    fetch_offset: Int64 = 0
    last_fetched_epoch: Annotated[Int32, since(12)] = -1
    log_start_offset: Annotated[Int64, since(5), ignorable] = -1
    partition_max_bytes: Int32 = 0
    replica_directory_id: Annotated[Uuid, since(17), tag(0), ignorable] = ZERO_UUID
    high_watermark: Annotated[Int64, since(18), tag(1), ignorable] = 2**63 - 1
    tagged: TaggedFields = ()


class FetchTopic(NamedTuple):
    topic: Annotated[String, until(12), ignorable] = ""
    topic_id: Annotated[Uuid, since(13), ignorable] = ZERO_UUID
    partitions: tuple[FetchPartition, ...] = ()
    tagged: TaggedFields = ()


class ForgottenTopic(NamedTuple):
    topic: Annotated[String, between(7, 12), ignorable] = ""
    topic_id: Annotated[Uuid, since(13), ignorable] = ZERO_UUID
    partitions: tuple[Int32, ...] = ()
    tagged: TaggedFields = ()


class FetchRequest(NamedTuple):
    """`isolation_level`: 0 reads uncommitted records, 1 committed ones only."""

    cluster_id: Annotated[NullableString, since(12), tag(0), ignorable] = None
    replica_id: Annotated[Int32, until(14)] = -1
    replica_state: Annotated[ReplicaState, since(15), tag(1)] = ReplicaState()
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Annotated[Int32, since(3), ignorable] = 2**31 - 1
    isolation_level: Annotated[Int8, since(4), ignorable] = 0
    session_id: Annotated[Int32, since(7), ignorable] = 0
    session_epoch: Annotated[Int32, since(7), ignorable] = -1
    topics: tuple[FetchTopic, ...] = ()
    forgotten_topics_data: Annotated[tuple[ForgottenTopic, ...], since(7)] = ()
    rack_id: Annotated[String, since(11), ignorable] = ""
    tagged: TaggedFields = ()


class EpochEndOffset(NamedTuple):
    epoch: Int32 = -1
    end_offset: Int64 = -1
    tagged: TaggedFields = ()


class LeaderIdAndEpoch(NamedTuple):
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1
    tagged: TaggedFields = ()


class SnapshotId(NamedTuple):
    end_offset: Int64 = -1
    epoch: Int32 = -1
    tagged: TaggedFields = ()


class AbortedTransaction(NamedTuple):
    producer_id: Int64
    first_offset: Int64
    tagged: TaggedFields = ()


class PartitionData(NamedTuple):
    partition_index: Int32
    error_code: Int16
    high_watermark: Int64
    last_stable_offset: Annotated[Int64, since(4), ignorable] = -1
    log_start_offset: Annotated[Int64, since(5), ignorable] = -1
    diverging_epoch: Annotated[EpochEndOffset, since(12), tag(0)] = EpochEndOffset()
    current_leader: Annotated[LeaderIdAndEpoch, since(12), tag(1)] = LeaderIdAndEpoch()
    snapshot_id: Annotated[SnapshotId, since(12), tag(2)] = SnapshotId()
    aborted_transactions: Annotated[tuple[AbortedTransaction, ...] | None, since(4), ignorable] = ()
    preferred_read_replica: Annotated[Int32, since(11)] = -1
    records: Records = None
    tagged: TaggedFields = ()


class FetchableTopicResponse(NamedTuple):
    topic: Annotated[String, until(12), ignorable] = ""
    topic_id: Annotated[Uuid, since(13), ignorable] = ZERO_UUID
    partitions: tuple[PartitionData, ...] = ()
    tagged: TaggedFields = ()


class NodeEndpoint(NamedTuple):
    node_id: Int32
    host: String
    port: Int32
    rack: NullableString = None
    tagged: TaggedFields = ()


class FetchResponse(NamedTuple):
    throttle_time_ms: Annotated[Int32, since(1), ignorable] = 0
    error_code: Annotated[Int16, since(7), ignorable] = 0
    session_id: Annotated[Int32, since(7)] = 0
    responses: tuple[FetchableTopicResponse, ...] = ()
    node_endpoints: Annotated[tuple[NodeEndpoint, ...], since(16), tag(0)] = ()
    tagged: TaggedFields = ()


API = Api(key=1, name="Fetch", request=FetchRequest, response=FetchResponse, versions=(0, 18), flexible_since=12)
