"""ListOffsets v0: a list of offsets a partition, from the newest down (v1 gives one: KIP-79).

The offsets of v0 were where log segments began, with their file's time, which no version tells any more. For the end
(-1) the list is the log's end and, where more than one offset is wanted, its start, as of a log of one segment; for the
start (-2) that alone. For a time it is the first offset whose record is not older, or the end where all are, and the
start; 3.9 names the beginning of the last segment that is older, and none where there is no such.
"""

from __future__ import annotations

from collections.abc import Sequence

from compat.translation import Context, Exchange, Translation
from protocol.errors import ErrorCode
from protocol.messages.list_offsets import (
    API,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

LATEST = -1
EARLIEST = -2
_NONE = -1


def exchange(_: int, request: ListOffsetsRequest, __: Context) -> Exchange:
    asked = request._replace(
        topics=tuple(
            topic._replace(partitions=tuple(each._replace(max_num_offsets=1) for each in topic.partitions))
            for topic in request.topics
        )
    )
    answers = yield (asked, _of_all(asked, EARLIEST), _of_all(asked, LATEST))
    return _listed(request, *answers)


def _of_all(request: ListOffsetsRequest, timestamp: int) -> ListOffsetsRequest:
    return request._replace(
        topics=tuple(
            topic._replace(partitions=tuple(each._replace(timestamp=timestamp) for each in topic.partitions))
            for topic in request.topics
        )
    )


def _listed(
    request: ListOffsetsRequest, found: ListOffsetsResponse, starts: ListOffsetsResponse, ends: ListOffsetsResponse
) -> ListOffsetsResponse:
    answers = [_by_partition(response) for response in (found, starts, ends)]
    return ListOffsetsResponse(
        topics=tuple(
            ListOffsetsTopicResponse(
                topic.name,
                tuple(
                    _list(each, [answer.get((topic.name, each.partition_index)) for answer in answers])
                    for each in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


def _by_partition(response: ListOffsetsResponse) -> dict[tuple[str, int], ListOffsetsPartitionResponse]:
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
