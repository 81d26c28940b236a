"""DeleteGroups (key 42), served. Each group is deleted by itself, and answered when its tombstones are durable."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from protocol.errors import ErrorCode
from protocol.messages.delete_groups import API, DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from shim.api.call import Call, Gather, Services
from shim.coordinator import Asker, Caller, GroupCoordinator, Outcome

VERSIONS = (0, 2)


def handle(services: Services, call: Call[DeleteGroupsRequest, DeleteGroupsResponse]) -> None:
    groups, caller = _groups(call), call.caller
    gather = Gather(len(groups), lambda answers: call.answer(_response(answers)))
    for position, group_id in enumerate(groups):
        services.runtime.submit(
            services.runtime.partition_of(group_id),
            call.at_its_step(group_id, partial(_delete, group_id, caller)),
            gather.part(position, partial(DeletableGroupResult, group_id)),
        )


def failure(call: Call[DeleteGroupsRequest, DeleteGroupsResponse], error: ErrorCode) -> DeleteGroupsResponse:
    return _response([DeletableGroupResult(group_id, error) for group_id in _groups(call)])


def codes(response: DeleteGroupsResponse) -> Iterable[int]:
    return [each.error_code for each in response.results]


def _groups(call: Call[DeleteGroupsRequest, DeleteGroupsResponse]) -> list[str]:
    """Each once, however often it is named, as a broker has it."""
    return list(dict.fromkeys(call.request.groups_names))


def _delete(group_id: str, caller: Caller, coordinator: GroupCoordinator, now: int, ticket: Asker) -> Outcome:
    return coordinator.delete_group(now, caller, group_id, ticket)


def _response(results: list[DeletableGroupResult]) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(throttle_time_ms=0, results=tuple(results))


__all__ = ["API", "VERSIONS", "codes", "failure", "handle"]
