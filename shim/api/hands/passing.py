"""Requests about groups that are passed through: to the broker behind the connection, as this client."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Final, NamedTuple

from protocol.apis import ApiKey
from protocol.errors import ErrorCode
from protocol.group_kinds import OTHER_KINDS
from shim.api.authorization import AnyCall
from shim.api.call import Services
from shim.api.hands.when import FollowUp

CHANGES_OFFSETS: Final = frozenset(
    {ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT, ApiKey.OFFSET_DELETE, ApiKey.DELETE_GROUPS}
)
_WAITED_FOR: Final = CHANGES_OFFSETS | {ApiKey(kind.heartbeat.key) for kind in OTHER_KINDS}
"""What is to be answered before a group goes into other hands; heartbeats of other kinds make members, and give them
partitions."""
_HELD_BACK: Final = frozenset({ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP})
"""Those that a broker may have a reason to answer late."""


def passed(services: Services, call: AnyCall, key: ApiKey) -> FollowUp:
    """To be called before the handler returns, or while requests are paused."""
    request = call.request
    if (seen := _SEEN.get(key)) is not None:
        services.placements.saw(request.group_id, *seen(request))
    return passed_all(services, call, key, [request.group_id])


def passed_all(services: Services, call: AnyCall, key: ApiKey, group_ids: Collection[str]) -> FollowUp:
    """As :func:`passed`, a request about several."""
    newer = _NEWER.get((key, call.version), _Newer(call.version))
    frame = call.broker_frame(newer.version, newer.request(call.request))
    asked = asyncio.ensure_future(call.connection.ask(frame, prompt=key not in _HELD_BACK))
    if key in _WAITED_FOR:
        services.placements.passing(group_ids, asked)
    return _answered(call, newer, asked)


async def _answered(call: AnyCall, newer: _Newer, asked: Awaitable[bytes]) -> None:
    frame = await asked
    if newer.version == call.version and not call.is_amended:
        call.answer_frame(frame)
    else:
        call.answer(newer.response(call.parse_response(newer.version, frame)))


class _Newer(NamedTuple):
    """For a version that brokers have dropped: what is sent in its place, and what becomes of the answer."""

    version: int
    request: Callable[[Any], Any] = lambda request: request
    response: Callable[[Any], Any] = lambda response: response


def _with_rebalance_timeout(request: Any) -> Any:
    return request._replace(rebalance_timeout_ms=request.session_timeout_ms)


def _missing(response: Any) -> Any:
    """An offset that is not there is an error in v0."""
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


_NEWER: Final[Mapping[tuple[ApiKey, int], _Newer]] = {
    (ApiKey.OFFSET_COMMIT, 0): _Newer(2),
    (ApiKey.OFFSET_COMMIT, 1): _Newer(2),
    (ApiKey.OFFSET_FETCH, 0): _Newer(1, response=_missing),
    (ApiKey.JOIN_GROUP, 0): _Newer(2, _with_rebalance_timeout),
    (ApiKey.JOIN_GROUP, 1): _Newer(2),
}

_SEEN: Final[Mapping[ApiKey, Callable[[Any], tuple[str, int]]]] = {
    ApiKey.HEARTBEAT: lambda request: (request.member_id, request.generation_id),
    ApiKey.SYNC_GROUP: lambda request: (request.member_id, request.generation_id),
    ApiKey.OFFSET_COMMIT: lambda request: (request.member_id, request.generation_id_or_member_epoch),
    **{ApiKey(kind.heartbeat.key): lambda request: (request.member_id, request.member_epoch) for kind in OTHER_KINDS},
}
"""By which it is known that a member comes through the shim: its id, and its generation."""
