"""OffsetFetch (key 9), served. The coordinator answers one group at a time; v8 and newer ask for many (KIP-709).

v0 meant ZooKeeper, and has an error for an offset that is not there; v10 names topics by id only.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
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
from shim.api.call import Call, Services
from shim.api.many_groups import Question, ask_each
from shim.api.waiting import while_requests_are_paused
from shim.coordinator import GroupCoordinator

API = Repeated(offset_fetch.API)
VERSIONS = (0, 9)

# From here on the request and the response hold many groups, and an error of a group stands beside it.
FIRST_OF_MANY = 8
# From here on there is an error for the request; older ones repeat it in every partition.
FIRST_WITH_ERROR = 2
# Up to here an offset that is not there is UNKNOWN_TOPIC_OR_PARTITION.
LAST_WITH_MISSING = 0

# What each takes in a response, beside the topic's name and the metadata.
_TOPIC_BYTES = 3
_PARTITION_BYTES = 20


_Call = Call[OffsetFetchRequest, OffsetFetchResponse]


def handle(services: Services, call: _Call) -> Coroutine[Any, Any, None] | None:
    groups = groups_of(call.version, call.request)
    if len(groups) > 1:
        return _fetch_many(services, call, groups)
    if services.topics.any_in_doubt:
        blocked = [name for group in groups for name in services.topics.blocked(_names(group))]
        if blocked:
            return _fetch_when_certain(services, call, groups, blocked)
    _fetch_only(services, call, groups)
    return None


@while_requests_are_paused
async def _fetch_when_certain(
    services: Services, call: _Call, groups: tuple[OffsetFetchRequestGroup, ...], blocked: list[str]
) -> None:
    """The offsets for a topic of which another one was made would be wrong ones."""
    await services.topics.certain(blocked)
    _fetch_only(services, call, groups, partial(_fetch_if_certain, services))


@while_requests_are_paused
async def _fetch_many(services: Services, call: _Call, groups: tuple[OffsetFetchRequestGroup, ...]) -> None:
    stable = call.request.require_stable
    questions = [
        Question(
            group.group_id,
            (group.group_id, group.topics),
            call.at_its_step(group.group_id, partial(_fetch_if_certain, services, group, stable)),
            partial(failed, group),
        )
        for group in groups
    ]
    distinct = {question.same: group for question, group in zip(questions, groups, strict=True)}
    blocked = {name for group in distinct.values() for name in services.topics.blocked(_names(group))}
    await services.topics.certain(blocked)
    version, request = call.version, call.request
    await ask_each(services, questions, _size, lambda answers: call.answer(response_of(version, request, answers)))


def _fetch_if_certain(
    services: Services, group: OffsetFetchRequestGroup, require_stable: bool, coordinator: GroupCoordinator
) -> OffsetFetchResponseGroup:
    if services.topics.blocked(_names(group)):  # since the request has come
        return failed(group, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return _fetch(group, require_stable, coordinator)


def _size(group: OffsetFetchResponseGroup) -> int:
    return sum(
        _TOPIC_BYTES + len(topic.name) + sum(_PARTITION_BYTES + len(p.metadata or "") for p in topic.partitions)
        for topic in group.topics
    )


def _names(group: OffsetFetchRequestGroup) -> Iterable[str] | None:
    return None if group.topics is None else (topic.name for topic in group.topics)


def _fetch(
    group: OffsetFetchRequestGroup, require_stable: bool, coordinator: GroupCoordinator
) -> OffsetFetchResponseGroup:
    return coordinator.offset_fetch(group, require_stable=require_stable)


def _fetch_only(
    services: Services,
    call: _Call,
    groups: tuple[OffsetFetchRequestGroup, ...],
    fetch: Callable[[OffsetFetchRequestGroup, bool, GroupCoordinator], OffsetFetchResponseGroup] = _fetch,
) -> None:
    """Of the one that there is, if there is one."""
    if not groups:
        call.answer(response_of(call.version, call.request, ()))
    runtime, stable = services.runtime, call.request.require_stable
    for group in groups:
        asked = call.at_its_step(group.group_id, partial(fetch, group, stable))
        runtime.ask(runtime.partition_of(group.group_id), asked, _OnlyGroup(call, group))


class _OnlyGroup:
    """The ticket of a request for one group."""

    __slots__ = ("_call", "_group")

    def __init__(self, call: _Call, group: OffsetFetchRequestGroup) -> None:
        self._call = call
        self._group = group

    def answer(self, response: OffsetFetchResponseGroup) -> None:
        self._call.answer(response_of(self._call.version, self._call.request, (response,)))

    def fail(self, error: ErrorCode) -> None:
        self.answer(failed(self._group, error))


def failure(call: _Call, error: ErrorCode) -> OffsetFetchResponse:
    groups = groups_of(call.version, call.request)
    return response_of(call.version, call.request, [failed(group, error) for group in groups])


def codes(response: OffsetFetchResponse) -> Iterable[int]:
    groups: tuple[Any, ...] = (response, *response.groups)
    return [
        *(group.error_code for group in groups),
        *(each.error_code for group in groups for topic in group.topics for each in topic.partitions),
    ]


def failed(group: OffsetFetchRequestGroup, error: ErrorCode) -> OffsetFetchResponseGroup:
    """What is answered for a group that is refused."""
    # As a broker does: Java consumers before 3.9 take COORDINATOR_NOT_AVAILABLE here for the end, and repeat this one.
    if error == ErrorCode.COORDINATOR_NOT_AVAILABLE:
        error = ErrorCode.NOT_COORDINATOR
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=(), error_code=error)


def groups_of(version: int, request: OffsetFetchRequest) -> tuple[OffsetFetchRequestGroup, ...]:
    if version >= FIRST_OF_MANY:
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


def response_of(
    version: int, request: OffsetFetchRequest, groups: Sequence[OffsetFetchResponseGroup]
) -> OffsetFetchResponse:
    if version >= FIRST_OF_MANY:
        return OffsetFetchResponse(groups=tuple(groups))
    (group,) = groups
    if group.error_code and version < FIRST_WITH_ERROR:
        return OffsetFetchResponse(
            topics=tuple(
                OffsetFetchResponseTopic(
                    t.name,
                    tuple(
                        OffsetFetchResponsePartition(index, -1, error_code=group.error_code)
                        for index in t.partition_indexes
                    ),
                )
                for t in request.topics or ()
            )
        )
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if version <= LAST_WITH_MISSING else ErrorCode.NONE
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=tuple(
            OffsetFetchResponseTopic(
                t.name,
                tuple(
                    OffsetFetchResponsePartition(
                        p.partition_index,
                        p.committed_offset,
                        p.committed_leader_epoch,
                        p.metadata,
                        missing if p.committed_offset == -1 and not p.error_code else p.error_code,
                    )
                    for p in t.partitions
                ),
            )
            for t in group.topics
        ),
    )


def with_errors_for_missing(response: OffsetFetchResponse) -> OffsetFetchResponse:
    """A response of v1 as one of v0, with errors for offsets that are not there."""
    return response._replace(
        topics=tuple(
            topic._replace(
                partitions=tuple(
                    each._replace(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                    if each.committed_offset == -1 and not each.error_code
                    else each
                    for each in topic.partitions
                )
            )
            for topic in response.topics
        )
    )


__all__ = ["API", "VERSIONS", "codes", "failure", "handle"]
