"""AddOffsetsToTxn (key 25), versions 0-4. Source: Kafka 4.3, KIP-98.

Version 2 may answer PRODUCER_FENCED (KIP-588), 4 TRANSACTION_ABORTABLE (KIP-890).
"""

from typing import NamedTuple

from protocol.api import Api
from protocol.wire import Int16, Int32, Int64, String, TaggedFields


class AddOffsetsToTxnRequest(NamedTuple):
    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    group_id: String
    tagged: TaggedFields = ()


class AddOffsetsToTxnResponse(NamedTuple):
    throttle_time_ms: Int32
    error_code: Int16
    tagged: TaggedFields = ()


API = Api(
    key=25,
    name="AddOffsetsToTxn",
    request=AddOffsetsToTxnRequest,
    response=AddOffsetsToTxnResponse,
    versions=(0, 4),
    flexible_since=3,
)
