"""OffsetDelete (key 47), served: answered when the tombstones of all its offsets are durable.

Partitions that do not exist are refused first, as a broker does. Offsets that there still are for them stay, until they
go with their topic or expire.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Sequence
from typing import Any

from protocol.errors import ErrorCode
from protocol.messages.offset_delete import (
    API,
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from shim.api.call import Call, Part, Services
from shim.api.counting import of_partitions
from shim.api.known_topics import are_known, merged, split
from shim.api.waiting import while_requests_are_paused
from shim.coordinator import GroupCoordinator

VERSIONS = (0, 0)

_Call = Call[OffsetDeleteRequest, OffsetDeleteResponse]


def handle(services: Services, call: _Call) -> Coroutine[Any, Any, None] | None:
    if are_known(services.topics, call.request.topics):
        call.decide(services, call.request.group_id, GroupCoordinator.offset_delete)
        return None
    return _decide_existing(services, call)


@while_requests_are_paused
async def _decide_existing(services: Services, call: _Call) -> None:
    existing, missing = await split(services.topics, call.request.topics)
    _decide(services, call, tuple(existing), all_refused(missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))


def _decide(
    services: Services,
    call: _Call,
    existing: tuple[OffsetDeleteRequestTopic, ...],
    refused: tuple[OffsetDeleteResponseTopic, ...],
) -> None:
    request, caller, version = call.request._replace(topics=existing), call.caller, call.version

    def done(response: OffsetDeleteResponse) -> None:
        # With an error of the request nothing is said of its partitions.
        topics = () if response.error_code else merged(refused, response.topics)
        call.answer(response._replace(topics=topics))

    services.runtime.submit(
        services.runtime.partition_of(request.group_id),
        call.at_its_step(
            request.group_id,
            lambda coordinator, now, ticket: coordinator.offset_delete(now, caller, version, request, ticket),
        ),
        Part(done, lambda error: failure(call, error)),
    )


def failure(call: _Call, error: ErrorCode) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(error_code=error, throttle_time_ms=0, topics=())


def codes(response: OffsetDeleteResponse) -> Iterable[int]:
    return (response.error_code, *of_partitions(response))


def all_refused(topics: Sequence[OffsetDeleteRequestTopic], error: ErrorCode) -> tuple[OffsetDeleteResponseTopic, ...]:
    return tuple(
        OffsetDeleteResponseTopic(
            topic.name, tuple(OffsetDeleteResponsePartition(p.partition_index, error) for p in topic.partitions)
        )
        for topic in topics
    )


__all__ = ["API", "VERSIONS", "codes", "failure", "handle"]
