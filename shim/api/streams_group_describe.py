"""StreamsGroupDescribe (key 89, KIP-1071): of groups that the shim serves none is of that protocol.

So a broker says of a classic group; tools then ask with DescribeGroups.
"""

from __future__ import annotations

from protocol.errors import ErrorCode
from protocol.messages.streams_group_describe import (
    API,
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from shim.api.call import Call, Services
from shim.api.many_groups import ask_each_at_once
from shim.coordinator import ReadablePartition

VERSIONS = (0, 0)

_Call = Call[StreamsGroupDescribeRequest, StreamsGroupDescribeResponse]


def handle(services: Services, call: _Call) -> None:
    ask_each_at_once(
        services,
        call.request.group_ids,
        _described,
        failed,
        lambda groups: call.answer(StreamsGroupDescribeResponse(0, tuple(groups))),
    )


def _described(group_id: str, _: ReadablePartition) -> DescribedGroup:
    if not group_id:
        return failed(group_id, ErrorCode.INVALID_GROUP_ID)
    return DescribedGroup(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a streams group.", group_id)


def failure(call: _Call, error: ErrorCode) -> StreamsGroupDescribeResponse:
    return StreamsGroupDescribeResponse(0, tuple(failed(group_id, error) for group_id in call.request.group_ids))


def failed(group_id: str, error: ErrorCode) -> DescribedGroup:
    return DescribedGroup(error, group_id=group_id)


__all__ = ["API", "VERSIONS", "failure", "handle"]
