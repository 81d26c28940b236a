"""Fetch v0-3: record batches become message sets, magic 0 up to v1, magic 1 in v2 and v3 (v10: KIP-110).

As from a 3.9 broker, records of transactions are there whether these were committed, aborted or neither: clients of
these versions know no isolation level. Where nothing is left of what was fetched (the markers of transactions alone),
an old client gets nothing and stays where it is; the connection's context then leads its next request past it.

v10 is the oldest that may be answered with zstd, and gives the first batch whole even if it is larger than was asked
for (KIP-74): an old client gets as many of its messages as it has asked bytes for, where 3.9 gives none.
"""

from __future__ import annotations

from collections.abc import Iterable
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

MAX_FETCH_BYTES: Final = 16 << 20
"""Of records that are fetched and converted at once, whatever was asked for, unless one batch alone has more."""
_MAX_SKIPPED: Final = 10_000
_FIRST_WITH_TIMESTAMPS: Final = 2
_FIRST_WITH_WHOLE_MESSAGES: Final = 3

_Partition = tuple[str, int]


def exchange(version: int, request: FetchRequest, context: Context) -> Exchange:
    asked = {(topic.topic, each.partition): each for topic in request.topics for each in topic.partitions}
    positions = {name: _position(context, name, each.fetch_offset) for name, each in asked.items()}
    in_turn = _in_turn(asked, context.first)
    (response,) = yield (
        request._replace(
            max_bytes=min(request.max_bytes, MAX_FETCH_BYTES),
            topics=_topics((name, asked[name]._replace(fetch_offset=positions[name])) for name in in_turn),
        ),
    )
    found = {(topic.topic, each.partition_index): each for topic in response.responses for each in topic.partitions}
    context.first = next(
        (name for name in in_turn if name in found and _got_nothing(found[name], positions[name])), None
    )
    converted: dict[_Partition, PartitionData] = {}
    for name in asked:
        if name in found:
            converted[name] = _converted(version, context, name, asked[name], positions[name], found[name])
    return FetchResponse(
        response.throttle_time_ms,
        responses=tuple(
            FetchableTopicResponse(
                topic.topic,
                partitions=tuple(
                    converted.get((topic.topic, each.partition))
                    or PartitionData(each.partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, records=b"")
                    for each in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )


def _converted(
    version: int, context: Context, name: _Partition, asked: FetchPartition, position: int, found: PartitionData
) -> PartitionData:
    data, error = b"", found.error_code
    if error:
        context.skipped.pop(name, None)  # it may be another log when it is there again
    if error == ErrorCode.KAFKA_STORAGE_ERROR:
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER  # at this old clients ask for the leader, as 3.9 has it
    if found.records:
        magic = 1 if version >= _FIRST_WITH_TIMESTAMPS else 0
        whole = version >= _FIRST_WITH_WHOLE_MESSAGES
        try:
            data, next_offset = to_message_sets(found.records, magic, position, asked.partition_max_bytes, whole=whole)
        except BatchError:
            error = ErrorCode.CORRUPT_MESSAGE
        else:
            if not data and next_offset > position:
                _skip(context, name, asked.fetch_offset, next_offset)
    return PartitionData(asked.partition, error, found.high_watermark, records=data)


def _position(context: Context, name: _Partition, offset: int) -> int:
    fetched_from, next_offset = context.skipped.get(name, (None, offset))
    return next_offset if fetched_from == offset else offset


def _skip(context: Context, name: _Partition, offset: int, next_offset: int) -> None:
    if len(context.skipped) >= _MAX_SKIPPED:
        context.skipped.clear()
    context.skipped[name] = (offset, next_offset)


def _got_nothing(found: PartitionData, position: int) -> bool:
    return found.error_code == ErrorCode.NONE and not found.records and position < found.high_watermark


def _in_turn(asked: Iterable[_Partition], first: _Partition | None) -> list[_Partition]:
    """The one that got nothing comes first: before v3 nobody expects a limit for all of them together, nor that only
    the first one gets a batch that is larger than its own."""
    names = list(asked)
    if first not in names:
        return names
    at = names.index(first)
    return names[at:] + names[:at]


def _topics(partitions: Iterable[tuple[_Partition, FetchPartition]]) -> tuple[FetchTopic, ...]:
    topics: dict[str, list[FetchPartition]] = {}
    for (topic, _), partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return tuple(FetchTopic(topic, partitions=tuple(each)) for topic, each in topics.items())


def _cost(message: FetchRequest | FetchResponse) -> int:
    if isinstance(message, FetchRequest):
        return 0
    return sum(cost(each.records) for topic in message.responses for each in topic.partitions)


TRANSLATION = Translation(API, 0, 3, 10, exchange, _cost)
