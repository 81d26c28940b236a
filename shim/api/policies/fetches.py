"""OffsetFetch: DESCRIBE on each group and topic; of all topics those are left out that may not be described."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from protocol.errors import ErrorCode
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from shim.api import offset_fetch
from shim.api.authorization import AnyCall, Granted, Policy
from shim.api.call import Services
from shim.api.owners import at_owner
from shim.api.policies.refusals import (
    NO_GROUP,
    NO_TOPIC,
    ask_coordinator,
    divided,
)
from shim.coordinator import GroupCoordinator
from shim.forwarding import Failed
from shim.security.rights import Need, Right

_FIRST_OF_ALL: Final = 2
"""The first version in which all topics of a group can be asked for, and an error is told once."""


def needs_of(groups: Iterable[OffsetFetchRequestGroup]) -> list[Need]:
    """DESCRIBE on each group, and on each topic that is named."""
    needs: dict[Need, None] = {}
    for group in groups:
        needs[Need(Right.DESCRIBE_GROUP, group.group_id)] = None
        for topic in group.topics or ():
            needs[Need(Right.DESCRIBE_TOPIC, topic.name)] = None
    return list(needs)


def fetches_all(groups: Iterable[OffsetFetchRequestGroup]) -> bool:
    """Whether all topics of a group are asked for: what rights that needs is to be found out."""
    return any(group.topics is None for group in groups)


def _groups_of(call: AnyCall) -> tuple[OffsetFetchRequestGroup, ...]:
    return offset_fetch.groups_of(call.version, call.request)


async def _topics_found(services: Services, call: AnyCall, granted: Granted) -> list[Need] | None:
    """Those that the groups have offsets for."""
    wanted = {
        group.group_id
        for group in _groups_of(call)
        if group.topics is None and Need(Right.DESCRIBE_GROUP, group.group_id) in granted
    }
    needs: dict[Need, None] = {}
    for group_id in wanted:
        names = await _topics_fetched(services, call, group_id)
        if isinstance(names, ErrorCode):
            call.fail(names)
            return None
        needs.update(dict.fromkeys(Need(Right.DESCRIBE_TOPIC, name) for name in names))
    return list(needs)


async def _topics_fetched(services: Services, call: AnyCall, group_id: str) -> list[str] | ErrorCode:
    peer = services.owner_elsewhere(group_id)
    if peer is None:
        number = services.runtime.partition_of(group_id)
        topics: list[str] | ErrorCode = await ask_coordinator(services, number, partial(_topics_of, group_id))
        return topics
    asked = OffsetFetchRequest(group_id=group_id, topics=None)
    try:
        frame = await at_owner(services, call.connection, peer, call.broker_frame(_FIRST_OF_ALL, asked))
    except Failed as failed:
        return failed.error
    answer = call.parse_response(_FIRST_OF_ALL, frame)
    if answer.error_code:  # it is the answer to the client, too
        call.counted_elsewhere(answer)
    return ErrorCode.for_code(answer.error_code) or [topic.name for topic in answer.topics]


def _topics_of(group_id: str, coordinator: GroupCoordinator) -> list[str] | ErrorCode:
    answer = coordinator.offset_fetch(OffsetFetchRequestGroup(group_id, topics=None), require_stable=False)
    return ErrorCode(answer.error_code) if answer.error_code else [topic.name for topic in answer.topics]


def _admit_fetch(call: AnyCall, granted: Granted) -> bool:
    groups = _groups_of(call)
    refused = {group.group_id for group in groups if Need(Right.DESCRIBE_GROUP, group.group_id) not in granted}
    many = call.version >= offset_fetch.FIRST_OF_MANY
    if refused and not many:
        call.fail(NO_GROUP)
        return False
    allowed, hidden = [], []
    for group in groups:
        if group.group_id in refused:
            continue
        topics, refused_topics = group.topics, ()
        if topics is not None:
            topics, refused_topics = divided(Right.DESCRIBE_TOPIC, topics, granted)
        allowed.append(group._replace(topics=topics))
        hidden.append(refused_topics)
    if many:
        if refused and not allowed:
            call.fail(NO_GROUP)
            return False
        names = [group.group_id for group in groups]
        call.request = call.request._replace(groups=tuple(allowed))
        call.amend(partial(_with_refused_groups, granted, names, refused, allowed, hidden))
    else:
        ((group,), (refused_topics,)) = allowed, hidden
        if group.topics is not None:
            of_request = {topic.name for topic in group.topics}
            topics = tuple(topic for topic in call.request.topics if topic.name in of_request)
            call.request = call.request._replace(topics=topics)
        call.amend(partial(_with_refused_fetches, granted, group, refused_topics))
    return True


def _with_refused_groups(
    granted: Granted,
    names: Sequence[str],
    refused: Collection[str],
    allowed: Sequence[OffsetFetchRequestGroup],
    hidden: Sequence[Sequence[OffsetFetchRequestTopics]],
    response: OffsetFetchResponse,
) -> OffsetFetchResponse:
    """In the order of the request. A group may be in it more than once."""
    decided = iter(
        [
            _shown(granted, group, topics, answer)
            for group, topics, answer in zip(allowed, hidden, response.groups, strict=True)
        ]
    )
    groups = tuple(
        OffsetFetchResponseGroup(group_id=name, topics=(), error_code=NO_GROUP) if name in refused else next(decided)
        for name in names
    )
    return response._replace(groups=groups)


def _with_refused_fetches(
    granted: Granted,
    group: OffsetFetchRequestGroup,
    refused: Sequence[OffsetFetchRequestTopics],
    response: OffsetFetchResponse,
) -> OffsetFetchResponse:
    shown: OffsetFetchResponse = _shown(granted, group, refused, response)
    return shown


def _shown(granted: Granted, asked: OffsetFetchRequestGroup, refused: Sequence[Any], answer: Any) -> Any:
    """A group's answer, or a response that is about one group, with what of it the client may see."""
    if answer.error_code:
        return answer
    if asked.topics is None:
        needs = [Need(Right.DESCRIBE_TOPIC, topic.name) for topic in answer.topics]
        if any(need not in granted.asked for need in needs):  # there was a commit for it meanwhile
            return answer._replace(topics=(), error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        topics = zip(answer.topics, needs, strict=True)
        return answer._replace(topics=tuple(topic for topic, need in topics if need in granted))
    if not refused:
        return answer
    topic_type, partition_type = _FETCHED[type(answer)]
    return answer._replace(
        topics=(
            *answer.topics,
            *(
                topic_type(
                    name=topic.name,
                    partitions=tuple(
                        partition_type(index, -1, error_code=NO_TOPIC) for index in topic.partition_indexes
                    ),
                )
                for topic in refused
            ),
        )
    )


_FETCHED: Final[Mapping[type, tuple[Any, Any]]] = {
    OffsetFetchResponse: (OffsetFetchResponseTopic, OffsetFetchResponsePartition),
    OffsetFetchResponseGroup: (OffsetFetchResponseTopics, OffsetFetchResponsePartitions),
}

OFFSET_FETCH: Final = Policy(
    lambda call: needs_of(_groups_of(call)),
    _admit_fetch,
    lambda call: fetches_all(_groups_of(call)),
    _topics_found,
)
