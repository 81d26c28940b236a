"""ShareAcknowledge (key 79), versions 1-2. Source: Kafka 4.3, KIP-932. Version 0 was never stable.

Version 2 renews acquisitions (KIP-1222).
"""

from typing import Annotated, NamedTuple

from protocol.api import Api
from protocol.messages.fetch import NodeEndpoint as NodeEndpoint
from protocol.messages.share_fetch import AcknowledgementBatch as AcknowledgementBatch
from protocol.messages.share_fetch import LeaderIdAndEpoch as LeaderIdAndEpoch
from protocol.wire import (
    Bool,
    Int16,
    Int32,
    NullableString,
    TaggedFields,
    Uuid,
    ignorable,
    since,
)


class AcknowledgePartition(NamedTuple):
    partition_index: Int32
    acknowledgement_batches: tuple[AcknowledgementBatch, ...]
    tagged: TaggedFields = ()


class AcknowledgeTopic(NamedTuple):
    topic_id: Uuid
    partitions: tuple[AcknowledgePartition, ...]
    tagged: TaggedFields = ()


class ShareAcknowledgeRequest(NamedTuple):
    group_id: NullableString = None
    member_id: NullableString = ""
    share_session_epoch: Int32 = 0
    is_renew_ack: Annotated[Bool, since(2)] = False
    topics: tuple[AcknowledgeTopic, ...] = ()
    tagged: TaggedFields = ()


class PartitionData(NamedTuple):
    partition_index: Int32
    error_code: Int16
    error_message: NullableString = None
    current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch()
    tagged: TaggedFields = ()


class ShareAcknowledgeTopicResponse(NamedTuple):
    topic_id: Uuid
    partitions: tuple[PartitionData, ...]
    tagged: TaggedFields = ()


class ShareAcknowledgeResponse(NamedTuple):
    throttle_time_ms: Int32
    error_code: Int16
    error_message: NullableString = None
    acquisition_lock_timeout_ms: Annotated[Int32, since(2), ignorable] = 0
    responses: tuple[ShareAcknowledgeTopicResponse, ...] = ()
    node_endpoints: tuple[NodeEndpoint, ...] = ()
    tagged: TaggedFields = ()


API = Api(
    key=79,
    name="ShareAcknowledge",
    request=ShareAcknowledgeRequest,
    response=ShareAcknowledgeResponse,
    versions=(1, 2),
    flexible_since=0,
)
