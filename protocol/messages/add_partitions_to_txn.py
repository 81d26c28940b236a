"""AddPartitionsToTxn (key 24), versions 0-5. Source: Kafka 4.3, KIP-98.

Version 2 may answer PRODUCER_FENCED (KIP-588), 4 carries several transactions and is for brokers alone, 5 may answer
TRANSACTION_ABORTABLE (both KIP-890).
"""

from typing import Annotated, NamedTuple

from protocol.api import Api
from protocol.wire import Bool, Int16, Int32, Int64, String, TaggedFields, ignorable, since, until


class AddPartitionsToTxnTopic(NamedTuple):
    name: String
    partitions: tuple[Int32, ...]
    tagged: TaggedFields = ()


class AddPartitionsToTxnTransaction(NamedTuple):
    """`verify_only` asks whether the partitions are in the transaction, and adds none."""

    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    verify_only: Bool = False
    topics: tuple[AddPartitionsToTxnTopic, ...] = ()
    tagged: TaggedFields = ()


class AddPartitionsToTxnRequest(NamedTuple):
    transactions: Annotated[tuple[AddPartitionsToTxnTransaction, ...], since(4)] = ()
    v3_and_below_transactional_id: Annotated[String, until(3)] = ""
    v3_and_below_producer_id: Annotated[Int64, until(3)] = 0
    v3_and_below_producer_epoch: Annotated[Int16, until(3)] = 0
    v3_and_below_topics: Annotated[tuple[AddPartitionsToTxnTopic, ...], until(3)] = ()
    tagged: TaggedFields = ()


class AddPartitionsToTxnPartitionResult(NamedTuple):
    partition_index: Int32
    partition_error_code: Int16
    tagged: TaggedFields = ()


class AddPartitionsToTxnTopicResult(NamedTuple):
    name: String
    results_by_partition: tuple[AddPartitionsToTxnPartitionResult, ...]
    tagged: TaggedFields = ()


class AddPartitionsToTxnResult(NamedTuple):
    transactional_id: String
    topic_results: tuple[AddPartitionsToTxnTopicResult, ...]
    tagged: TaggedFields = ()


class AddPartitionsToTxnResponse(NamedTuple):
    throttle_time_ms: Int32
    error_code: Annotated[Int16, since(4), ignorable] = 0
    results_by_transaction: Annotated[tuple[AddPartitionsToTxnResult, ...], since(4)] = ()
    results_by_topic_v3_and_below: Annotated[tuple[AddPartitionsToTxnTopicResult, ...], until(3)] = ()
    tagged: TaggedFields = ()


API = Api(
    key=24,
    name="AddPartitionsToTxn",
    request=AddPartitionsToTxnRequest,
    response=AddPartitionsToTxnResponse,
    versions=(0, 5),
    flexible_since=3,
)
