"""ShareFetch (key 78), versions 1-2. Source: Kafka 4.3, KIP-932. Version 0 was never stable.

Version 2 has the acquire mode (KIP-1206) and renews acquisitions (KIP-1222).
"""

from typing import Annotated, NamedTuple

from protocol.api import Api
from protocol.messages.fetch import NodeEndpoint as NodeEndpoint
from protocol.wire import (
    Bool,
    Bytes,
    Int8,
    Int16,
    Int32,
    Int64,
    NullableString,
    TaggedFields,
    Uuid,
    ignorable,
    since,
)


class AcknowledgementBatch(NamedTuple):
    """`acknowledge_types`, one for all offsets or one each: 0 gap, 1 accept, 2 release, 3 reject, 4 renew."""

    first_offset: Int64
    last_offset: Int64
    acknowledge_types: tuple[Int8, ...]
    tagged: TaggedFields = ()


class FetchPartition(NamedTuple):
    partition_index: Int32
    acknowledgement_batches: tuple[AcknowledgementBatch, ...]
    tagged: TaggedFields = ()


class FetchTopic(NamedTuple):
    topic_id: Uuid
    partitions: tuple[FetchPartition, ...]
    tagged: TaggedFields = ()


class ForgottenTopic(NamedTuple):
    topic_id: Uuid
    partitions: tuple[Int32, ...]
    tagged: TaggedFields = ()


class ShareFetchRequest(NamedTuple):
    group_id: NullableString = None
    member_id: NullableString = ""
    share_session_epoch: Int32 = 0
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Int32 = 2**31 - 1
    max_records: Int32 = 0
    batch_size: Int32 = 0
    share_acquire_mode: Annotated[Int8, since(2), ignorable] = 0
    is_renew_ack: Annotated[Bool, since(2)] = False
    topics: tuple[FetchTopic, ...] = ()
    forgotten_topics_data: tuple[ForgottenTopic, ...] = ()
    tagged: TaggedFields = ()


class LeaderIdAndEpoch(NamedTuple):
    """Other than in Fetch and Produce, never absent and without defaults."""

    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    tagged: TaggedFields = ()


class AcquiredRecords(NamedTuple):
    first_offset: Int64
    last_offset: Int64
    delivery_count: Int16
    tagged: TaggedFields = ()


class PartitionData(NamedTuple):
    """`records` is not null in any stable version."""

    partition_index: Int32
    error_code: Int16
    error_message: NullableString = None
    acknowledge_error_code: Int16 = 0
    acknowledge_error_message: NullableString = None
    current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch()
    records: Bytes = b""
    acquired_records: tuple[AcquiredRecords, ...] = ()
    tagged: TaggedFields = ()


class ShareFetchableTopicResponse(NamedTuple):
    topic_id: Uuid
    partitions: tuple[PartitionData, ...]
    tagged: TaggedFields = ()


class ShareFetchResponse(NamedTuple):
    throttle_time_ms: Int32
    error_code: Int16
    error_message: NullableString = None
    acquisition_lock_timeout_ms: Int32 = 0
    responses: tuple[ShareFetchableTopicResponse, ...] = ()
    node_endpoints: tuple[NodeEndpoint, ...] = ()
    tagged: TaggedFields = ()


API = Api(
    key=78,
    name="ShareFetch",
    request=ShareFetchRequest,
    response=ShareFetchResponse,
    versions=(1, 2),
    flexible_since=0,
)
