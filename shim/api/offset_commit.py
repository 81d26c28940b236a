"""OffsetCommit (key 8), served: answered once every offset of the request is durable.

Partitions that do not exist are refused first, as a broker does, and the coordinator decides on the others.
v0, which meant ZooKeeper to brokers, and v1 are what clients of 0.8 send; v10 names topics by id only.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any

from protocol.commit_rows import API, AllCommitted
from protocol.errors import ErrorCode
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol.own.conditional_commit import NOT_ATTEMPTED, is_conditional
from shim.api.call import Call, Part, Services
from shim.api.counting import of_partitions as codes
from shim.api.known_topics import are_known, merged, split
from shim.api.waiting import while_requests_are_paused
from shim.coordinator import GroupCoordinator

VERSIONS = (0, 9)


_Call = Call[OffsetCommitRequest, OffsetCommitResponse | AllCommitted]


def handle(services: Services, call: _Call) -> Coroutine[Any, Any, None] | None:
    if are_known(services.topics, call.request.topics):
        call.decide(services, call.request.group_id, GroupCoordinator.offset_commit)
        return None
    return _decide_existing(services, call)


@while_requests_are_paused
async def _decide_existing(services: Services, call: _Call) -> None:
    existing, missing = await split(services.topics, call.request.topics)
    refused = all_refused(missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if missing and is_conditional(call.request):  # all of it, or nothing
        refused, existing = merged(refused, all_refused(existing, NOT_ATTEMPTED)), []
    if refused and not existing:
        call.answer(OffsetCommitResponse(topics=refused))
    else:
        _decide(services, call, tuple(existing), refused)


def _decide(
    services: Services,
    call: _Call,
    existing: tuple[OffsetCommitRequestTopic, ...],
    refused: tuple[OffsetCommitResponseTopic, ...],
) -> None:
    request, caller, version = call.request._replace(topics=existing), call.caller, call.version
    services.runtime.submit(
        services.runtime.partition_of(request.group_id),
        call.at_its_step(
            request.group_id,
            lambda coordinator, now, asker: coordinator.offset_commit(now, caller, version, request, asker),
        ),
        Part(
            lambda response: call.answer(_with(refused, response)),
            lambda error: OffsetCommitResponse(topics=all_refused(existing, error)),
        ),
    )


def _with(
    refused: tuple[OffsetCommitResponseTopic, ...], response: OffsetCommitResponse | AllCommitted
) -> OffsetCommitResponse:
    decided = response.response() if isinstance(response, AllCommitted) else response
    return decided._replace(topics=merged(refused, decided.topics))


def failure(call: _Call, error: ErrorCode) -> OffsetCommitResponse:
    return OffsetCommitResponse(topics=all_refused(call.request.topics, error))


def all_refused(topics: Sequence[OffsetCommitRequestTopic], error: ErrorCode) -> tuple[OffsetCommitResponseTopic, ...]:
    return tuple(
        OffsetCommitResponseTopic(
            name=topic.name,
            partitions=tuple(OffsetCommitResponsePartition(p.partition_index, error) for p in topic.partitions),
        )
        for topic in topics
    )


__all__ = ["API", "VERSIONS", "codes", "failure", "handle"]
