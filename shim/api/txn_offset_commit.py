"""TxnOffsetCommit (key 28): checked by the shim's coordinator, and then sent on to the group's real one.

That one is the broker behind this port, as FindCoordinator names it. It is asked as this client, with no member, so
that the offsets stand in the cluster's transaction. The client is answered when they have been read there and are
durable here, too: docs/decisions/0007. v6 names topics by id only.

Producers before 2.0 take COORDINATOR_LOAD_IN_PROGRESS for the end (KAFKA-7296). As a broker does, v0 and v1 are told
COORDINATOR_NOT_AVAILABLE in its place, at which they look for the coordinator and ask again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine, Sequence
from typing import Any, Final

from protocol.api import Api
from protocol.errors import ErrorCode
from protocol.messages import txn_offset_commit
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from protocol.own.position import Position
from shim.api.call import SIZE_FIELD, Call, Services
from shim.api.counting import of_partitions as codes
from shim.api.waiting import while_requests_are_paused
from shim.coordinator import Asker, GroupCoordinator, Outcome

VERSIONS = (0, 5)

_KNOWS_LOADING_FROM = 2


class _Told(Api[TxnOffsetCommitRequest, TxnOffsetCommitResponse]):
    """The API, with responses as clients of the version take them, whoever has said no."""

    def response_frame(self, version: int, correlation_id: int, msg: TxnOffsetCommitResponse) -> bytes:
        if version < _KNOWS_LOADING_FROM:
            msg = msg._replace(topics=tuple(map(_not_loading, msg.topics)))
        return super().response_frame(version, correlation_id, msg)


def _not_loading(topic: TxnOffsetCommitResponseTopic) -> TxnOffsetCommitResponseTopic:
    return topic._replace(
        partitions=tuple(
            partition._replace(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
            if partition.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            else partition
            for partition in topic.partitions
        )
    )


API: Final = _Told(
    key=txn_offset_commit.API.key,
    name=txn_offset_commit.API.name,
    request=TxnOffsetCommitRequest,
    response=TxnOffsetCommitResponse,
    versions=txn_offset_commit.API.versions,
    flexible_since=txn_offset_commit.API.flexible_since,
)

_Call = Call[TxnOffsetCommitRequest, TxnOffsetCommitResponse]


def handle(services: Services, call: _Call) -> Coroutine[Any, Any, None] | None:
    blocked = services.topics.blocked(topic.name for topic in call.request.topics)
    if blocked or _was_given_up(services, call):
        return _begin_when_certain(services, call, blocked)
    return _begin(services, call)


@while_requests_are_paused
async def _begin_when_certain(services: Services, call: _Call, blocked: list[str]) -> Coroutine[Any, Any, None] | None:
    """What is committed for a topic of which another one was made must not be deleted with the old one's offsets; and
    an earlier commit's batch must not be taken for this one's.
    """
    await services.topics.certain(blocked)
    if not _was_given_up(services, call):
        return _begin(services, call)
    error = services.transactions.ready(call.request.group_id)
    not_before = None
    if error is ErrorCode.NONE:
        not_before = await services.transactions.end_of(call.request.group_id)
    if not_before is None:
        call.fail(error or ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return None
    await services.topics.certain(services.topics.blocked(topic.name for topic in call.request.topics))  # by now
    return _begin(services, call, not_before)


def _was_given_up(services: Services, call: _Call) -> bool:
    group_id = call.request.group_id
    coordinator = services.runtime.coordinator_of(group_id)
    return coordinator is not None and coordinator.was_given_up(call.request.producer_id, group_id)


def _begin(services: Services, call: _Call, not_before: Position | None = None) -> Coroutine[Any, Any, None] | None:
    group_id = call.request.group_id
    if group_id and (error := services.transactions.ready(group_id)) is not ErrorCode.NONE:
        call.fail(error)
        return None
    sent_on = _check(services, call, not_before)
    return _follow_up(services, call, call.ask_broker(request=sent_on)) if sent_on is not None else None


def _check(services: Services, call: _Call, not_before: Position | None) -> TxnOffsetCommitRequest | None:
    """Gives what is to be sent on; the coordinator answers when all is known, or it takes too long. Otherwise it is
    answered."""
    sent_on: TxnOffsetCommitRequest | None = None

    def operation(coordinator: GroupCoordinator, now: int, asker: Asker) -> Outcome:
        nonlocal sent_on
        outcome, sent_on = coordinator.txn_offset_commit(now, call.caller, call.request, asker, not_before)
        return outcome

    group_id = call.request.group_id
    services.runtime.submit(services.runtime.partition_of(group_id), call.at_its_step(group_id, operation), call)
    return sent_on


async def _follow_up(services: Services, call: _Call, asked: Awaitable[bytes]) -> None:
    """Have the coordinator told what the broker says."""
    number = services.runtime.partition_of(call.request.group_id)
    try:
        _, answer = API.parse_response(call.version, await asked, SIZE_FIELD)
    except BaseException:  # the client or the broker has gone: nobody knows what became of it
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        services.runtime.decide(
            number, lambda coordinator, now: coordinator.txn_offset_commit_given_up(now, call, error)
        )
        raise
    errors = [(t.name, p.partition_index, p.error_code) for t in answer.topics for p in t.partitions]
    services.runtime.decide(number, lambda coordinator, now: coordinator.txn_offset_commit_told(now, call, errors))


def failure(call: _Call, error: ErrorCode) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(throttle_time_ms=0, topics=all_refused(call.request.topics, error))


def all_refused(
    topics: Sequence[TxnOffsetCommitRequestTopic], error: ErrorCode
) -> tuple[TxnOffsetCommitResponseTopic, ...]:
    return tuple(
        TxnOffsetCommitResponseTopic(
            topic.name, tuple(TxnOffsetCommitResponsePartition(p.partition_index, error) for p in topic.partitions)
        )
        for topic in topics
    )


__all__ = ["API", "VERSIONS", "codes", "failure", "handle"]
