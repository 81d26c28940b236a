"""Producers and transactions."""

from protocol.errors import ErrorCode
from protocol.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    describe_producers,
    describe_transactions,
    end_txn,
    init_producer_id,
    list_transactions,
    txn_offset_commit,
    write_txn_markers,
)
from protocol.records.batches import encode_records
from tests.protocol_live.place import Place, Transaction, scenario, some_records


@scenario(init_producer_id.API)
def makes_producers(place: Place, version: int) -> None:
    first, _ = place.new_producer(version)
    assert place.new_producer(version)[0] > first
    made = place.new_transaction()
    again = place.new_producer(version, made.transactional_id)
    assert again > (made.producer_id, made.producer_epoch)
    if version >= 3:  # KIP-360
        request = init_producer_id.InitProducerIdRequest(made.transactional_id, 60_000, *again)
        answer = place.ask_until(init_producer_id.API, version, request, lambda response: response.error_code)
        assert (answer.producer_id, answer.producer_epoch) > again


@scenario(add_partitions_to_txn.API)
def adds_partitions(place: Place, version: int) -> None:
    topic, made = place.new_topic(), place.new_transaction()
    if version < 4:
        place.begin(made, topic, version)
    else:
        topics = (add_partitions_to_txn.AddPartitionsToTxnTopic(topic, (0,)),)
        request = add_partitions_to_txn.AddPartitionsToTxnRequest(
            (add_partitions_to_txn.AddPartitionsToTxnTransaction(*made, topics=topics),)
        )
        answer = place.ask(add_partitions_to_txn.API, version, request)
        assert answer.error_code == 0
        ((name, ((found, ((index, error, _),), _),), _),) = answer.results_by_transaction
        assert (name, found, index, error) == (made.transactional_id, topic, 0, 0)
    assert _described(place, made).topics == ((topic, (0,), ()),)


@scenario(add_offsets_to_txn.API)
def adds_offsets(place: Place, version: int) -> None:
    made, group = place.new_transaction(), place.new_group()
    _add_offsets(place, version, made, group)
    ((name, _, _),) = _described(place, made).topics
    assert name == "__consumer_offsets"


@scenario(txn_offset_commit.API)
def commits_in_a_transaction(place: Place, version: int) -> None:
    topic, made = place.new_topic(), place.new_transaction()
    member = place.new_member()
    _add_offsets(place, 3, made, member.group)
    partition = txn_offset_commit.TxnOffsetCommitRequestPartition(0, 42, 0, "metadata")
    request = txn_offset_commit.TxnOffsetCommitRequest(
        made.transactional_id,
        member.group,
        made.producer_id,
        made.producer_epoch,
        topics=(txn_offset_commit.TxnOffsetCommitRequestTopic(topic, (partition,)),),
    )
    if version >= 3:  # KIP-447
        request = request._replace(generation_id=member.generation, member_id=member.id)
    answer = place.ask_until(
        txn_offset_commit.API, version, request, lambda response: response.topics[0].partitions[0].error_code
    )
    ((name, ((index, _, _),), _),) = answer.topics
    assert (name, index) == (topic, 0)


@scenario(end_txn.API)
def ends(place: Place, version: int) -> None:
    topic = place.new_topic()
    for committed in (True, False):
        made = place.new_transaction()
        place.begin(made, topic)
        request = end_txn.EndTxnRequest(*made, committed)
        stranger = request._replace(producer_id=made.producer_id + 1_000_000)
        assert place.ask(end_txn.API, version, stranger).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
        answer = place.ask(end_txn.API, version, request)
        assert answer.error_code == 0
        if version >= 5:  # KIP-890
            assert (answer.producer_id, answer.producer_epoch) == (made.producer_id, made.producer_epoch + 1)


@scenario(write_txn_markers.API)
def writes_markers(place: Place, version: int) -> None:
    topic, _ = place.filled_topic()
    producer_id, epoch = place.new_producer(0)
    topics = (write_txn_markers.WritableTxnMarkerTopic(topic, (0,)),)
    marker = write_txn_markers.WritableTxnMarker(producer_id, epoch, True, topics, 0)
    answer = place.ask(write_txn_markers.API, version, write_txn_markers.WriteTxnMarkersRequest((marker,)))
    ((found_id, ((name, ((index, error, _),), _),), _),) = answer.markers
    assert (found_id, name, index, error) == (producer_id, topic, 0, 0)


@scenario(describe_producers.API)
def describes_producers(place: Place, version: int) -> None:
    topic, (producer_id, epoch) = place.new_topic(), place.new_producer(4)
    records = some_records(9)
    place.send(topic, 9, encode_records(records, producer_id=producer_id, producer_epoch=epoch, base_sequence=0))
    request = describe_producers.DescribeProducersRequest((describe_producers.TopicRequest(topic, (0,)),))
    ((name, (partition,), _),) = place.ask(describe_producers.API, version, request).topics
    assert (name, partition.partition_index, partition.error_code) == (topic, 0, 0)
    (found,) = partition.active_producers
    assert found[:4] == (producer_id, epoch, 2, records[-1].timestamp)


@scenario(describe_transactions.API)
def describes_transactions(place: Place, version: int) -> None:
    assert version == 0
    topic, made = place.new_topic(), place.new_transaction()
    assert _described(place, made).transaction_state == "Empty"
    place.begin(made, topic)
    found = _described(place, made)
    assert (found.transaction_state, found.transaction_timeout_ms) == ("Ongoing", 60_000)
    assert found.transaction_start_time_ms > 0


@scenario(list_transactions.API)
def lists_transactions(place: Place, version: int) -> None:
    made = place.new_transaction()
    place.begin(made, place.new_topic())
    request = list_transactions.ListTransactionsRequest(("Ongoing", "Whatever"), (made.producer_id,))
    if version >= 1:
        request = request._replace(duration_filter=0)
    if version >= 2:
        request = request._replace(transactional_id_pattern="transaction-.*")
    answer = place.ask_until(list_transactions.API, version, request, _listed)
    assert answer.unknown_state_filters == ("Whatever",)
    assert [tuple(found[:3]) for found in answer.transaction_states] == [
        (made.transactional_id, made.producer_id, "Ongoing")
    ]


def _listed(response: list_transactions.ListTransactionsResponse) -> int:
    """A transaction that began in this very millisecond has not lasted longer than 0: it is not listed yet."""
    return response.error_code if response.transaction_states else ErrorCode.CONCURRENT_TRANSACTIONS


def _add_offsets(place: Place, version: int, made: Transaction, group: str) -> None:
    request = add_offsets_to_txn.AddOffsetsToTxnRequest(*made, group)
    place.ask_until(add_offsets_to_txn.API, version, request, lambda response: response.error_code)


def _described(place: Place, made: Transaction) -> describe_transactions.TransactionState:
    request = describe_transactions.DescribeTransactionsRequest((made.transactional_id,))
    (found,) = place.ask(describe_transactions.API, 0, request).transaction_states
    assert (found.error_code, found.transactional_id) == (0, made.transactional_id)
    assert (found.producer_id, found.producer_epoch) == (made.producer_id, made.producer_epoch)
    return found
