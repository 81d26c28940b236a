"""Produce v0-2: message sets become record batches (v3).

Source: KIP-98, KIP-32; what a broker answers to bad bytes: Kafka 3.9, the last to take these versions.
"""

from __future__ import annotations

from compat.formats import Refused, to_batch
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
    refused: dict[_Partition, ErrorCode] = {}
    converted: list[TopicProduceData] = []
    for topic in request.topic_data:
        partitions: list[PartitionProduceData] = []
        for partition in topic.partition_data:
            try:
                batch = to_batch(partition.records or b"")
            except Refused as error:
                refused[topic.name, partition.index] = error.code
                if not request.acks:
                    raise Unanswerable(f"produce to {topic.name}-{partition.index} with acks=0: {error}") from error
            else:
                partitions.append(partition._replace(records=batch))
        if partitions:
            converted.append(topic._replace(partition_data=tuple(partitions)))
    answered: dict[_Partition, PartitionProduceResponse] = {}
    throttle_time_ms = 0
    if converted or not refused:
        (response,) = yield (request._replace(topic_data=tuple(converted)),)
        throttle_time_ms = response.throttle_time_ms
        answered = {
            (topic.name, each.index): each for topic in response.responses for each in topic.partition_responses
        }
    return ProduceResponse(
        tuple(
            TopicProduceResponse(
                topic.name,
                partition_responses=tuple(
                    answered.get((topic.name, each.index))
                    or PartitionProduceResponse(
                        each.index, refused.get((topic.name, each.index), ErrorCode.UNKNOWN_SERVER_ERROR), -1
                    )
                    for each in topic.partition_data
                ),
            )
            for topic in request.topic_data
        ),
        throttle_time_ms,
    )


def _records(message: ProduceRequest | ProduceResponse) -> int:
    if isinstance(message, ProduceResponse):
        return 0
    return sum(len(each.records or b"") for topic in message.topic_data for each in topic.partition_data)


TRANSLATION = Translation(API, 0, 2, 3, exchange, _records, lambda request: request.acks != 0)
