"""DescribeGroups (key 15), served.

``include_authorized_operations`` is not answered yet: what a principal may do is known to the cluster alone.
"""

from __future__ import annotations

from functools import partial

from protocol.errors import ErrorCode
from protocol.messages.describe_groups import API, DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from shim.api.call import Call, Gather, Services
from shim.coordinator import GroupCoordinator

VERSIONS = (0, 6)


def handle(services: Services, call: Call[DescribeGroupsRequest, DescribeGroupsResponse]) -> None:
    groups = call.request.groups
    gather = Gather(len(groups), lambda answers: call.answer(DescribeGroupsResponse(groups=tuple(answers))))
    for position, group_id in enumerate(groups):
        services.runtime.ask(
            services.runtime.partition_of(group_id),
            partial(_describe, group_id, call.version),
            gather.part(position, partial(_failed, group_id)),
        )


def failure(call: Call[DescribeGroupsRequest, DescribeGroupsResponse], error: ErrorCode) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(groups=tuple(_failed(group_id, error) for group_id in call.request.groups))


def _describe(group_id: str, version: int, coordinator: GroupCoordinator) -> DescribedGroup:
    return coordinator.describe_group(group_id, version)


def _failed(group_id: str, error: ErrorCode) -> DescribedGroup:
    return DescribedGroup(error_code=error, group_id=group_id)


__all__ = ["API", "VERSIONS", "failure", "handle"]
