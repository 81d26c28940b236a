"""TxnOffsetCommit (key 28): checked by the shim's coordinator, and then sent on to the group's real one.

That one is the broker behind this port, as FindCoordinator names it. It is asked as this client, with no member, so
that the offsets stand in the cluster's transaction. The client is answered when they have been read there and are
durable here, too: docs/decisions/0007. v6 names topics by id only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any

from protocol.errors import ErrorCode
from protocol.messages.txn_offset_commit import (
    API,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from protocol.own.position import Position
from shim.api.call import SIZE_FIELD, Call, Services
from shim.coordinator import Asker, GroupCoordinator, Outcome
from shim.following import TopicInDoubt

VERSIONS = (0, 5)

_Call = Call[TxnOffsetCommitRequest, TxnOffsetCommitResponse]


def handle(services: Services, call: _Call) -> Coroutine[Any, Any, None] | None:
    doubtful = services.topics.in_doubt(topic.name for topic in call.request.topics)
    if not doubtful and not _was_given_up(services, call):
        return _begin(services, call)
    call.connection.hold()
    return _begin_when_certain(services, call, doubtful)


async def _begin_when_certain(services: Services, call: _Call, doubtful: list[str]) -> None:
    """What is committed for a topic of which another one was made must not be deleted with the old one's offsets; and
    an earlier commit's batch must not be taken for this one's.
    """
    follow_up = None
    try:
        await services.topics.certain(doubtful)
        not_before = None
        if _was_given_up(services, call):
            error = services.following.ready(call.request.group_id)
            if error is ErrorCode.NONE:
                not_before = await services.following.end_of(call.request.group_id)
            if not_before is None:
                call.fail(error or ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
                return
        follow_up = _begin(services, call, not_before)
    except TopicInDoubt:
        call.fail(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return
    finally:
        call.connection.go_on()
    if follow_up is not None:
        await follow_up


def _was_given_up(services: Services, call: _Call) -> bool:
    group_id = call.request.group_id
    coordinator = services.runtime.coordinator(services.runtime.partition_of(group_id))
    return coordinator is not None and coordinator.was_given_up(call.request.producer_id, group_id)


def _begin(services: Services, call: _Call, not_before: Position | None = None) -> Coroutine[Any, Any, None] | None:
    group_id = call.request.group_id
    if group_id and (error := services.following.ready(group_id)) is not ErrorCode.NONE:
        call.fail(error)
        return None
    commit = _Commit(services, call)
    sent_on = commit.check(not_before)
    return commit.follow_up(call.ask_broker(request=sent_on)) if sent_on is not None else None


def failure(call: _Call, error: ErrorCode) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        throttle_time_ms=0,
        topics=tuple(
            TxnOffsetCommitResponseTopic(
                topic.name, tuple(TxnOffsetCommitResponsePartition(p.partition_index, error) for p in topic.partitions)
            )
            for topic in call.request.topics
        ),
    )


class _Commit:
    """One that is on its way: the ticket of the coordinator, which answers it when all is known."""

    def __init__(self, services: Services, call: _Call) -> None:
        self._services = services
        self._call = call
        self._number = services.runtime.partition_of(call.request.group_id)
        self._timer: asyncio.TimerHandle | None = None
        self._over = False

    def check(self, not_before: Position | None) -> TxnOffsetCommitRequest | None:
        """Gives what is to be sent on. Otherwise it is, or will be, answered."""
        sent_on: TxnOffsetCommitRequest | None = None

        def operation(coordinator: GroupCoordinator, now: int, ticket: Asker) -> Outcome:
            nonlocal sent_on
            outcome, sent_on = coordinator.txn_offset_commit(
                now, self._call.caller, self._call.request, ticket, not_before
            )
            return outcome

        self._services.runtime.submit(self._number, operation, self)
        if sent_on is not None:
            # Whatever becomes of the client, and of the broker: its partitions are not unstable for ever.
            self._time_out_after(2 * self._services.following.timeout_seconds)
        return sent_on

    async def follow_up(self, asked: Awaitable[bytes]) -> None:
        try:
            _, answer = API.parse_response(self._call.version, await asked, SIZE_FIELD)
        except BaseException:  # the client or the broker has gone: nobody knows what became of it
            self._give_up()
            raise
        errors = [(t.name, p.partition_index, p.error_code) for t in answer.topics for p in t.partitions]
        self._services.runtime.decide(
            self._number, lambda coordinator, now: coordinator.txn_offset_commit_told(now, self, errors)
        )
        if not self._over:
            self._time_out_after(self._services.following.timeout_seconds)

    def _time_out_after(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._time_out)

    def _time_out(self) -> None:
        self._services.following.doubt()
        self._give_up()

    def _give_up(self) -> None:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        self._services.runtime.decide(
            self._number, lambda coordinator, now: coordinator.txn_offset_commit_given_up(now, self, error)
        )

    # The ticket.

    def answer(self, response: TxnOffsetCommitResponse) -> None:
        self._end()
        self._call.answer(response)

    def fail(self, error: ErrorCode) -> None:
        self._end()
        self._call.fail(error)

    def _end(self) -> None:
        self._over = True
        if self._timer is not None:
            self._timer.cancel()


__all__ = ["API", "VERSIONS", "failure", "handle"]
