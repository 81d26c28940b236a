"""FindCoordinator (key 10): the cluster is asked, as this client, and its answer given at the shim's ports.

So one connection of the client leads both to the shim and to the group's real coordinator. Where the cluster cannot
say (its offsets topic is not there yet, or the coordinator is down), a group gets a stable choice among the brokers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine, Iterable
from typing import Any

from protocol.errors import ErrorCode
from protocol.messages.find_coordinator import API, Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from shim.api.call import SIZE_FIELD, Call, Services
from shim.config import HostPort

VERSIONS = (0, 6)

GROUP = 0
FIRST_OF_MANY = 4
NOT_THERE = ErrorCode.COORDINATOR_NOT_AVAILABLE
# The cluster's own coordinator may be down or its offsets topic not made yet: a group of the shim's needs neither.
CANNOT_SAY = frozenset({NOT_THERE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.INVALID_REPLICATION_FACTOR})

_Call = Call[FindCoordinatorRequest, FindCoordinatorResponse]


def handle(services: Services, call: _Call) -> Coroutine[Any, Any, None]:
    return _ask(services, call, call.ask_broker())


async def _ask(services: Services, call: _Call, asked: Awaitable[bytes]) -> None:
    _, answer = API.parse_response(call.version, await asked, SIZE_FIELD)
    found = answer.coordinators if call.version >= FIRST_OF_MANY else (_of_one(call, answer),)
    await services.cluster.hear(
        {c.node_id: HostPort(c.host, c.port) for c in found if c.error_code == ErrorCode.NONE},
        whole=False,
    )
    told = tuple(_told(services, call, coordinator) for coordinator in found)
    if call.version >= FIRST_OF_MANY:
        call.answer(answer._replace(coordinators=told))
    else:
        (one,) = told
        call.answer(
            answer._replace(
                error_code=one.error_code,
                error_message=one.error_message,
                node_id=one.node_id,
                host=one.host,
                port=one.port,
            )
        )


def failure(call: _Call, error: ErrorCode) -> FindCoordinatorResponse:
    if call.version < FIRST_OF_MANY:
        return FindCoordinatorResponse(error_code=error, node_id=-1, port=-1)
    return FindCoordinatorResponse(
        coordinators=tuple(Coordinator(key, -1, "", -1, error) for key in call.request.coordinator_keys)
    )


def codes(response: FindCoordinatorResponse) -> Iterable[int]:
    return (response.error_code, *(each.error_code for each in response.coordinators))


def _of_one(call: _Call, answer: FindCoordinatorResponse) -> Coordinator:
    return Coordinator(
        call.request.key, answer.node_id, answer.host, answer.port, answer.error_code, answer.error_message
    )


def _told(services: Services, call: _Call, found: Coordinator) -> Coordinator:
    """What the client is told: a broker that the shim's own look-up names too, at the shim's port."""
    brokers = services.brokers
    node_id = found.node_id
    is_group = call.request.key_type == GROUP
    if found.error_code == ErrorCode.NONE and node_id not in brokers:
        found = found._replace(error_code=NOT_THERE, error_message=NOT_THERE.message)
    if found.error_code != ErrorCode.NONE:
        if found.error_code not in CANNOT_SAY or not is_group or not brokers:
            return found._replace(node_id=-1, host="", port=-1)
        node_id = services.ports.home_of(services.runtime.partition_of(found.key), brokers)
    if not is_group:
        return _at(found, node_id, services.ports.of(node_id))
    partition = services.runtime.partition_of(found.key)
    address = services.ports.coordinator_of(partition, node_id, call.connection)
    if address is None:
        return found._replace(
            node_id=-1, host="", port=-1, error_code=NOT_THERE, error_message="it has moved: ask again"
        )
    return _at(found, node_id, address)


def _at(found: Coordinator, node_id: int, address: HostPort) -> Coordinator:
    host, port = address
    return found._replace(node_id=node_id, host=host, port=port, error_code=ErrorCode.NONE, error_message=None)


__all__ = ["API", "VERSIONS", "codes", "failure", "handle"]
