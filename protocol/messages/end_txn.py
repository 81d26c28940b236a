"""EndTxn (key 26), versions 0-5. Source: Kafka 4.3, KIP-98.

Version 2 may answer PRODUCER_FENCED (KIP-588), 4 TRANSACTION_ABORTABLE, 5 bumps the epoch with every transaction and
gives the producer id and epoch for the next one (both KIP-890).
"""

from typing import Annotated, NamedTuple

from protocol.api import Api
from protocol.wire import Bool, Int16, Int32, Int64, String, TaggedFields, ignorable, since


class EndTxnRequest(NamedTuple):
    """`committed`: False aborts."""

    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    committed: Bool
    tagged: TaggedFields = ()


class EndTxnResponse(NamedTuple):
    throttle_time_ms: Int32
    error_code: Int16
    producer_id: Annotated[Int64, since(5), ignorable] = -1
    producer_epoch: Annotated[Int16, since(5), ignorable] = -1
    tagged: TaggedFields = ()


API = Api(key=26, name="EndTxn", request=EndTxnRequest, response=EndTxnResponse, versions=(0, 5), flexible_since=3)
