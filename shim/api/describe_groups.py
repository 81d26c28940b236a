"""DescribeGroups (key 15), served.

What a principal may do with a group (``include_authorized_operations``, KIP-430) is known to the cluster alone: the
broker is asked, as this client. It says so where it is the group's real coordinator, as FindCoordinator has led the
client to it; where it is not, the operations are not given, as if nobody had asked for them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Final

from protocol.errors import ErrorCode
from protocol.messages.describe_groups import API, DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from shim.api.call import SIZE_FIELD, Call, Services
from shim.api.counting import of_groups as codes
from shim.api.descriptions import Describes
from shim.api.many_groups import Question, ask_each, ask_each_at_once
from shim.api.waiting import while_requests_are_paused
from shim.coordinator import GroupCoordinator

VERSIONS = (0, 6)

FIRST_WITH_OPERATIONS = 3
# From v6 on a broker gives none for a group that it does not know, and it knows none of the shim's.
LAST_OF_UNKNOWN = 5

# What a member takes in a response, beside its strings and bytes.
_MEMBER_BYTES = 15

_Call = Call[DescribeGroupsRequest, DescribeGroupsResponse]


def handle(services: Services, call: _Call) -> Coroutine[Any, Any, None] | None:
    if call.version >= FIRST_WITH_OPERATIONS and call.request.include_authorized_operations:
        version = min(call.version, LAST_OF_UNKNOWN)
        return _with_operations(services, call, version, call.ask_broker(version))
    if len(call.request.groups) > 1:
        return _describe_many(services, call)
    _describe_one(services, call)
    return None


@while_requests_are_paused
async def _describe_many(services: Services, call: _Call) -> None:
    await _describe_all(services, call, lambda group: group)


async def _with_operations(services: Services, call: _Call, version: int, asked: Awaitable[bytes]) -> None:
    _, answer = API.parse_response(version, await asked, SIZE_FIELD)
    operations = {group.group_id: group.authorized_operations for group in answer.groups}
    await _describe_all(services, call, partial(_authorized, operations))


def _authorized(operations: Mapping[str, int], group: DescribedGroup) -> DescribedGroup:
    if group.error_code != ErrorCode.NONE or group.group_id not in operations:
        return group
    return group._replace(authorized_operations=operations[group.group_id])


async def _describe_all(services: Services, call: _Call, finish: Callable[[DescribedGroup], DescribedGroup]) -> None:
    questions = [
        Question(group_id, group_id, partial(_describe, group_id, call.version), partial(failed, group_id))
        for group_id in call.request.groups
    ]
    await ask_each(
        services,
        questions,
        _size,
        lambda answers: call.answer(response(tuple(map(finish, answers)))),
    )


def _describe_one(services: Services, call: _Call) -> None:
    ask_each_at_once(
        services,
        call.request.groups,
        lambda group_id, coordinator: coordinator.describe_group(group_id, call.version),
        failed,
        lambda answers: call.answer(response(tuple(answers))),
    )


def _size(group: DescribedGroup) -> int:
    return sum(
        _MEMBER_BYTES
        + len(member.member_id)
        + len(member.group_instance_id or "")
        + len(member.client_id)
        + len(member.client_host)
        + len(member.member_metadata)
        + len(member.member_assignment)
        for member in group.members
    )


def failure(call: _Call, error: ErrorCode) -> DescribeGroupsResponse:
    return response(tuple(failed(group_id, error) for group_id in call.request.groups))


def _describe(group_id: str, version: int, coordinator: GroupCoordinator) -> DescribedGroup:
    return coordinator.describe_group(group_id, version)


def response(groups: tuple[DescribedGroup, ...]) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(groups=groups)


def failed(group_id: str, error: ErrorCode) -> DescribedGroup:
    return DescribedGroup(error_code=error, group_id=group_id)


DESCRIBES: Final = Describes("groups", failed, response)


__all__ = ["API", "DESCRIBES", "VERSIONS", "codes", "failure", "handle"]
