"""ListGroups (key 16), served.

Tools ask every broker and put the answers together, so each group shows on exactly one broker's port. The bootstrap
port, which is no broker, shows all that the shim has.
"""

from __future__ import annotations

from collections.abc import Sequence

from protocol.errors import ErrorCode
from protocol.messages.list_groups import API, ListedGroup, ListGroupsRequest, ListGroupsResponse
from shim.api.call import Call, Gather, Services
from shim.api.counting import of_response as codes
from shim.coordinator import ReadablePartition

VERSIONS = (0, 5)


def handle(services: Services, call: Call[ListGroupsRequest, ListGroupsResponse]) -> None:
    partitions = shown_at(services, call.connection.node_id)
    gather = Gather(len(partitions), lambda answers: call.answer(response(answers)))
    for position, partition in enumerate(partitions):
        services.runtime.ask(
            partition,
            lambda coordinator: listed(call.request, coordinator),
            gather.part(position, lambda error: error),
        )


def failure(call: Call[ListGroupsRequest, ListGroupsResponse], error: ErrorCode) -> ListGroupsResponse:
    return ListGroupsResponse(error_code=error)


def _owned(services: Services) -> Sequence[int]:
    owned = services.runtime.owned
    return range(services.runtime.num_partitions) if owned is None else owned


def shown_at(services: Services, node_id: int | None) -> list[int]:
    brokers = services.brokers
    shows_own_alone = node_id is None or services.others
    return [
        partition
        for partition in (_owned(services) if shows_own_alone else range(services.runtime.num_partitions))
        if node_id is None or (brokers and services.ports.home_of(partition, brokers) == node_id)
    ]


def listed(request: ListGroupsRequest, coordinator: ReadablePartition) -> Sequence[ListedGroup]:
    return coordinator.list_groups(request.states_filter, request.types_filter)


def response(answers: Sequence[ErrorCode | Sequence[ListedGroup]]) -> ListGroupsResponse:
    """All the groups there are to show, or the error of a partition that cannot tell: never a part of the list."""
    groups: list[ListedGroup] = []
    for answer in answers:
        if isinstance(answer, ErrorCode):
            # Java's AdminClient repeats COORDINATOR_NOT_AVAILABLE, but not NOT_COORDINATOR, to which it has no answer.
            moved = answer == ErrorCode.NOT_COORDINATOR
            return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE if moved else answer)
        groups += answer
    return ListGroupsResponse(groups=tuple(groups))


__all__ = ["API", "VERSIONS", "codes", "failure", "handle"]
