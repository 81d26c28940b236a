"""OffsetFetch (key 9), served. The coordinator answers one group at a time; v8 and newer ask for many (KIP-709).

v0 meant ZooKeeper; v10 names topics by id only.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable
from functools import partial
from typing import Any

from protocol.errors import ErrorCode
from protocol.messages import offset_fetch
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from protocol.repeated import Repeated
from shim.api.call import Call, Gather, Services
from shim.runtime import Ticket
from shim.upstream import TopicInDoubt

API = Repeated(offset_fetch.API)
VERSIONS = (1, 9)

# From here on the request and the response hold many groups, and an error of a group stands beside it.
FIRST_OF_MANY = 8
# From here on there is an error for the request; older ones repeat it in every partition.
FIRST_WITH_ERROR = 2


_Call = Call[OffsetFetchRequest, OffsetFetchResponse]


def handle(services: Services, call: _Call) -> Coroutine[Any, Any, None] | None:
    groups = _groups(call)
    if services.topics.any_in_doubt:
        doubtful = [name for group in groups for name in services.topics.in_doubt(_names(group))]
        if doubtful:
            call.connection.hold()
            return _fetch_when_certain(services, call, groups, doubtful)
    _fetch_all(services, call, groups)
    return None


async def _fetch_when_certain(
    services: Services, call: _Call, groups: tuple[OffsetFetchRequestGroup, ...], doubtful: list[str]
) -> None:
    """The offsets for a topic of which another one was made would be wrong ones."""
    try:
        await services.topics.certain(doubtful)
    except TopicInDoubt:
        call.fail(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    else:
        _fetch_all(services, call, groups)
    finally:
        call.connection.go_on()


def _names(group: OffsetFetchRequestGroup) -> Iterable[str] | None:
    return None if group.topics is None else (topic.name for topic in group.topics)


def _fetch_all(services: Services, call: _Call, groups: tuple[OffsetFetchRequestGroup, ...]) -> None:
    if len(groups) == 1:
        _fetch_one(services, call, groups[0], _OnlyGroup(call, groups[0]))
        return
    gather = Gather(len(groups), lambda answers: call.answer(_response(call, tuple(answers))))
    for position, group in enumerate(groups):
        _fetch_one(services, call, group, gather.part(position, partial(_failed, group)))


class _OnlyGroup:
    """The ticket of a request for one group."""

    __slots__ = ("_call", "_group")

    def __init__(self, call: _Call, group: OffsetFetchRequestGroup) -> None:
        self._call = call
        self._group = group

    def answer(self, response: OffsetFetchResponseGroup) -> None:
        self._call.answer(_response(self._call, (response,)))

    def fail(self, error: ErrorCode) -> None:
        self.answer(_failed(self._group, error))


def _fetch_one(services: Services, call: _Call, group: OffsetFetchRequestGroup, ticket: Ticket) -> None:
    runtime, require_stable = services.runtime, call.request.require_stable
    runtime.ask(
        runtime.partition_of(group.group_id),
        lambda coordinator: coordinator.offset_fetch(group, require_stable=require_stable),
        ticket,
    )


def failure(call: Call[OffsetFetchRequest, OffsetFetchResponse], error: ErrorCode) -> OffsetFetchResponse:
    return _response(call, tuple(_failed(group, error) for group in _groups(call)))


def _failed(group: OffsetFetchRequestGroup, error: ErrorCode) -> OffsetFetchResponseGroup:
    # As a broker does: Java consumers before 3.9 take COORDINATOR_NOT_AVAILABLE here for the end, and repeat this one.
    if error == ErrorCode.COORDINATOR_NOT_AVAILABLE:
        error = ErrorCode.NOT_COORDINATOR
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=(), error_code=error)


def _groups(call: Call[OffsetFetchRequest, OffsetFetchResponse]) -> tuple[OffsetFetchRequestGroup, ...]:
    request = call.request
    if call.version >= FIRST_OF_MANY:
        return request.groups
    topics = request.topics
    return (
        OffsetFetchRequestGroup(
            group_id=request.group_id,
            topics=None
            if topics is None
            else tuple(OffsetFetchRequestTopics(name=t.name, partition_indexes=t.partition_indexes) for t in topics),
        ),
    )


def _response(
    call: Call[OffsetFetchRequest, OffsetFetchResponse], groups: tuple[OffsetFetchResponseGroup, ...]
) -> OffsetFetchResponse:
    if call.version >= FIRST_OF_MANY:
        return OffsetFetchResponse(groups=groups)
    (group,) = groups
    if group.error_code and call.version < FIRST_WITH_ERROR:
        return OffsetFetchResponse(
            topics=tuple(
                OffsetFetchResponseTopic(
                    t.name,
                    tuple(
                        OffsetFetchResponsePartition(index, -1, error_code=group.error_code)
                        for index in t.partition_indexes
                    ),
                )
                for t in call.request.topics or ()
            )
        )
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=tuple(
            OffsetFetchResponseTopic(
                t.name,
                tuple(
                    OffsetFetchResponsePartition(
                        p.partition_index, p.committed_offset, p.committed_leader_epoch, p.metadata, p.error_code
                    )
                    for p in t.partitions
                ),
            )
            for t in group.topics
        ),
    )


__all__ = ["API", "VERSIONS", "failure", "handle"]
