"""DescribeTransactions (key 65), version 0. Source: Kafka 4.3, KIP-664."""

from typing import NamedTuple

from protocol.api import Api
from protocol.wire import Int16, Int32, Int64, String, TaggedFields


class DescribeTransactionsRequest(NamedTuple):
    transactional_ids: tuple[String, ...]
    tagged: TaggedFields = ()


class TopicData(NamedTuple):
    topic: String
    partitions: tuple[Int32, ...]
    tagged: TaggedFields = ()


class TransactionState(NamedTuple):
    """`transaction_start_time_ms` is in milliseconds since the epoch, -1 for none."""

    error_code: Int16
    transactional_id: String
    transaction_state: String
    transaction_timeout_ms: Int32
    transaction_start_time_ms: Int64
    producer_id: Int64
    producer_epoch: Int16
    topics: tuple[TopicData, ...]
    tagged: TaggedFields = ()


class DescribeTransactionsResponse(NamedTuple):
    throttle_time_ms: Int32
    transaction_states: tuple[TransactionState, ...]
    tagged: TaggedFields = ()


API = Api(
    key=65,
    name="DescribeTransactions",
    request=DescribeTransactionsRequest,
    response=DescribeTransactionsResponse,
    versions=(0, 0),
    flexible_since=0,
)
