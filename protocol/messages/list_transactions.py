"""ListTransactions (key 66), versions 0-2. Source: Kafka 4.3, KIP-664.

Version 1 filters by how long the transaction has run (KIP-994), 2 by a pattern of its id (KIP-1152).
"""

from typing import Annotated, NamedTuple

from protocol.api import Api
from protocol.wire import Int16, Int32, Int64, NullableString, String, TaggedFields, since


class ListTransactionsRequest(NamedTuple):
    """Empty filters let everything through; `duration_filter` is in milliseconds, -1 for none."""

    state_filters: tuple[String, ...]
    producer_id_filters: tuple[Int64, ...]
    duration_filter: Annotated[Int64, since(1)] = -1
    transactional_id_pattern: Annotated[NullableString, since(2)] = None
    tagged: TaggedFields = ()


class TransactionState(NamedTuple):
    transactional_id: String
    producer_id: Int64
    transaction_state: String
    tagged: TaggedFields = ()


class ListTransactionsResponse(NamedTuple):
    throttle_time_ms: Int32
    error_code: Int16
    unknown_state_filters: tuple[String, ...]
    transaction_states: tuple[TransactionState, ...]
    tagged: TaggedFields = ()


API = Api(
    key=66,
    name="ListTransactions",
    request=ListTransactionsRequest,
    response=ListTransactionsResponse,
    versions=(0, 2),
    flexible_since=0,
)
