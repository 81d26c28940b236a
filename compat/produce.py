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
from protocol.topic_partition import Partition


def exchange(_: int, request: ProduceRequest, __: Context) -> Exchange:
    # Of a partition that comes twice a broker takes the last set, and answers once.
    sets = {
        (topic.name, each.index): each.records or b"" for topic in request.topic_data for each in topic.partition_data
    }
    settled: dict[Partition, ErrorCode] = {}
    bad: Refused | None = None
    converted: dict[str, list[PartitionProduceData]] = {}
    for (topic, index), message_set in sets.items():
        try:
            batch = to_batch(message_set)
        except Refused as error:
            bad, settled[topic, index] = error, error.code
            continue
        if batch is None:
            settled[topic, index] = ErrorCode.NONE
        else:
            converted.setdefault(topic, []).append(PartitionProduceData(index, batch))
    answers: Sequence[ProduceResponse] = ()
    if converted:
        topics = tuple(TopicProduceData(name, partition_data=tuple(each)) for name, each in converted.items())
        answers = yield (request._replace(topic_data=topics),)
    if not request.acks:
        if bad is not None:
            raise Unanswerable(f"produce with acks=0: {bad}")
        return None
    answer = answers[0] if answers else ProduceResponse(())
    answered = {(topic.name, each.index): each for topic in answer.responses for each in topic.partition_responses}
    told: dict[str, list[PartitionProduceResponse]] = {}
    for name in sets:
        response = answered.get(name) or _settled(name[1], settled.get(name))
        told.setdefault(name[0], []).append(response)
    responses = tuple(TopicProduceResponse(name, partition_responses=tuple(each)) for name, each in told.items())
    return ProduceResponse(responses, answer.throttle_time_ms)


def _settled(index: int, error: ErrorCode | None) -> PartitionProduceResponse:
    """Without the broker; None: it said nothing of this one, though it was asked."""
    return PartitionProduceResponse(index, ErrorCode.UNKNOWN_SERVER_ERROR if error is None else error, -1)


def _cost(message: ProduceRequest | ProduceResponse) -> int:
    if isinstance(message, ProduceResponse):
        return 0
    return sum(cost(each.records) for topic in message.topic_data for each in topic.partition_data)


TRANSLATION = Translation(API, 0, 2, 3, exchange, _cost, lambda request: request.acks != 0)
