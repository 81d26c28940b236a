"""ListOffsets v0: a list of offsets a partition, from the newest down (v1 gives one: KIP-79).

The offsets of v0 were where log segments began, with their file's time, which no version tells any more. For the end
(-1) the list is the log's end and, where more than one offset is wanted, its start, as of a log of one segment; for the
start (-2) that alone. For a time it is the first offset whose record is not older, where 3.9 names the beginning of a
segment that is.
"""

from __future__ import annotations

from compat.translation import Context, Exchange, Translation
from protocol.errors import ErrorCode
from protocol.messages.list_offsets import (
    API,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
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
    found, starts = yield (asked, _of_all(asked, EARLIEST))
    return _listed(request, found, starts)


def _of_all(request: ListOffsetsRequest, timestamp: int) -> ListOffsetsRequest:
    return request._replace(
        topics=tuple(
            topic._replace(partitions=tuple(each._replace(timestamp=timestamp) for each in topic.partitions))
            for topic in request.topics
        )
    )


def _listed(
    request: ListOffsetsRequest, found: ListOffsetsResponse, starts: ListOffsetsResponse
) -> ListOffsetsResponse:
    wanted = {(topic.name, each.partition_index): each for topic in request.topics for each in topic.partitions}
    start_of = {(topic.name, each.partition_index): each for topic in starts.topics for each in topic.partitions}
    return ListOffsetsResponse(
        topics=tuple(
            topic._replace(
                partitions=tuple(
                    _list(wanted[topic.name, each.partition_index], each, start_of[topic.name, each.partition_index])
                    for each in topic.partitions
                )
            )
            for topic in found.topics
        )
    )


def _list(
    wanted: ListOffsetsPartition, found: ListOffsetsPartitionResponse, start: ListOffsetsPartitionResponse
) -> ListOffsetsPartitionResponse:
    error = found.error_code or start.error_code
    offsets: list[int] = []
    if error == ErrorCode.NONE:
        offsets = [offset for offset in dict.fromkeys((found.offset, start.offset)) if offset != _NONE]
    return ListOffsetsPartitionResponse(found.partition_index, error, tuple(offsets[: max(0, wanted.max_num_offsets)]))


TRANSLATION = Translation(API, 0, 0, 1, exchange)
