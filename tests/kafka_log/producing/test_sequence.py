"""Batches are numbered as brokers want them."""

from __future__ import annotations

import pytest

from protocol.errors import ErrorCode
from protocol.records.batches import decode_records, encode_batch, read_header
from shim.kafka_log.producing.produced import Verdict, verdict_of
from shim.kafka_log.producing.sequence import ProducerSequence

LARGEST = 2**31 - 1


def batch(records: int) -> bytes:
    return encode_batch(100, [(b"k", b"v")] * records, 0)


def test_each_batch_goes_on_where_the_one_before_ends() -> None:
    sequence = ProducerSequence(7, 3)
    numbers = []
    for records in (2, 1, 5):
        stamped = sequence.stamp(batch(records))
        header = read_header(stamped)
        decode_records(stamped)  # its CRC is right
        assert (header.base_offset, header.producer_id, header.producer_epoch) == (0, 7, 3)
        numbers.append(header.base_sequence)
        assert sequence.is_under_way
        assert sequence.written(sum(numbers) + 10)
    assert numbers == [0, 2, 3]


@pytest.mark.parametrize(("before", "records", "after"), [(LARGEST, 1, 0), (LARGEST - 1, 2, 0), (LARGEST - 1, 5, 3)])
def test_behind_the_largest_number_comes_0(before: int, records: int, after: int) -> None:
    """Kafka 4.3, `DefaultRecordBatch.incrementSequence`."""
    sequence = ProducerSequence(7, 3)
    sequence._next = before
    sequence.stamp(batch(records))
    sequence.written(0)
    assert read_header(sequence.stamp(batch(1))).base_sequence == after


def test_one_at_a_time() -> None:
    """Of two with the same number a broker takes the second for the first, sent again."""
    sequence = ProducerSequence(7, 3)
    sequence.stamp(batch(1))
    with pytest.raises(RuntimeError, match="two batches"):
        sequence.stamp(batch(1))


def test_what_was_acknowledged_stays_below() -> None:
    sequence = ProducerSequence(7, 3)
    for base_offset in (5, 7, 20):
        sequence.stamp(batch(2))
        assert sequence.written(base_offset)
    sequence.stamp(batch(2))
    assert not sequence.written(21)


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (ErrorCode.NONE, Verdict.WRITTEN),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, Verdict.UNKNOWN),
        (ErrorCode.REQUEST_TIMED_OUT, Verdict.UNKNOWN),
        (ErrorCode.NOT_ENOUGH_REPLICAS, Verdict.UNKNOWN),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, Verdict.UNKNOWN),
        (ErrorCode.KAFKA_STORAGE_ERROR, Verdict.UNKNOWN),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, Verdict.UNKNOWN),
        (ErrorCode.INVALID_PRODUCER_EPOCH, Verdict.FENCED),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, Verdict.LOST),
        (ErrorCode.UNKNOWN_PRODUCER_ID, Verdict.LOST),
        (ErrorCode.DUPLICATE_SEQUENCE_NUMBER, Verdict.LOST),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, Verdict.REFUSED),
        (ErrorCode.MESSAGE_TOO_LARGE, Verdict.REFUSED),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, Verdict.REFUSED),
    ],
)
def test_what_an_answer_means(error: ErrorCode, verdict: Verdict) -> None:
    assert verdict_of(error) is verdict


def test_a_code_that_nobody_knows_is_no_success() -> None:
    assert verdict_of(12_345) is Verdict.REFUSED
