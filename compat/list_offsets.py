"""ListOffsets v0: a list of offsets a partition, from the newest down (v1 gives one: KIP-79).

The offsets of v0 were where log segments began, with their file's time, which no version tells any more. For the end
(-1) the list is the log's end and, where more than one offset is wanted, its start, as of a log of one segment; for the
start (-2) that alone. For a time it is the first offset whose record is not older, or the end where all are, and the
start; 3.9 names the beginning of the last segment that is older, and none where there is no such.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from compat.translation import Context, Exchange, Translation
from protocol.errors import ErrorCode
from protocol.messages.list_offsets import (
    API,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from protocol.topic_partition import Partition

LATEST = -1
EARLIEST = -2
_NONE = -1


def exchange(_: int, request: ListOffsetsRequest, __: Context) -> Exchange:
    wanted = [(topic.name, each) for topic in request.topics for each in topic.partitions]
    # Newer versions take each partition once: the second question about one goes into a second request.
    rounds: list[dict[Partition, int]] = []
    places: list[int] = []
    for name, each in wanted:
        key = name, each.partition_index
        place = next((number for number, asked in enumerate(rounds) if key not in asked), len(rounds))
        if place == len(rounds):
            rounds.append({})
        rounds[place][key] = each.timestamp
        places.append(place)
    everything = dict.fromkeys(((name, each.partition_index) for name, each in wanted))
    requests = [
        *(_asked(request, asked) for asked in rounds),
        *(_asked(request, dict.fromkeys(everything, timestamp)) for timestamp in (EARLIEST, LATEST)),
    ]
    responses = yield requests
    *found, starts, ends = map(_by_partition, responses)
    topics: dict[str, list[ListOffsetsPartitionResponse]] = {}
    for (name, each), place in zip(wanted, places, strict=True):
        key = name, each.partition_index
        listed = _list(each, [answers.get(key) for answers in (found[place], starts, ends)])
        topics.setdefault(name, []).append(listed)
    return ListOffsetsResponse(
        topics=tuple(ListOffsetsTopicResponse(name, tuple(each)) for name, each in topics.items())
    )


def _asked(request: ListOffsetsRequest, timestamps: Mapping[Partition, int]) -> ListOffsetsRequest:
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for (name, index), timestamp in timestamps.items():
        topics.setdefault(name, []).append(ListOffsetsPartition(index, timestamp=timestamp))
    return request._replace(topics=tuple(ListOffsetsTopic(name, tuple(each)) for name, each in topics.items()))


def _by_partition(response: ListOffsetsResponse) -> dict[Partition, ListOffsetsPartitionResponse]:
    return {(topic.name, each.partition_index): each for topic in response.topics for each in topic.partitions}


def _list(
    wanted: ListOffsetsPartition, answers: Sequence[ListOffsetsPartitionResponse | None]
) -> ListOffsetsPartitionResponse:
    """From what there is for the time asked, the start and the end."""
    error: int = ErrorCode.NONE
    offsets: list[int] = []
    for answer in answers:
        error = error or (ErrorCode.UNKNOWN_SERVER_ERROR if answer is None else answer.error_code)
        offsets.append(_NONE if answer is None else answer.offset)
    found, start, end = offsets
    if found == _NONE:
        found = end
    listed = tuple(dict.fromkeys((found, start)))[: max(0, wanted.max_num_offsets)]
    return ListOffsetsPartitionResponse(wanted.partition_index, error, () if error else listed)


TRANSLATION = Translation(API, 0, 0, 1, exchange)
