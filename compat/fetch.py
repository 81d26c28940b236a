"""Fetch v0-3: record batches become message sets, magic 0 up to v1, magic 1 in v2 and v3 (v10: KIP-110).

As from a 3.9 broker, records of transactions are there whether these were committed, aborted or neither: clients of
these versions know no isolation level. Where nothing but the markers of transactions was fetched, an old client would
get nothing, stay where it is, and ask again at once, for ever: so the broker is asked again, behind them, and that
waits for what comes as long as the client wants to. Where that was is not kept: it may be another log the next time.

v10 is the oldest that may be answered with zstd, and gives the first batch whole even if it is larger than was asked
for (KIP-74): an old client gets as many of its messages as it has asked bytes for, where 3.9 gives none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from compat.formats import cost, to_message_sets
from compat.translation import Context, Exchange, Translation
from protocol.errors import ErrorCode
from protocol.messages.fetch import (
    API,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from protocol.records.batches import BatchError
from protocol.topic_partition import Partition

_MOST_ROUNDS: Final = 8
"""So often is one request asked for, each time behind the markers that were found."""
_FIRST_WITH_TIMESTAMPS: Final = 2
_FIRST_WITH_WHOLE_MESSAGES: Final = 3


def exchange(version: int, request: FetchRequest, context: Context) -> Exchange:
    asked = {(topic.topic, each.partition): each for topic in request.topics for each in topic.partitions}
    in_turn = _in_turn(asked, context.first)
    positions = {name: each.fetch_offset for name, each in asked.items()}
    answer: FetchResponse | None = None
    converted: dict[Partition, PartitionData] = {}
    wanted = in_turn
    for number in range(_MOST_ROUNDS):
        (response,) = yield (
            request._replace(
                # Nobody waits where there is something to give, and not twice for what may come behind markers.
                max_wait_ms=request.max_wait_ms if number < 2 and not _has_any(converted) else 0,
                max_bytes=min(request.max_bytes, context.fetch_bytes),
                topics=_topics((name, asked[name]._replace(fetch_offset=positions[name])) for name in wanted),
            ),
        )
        found = {(topic.topic, each.partition_index): each for topic in response.responses for each in topic.partitions}
        if answer is None:
            answer = response
            context.first = next(
                (name for name in in_turn if name in found and _got_nothing(found[name], positions[name])), None
            )
        behind: list[Partition] = []
        for name in wanted:
            if name not in found or (number and found[name].error_code):
                continue  # the client is told when it asks there itself
            converted[name], next_offset = _converted(version, asked[name], positions[name], found[name])
            if next_offset > positions[name] and not converted[name].records:
                behind.append(name)
                positions[name] = next_offset
        if not behind:
            break
        wanted = behind if _has_any(converted) else in_turn
    assert answer is not None
    return FetchResponse(answer.throttle_time_ms, responses=_answered(request, answer.error_code, converted))


def _answered(
    request: FetchRequest, error: int, converted: Mapping[Partition, PartitionData]
) -> tuple[FetchableTopicResponse, ...]:
    """In the order of the request, each once. Where the broker has named none, as one that throttles a client does, it
    is not named here either, unless there is an error of all."""
    topics: dict[str, dict[int, PartitionData]] = {}
    for topic in request.topics:
        for each in topic.partitions:
            data = converted.get((topic.topic, each.partition))
            if data is None and error:
                data = PartitionData(each.partition, error, -1, records=b"")
            if data is not None:
                topics.setdefault(topic.topic, {})[each.partition] = data
    return tuple(FetchableTopicResponse(name, partitions=tuple(each.values())) for name, each in topics.items())


def _has_any(converted: Mapping[Partition, PartitionData]) -> bool:
    return any(each.records or each.error_code for each in converted.values())


def _converted(version: int, asked: FetchPartition, position: int, found: PartitionData) -> tuple[PartitionData, int]:
    """And where to go on if it has no records."""
    data, error, next_offset = b"", found.error_code, position
    if error == ErrorCode.KAFKA_STORAGE_ERROR:
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER  # at this old clients ask for the leader, as 3.9 has it
    if found.records:
        magic = 1 if version >= _FIRST_WITH_TIMESTAMPS else 0
        whole = version >= _FIRST_WITH_WHOLE_MESSAGES
        try:
            data, next_offset = to_message_sets(found.records, magic, position, asked.partition_max_bytes, whole=whole)
        except BatchError:
            error = ErrorCode.CORRUPT_MESSAGE
    return PartitionData(asked.partition, error, found.high_watermark, records=data), next_offset


def _got_nothing(found: PartitionData, position: int) -> bool:
    return found.error_code == ErrorCode.NONE and not found.records and position < found.high_watermark


def _in_turn(asked: Iterable[Partition], first: Partition | None) -> list[Partition]:
    """The one that got nothing comes first: before v3 nobody expects a limit for all of them together, nor that only
    the first one gets a batch that is larger than its own."""
    names = list(asked)
    if first not in names:
        return names
    at = names.index(first)
    return names[at:] + names[:at]


def _topics(partitions: Iterable[tuple[Partition, FetchPartition]]) -> tuple[FetchTopic, ...]:
    topics: dict[str, list[FetchPartition]] = {}
    for (topic, _), partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return tuple(FetchTopic(topic, partitions=tuple(each)) for topic, each in topics.items())


def _cost(message: FetchRequest | FetchResponse) -> int:
    if isinstance(message, FetchRequest):
        return 0
    return sum(cost(each.records) for topic in message.responses for each in topic.partitions)


TRANSLATION = Translation(API, 0, 3, 10, exchange, _cost)
