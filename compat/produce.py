"""Produce v0-2: message sets become record batches (v3).

Source: KIP-98, KIP-32; what a broker answers to bad bytes: Kafka 3.9, the last to take these versions.
"""

from __future__ import annotations

from collections.abc import Sequence

from compat.formats import Refused, cost, to_batch
from compat.translation import Context, Exchange, Translation, Unanswerable
from protocol.errors import ErrorCode
from protocol.messages.produce import (
    API,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

_Partition = tuple[str, int]


def exchange(version: int, request: ProduceRequest, _: Context) -> Exchange:
    settled: dict[_Partition, ErrorCode] = {}
    bad: Refused | None = None
    converted: list[TopicProduceData] = []
    for topic in request.topic_data:
        partitions: list[PartitionProduceData] = []
        for partition in topic.partition_data:
            try:
                batch = to_batch(partition.records or b"")
            except Refused as error:
                bad, settled[topic.name, partition.index] = error, error.code
                continue
            if batch is None:
                settled[topic.name, partition.index] = ErrorCode.NONE
            else:
                partitions.append(partition._replace(records=batch))
        if partitions:
            converted.append(topic._replace(partition_data=tuple(partitions)))
    answers: Sequence[ProduceResponse] = ()
    if converted:
        answers = yield (request._replace(topic_data=tuple(converted)),)
    if not request.acks:
        if bad is not None:
            raise Unanswerable(f"produce with acks=0: {bad}")
        return None
    answer = answers[0] if answers else ProduceResponse(())
    answered = {(topic.name, each.index): each for topic in answer.responses for each in topic.partition_responses}
    return ProduceResponse(
        tuple(
            TopicProduceResponse(
                topic.name,
                partition_responses=tuple(
                    answered.get((topic.name, each.index))
                    or _settled(each.index, settled.get((topic.name, each.index)))
                    for each in topic.partition_data
                ),
            )
            for topic in request.topic_data
        ),
        answer.throttle_time_ms,
    )


def _settled(index: int, error: ErrorCode | None) -> PartitionProduceResponse:
    """Without the broker; None: it said nothing of this one, though it was asked."""
    return PartitionProduceResponse(index, ErrorCode.UNKNOWN_SERVER_ERROR if error is None else error, -1)


def _cost(message: ProduceRequest | ProduceResponse) -> int:
    if isinstance(message, ProduceResponse):
        return 0
    return sum(cost(each.records) for topic in message.topic_data for each in topic.partition_data)


TRANSLATION = Translation(API, 0, 2, 3, exchange, _cost, lambda request: request.acks != 0)
