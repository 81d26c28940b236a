"""In front of what the shim serves: is the group the shim's to serve, or is its request to be passed on?

What is passed on goes to the broker behind the connection, as this client, and what that answers is the answer: the
client was led there by FindCoordinator. Requests that make a group are where it is found out whose one is that nobody
has asked for; to all others such a group is the cluster's, which says that it knows nothing of it, if it does not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from itertools import filterfalse
from typing import Any, Final, NamedTuple, TypeVar

from protocol.apis import ApiKey
from protocol.errors import ErrorCode
from shim.api import offset_fetch
from shim.api.authorization import AnyCall, Handle, Policy, authorized
from shim.api.call import Services
from shim.migration.gathering import Gathering
from shim.migration.groups import Whose

Known = TypeVar("Known")

_FollowUp = Coroutine[Any, Any, None]

_OPENS: Final = frozenset({ApiKey.JOIN_GROUP, ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT})
"""Requests that make a group where there is none."""
_CHANGES_OFFSETS: Final = frozenset(
    {ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT, ApiKey.OFFSET_DELETE, ApiKey.DELETE_GROUPS}
)
_HELD_BACK: Final = frozenset({ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP})
"""Those that a broker may have a reason to answer late."""


def by_hands(key: ApiKey, policy: Policy, handle: Handle) -> Handle:
    """The handler, for groups that the shim serves and for what the client may do with them."""
    served = authorized(policy, handle)
    if key == ApiKey.LIST_GROUPS:
        return _listing(served)
    if key in _MANY:
        return _many(key, _MANY[key], served)
    return _one(key, served, authorized(policy, _finding_out(key, handle)))


# --- requests about one group ----------------------------------------------------------------------------------------


def _one(key: ApiKey, served: Handle, opening: Handle) -> Handle:
    gathers = _GATHERS.get(key)

    def route(services: Services, call: AnyCall) -> _FollowUp | None:
        group_id = call.request.group_id
        whose = services.placements.of(group_id)
        if gathers is not None and (gathering := services.placements.gathering(group_id)) is not None:
            following = gathers(services, call, gathering, whose, route)
            if following is not None:
                return following
        if whose is Whose.SERVED:
            return served(services, call)
        if whose is Whose.CHANGING:
            call.fail(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            return None
        if whose is Whose.UNKNOWN and key in _OPENS:
            return opening(services, call)
        return _passed(services, call, key)

    return route


def _finding_out(key: ApiKey, handle: Handle) -> Handle:
    def find_out(services: Services, call: AnyCall) -> _FollowUp:
        group_id = call.request.group_id

        def found(error: ErrorCode) -> _FollowUp | None:
            whose = services.placements.of(group_id)
            if error is ErrorCode.NONE and whose is Whose.SERVED:
                return handle(services, call)
            if error is ErrorCode.NONE and whose is Whose.PASSED_THROUGH:
                return _passed(services, call, key)
            call.fail(error or ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            return None

        return _when(call, services.placements.find_out(group_id), found)

    return find_out


def _when(call: AnyCall, known: Awaitable[Known], go_on: Callable[[Known], _FollowUp | None]) -> _FollowUp:
    """For what a handler returns: the connection's later requests wait until something is known, and this one has been
    begun with."""

    async def following() -> None:
        try:
            found = await known
        finally:
            # Nothing is taken before this turn of the loop is over.
            call.connection.resume_requests()
        pending = go_on(found)
        if pending is not None:
            await pending

    call.connection.pause_requests()
    return following()


def _passed(services: Services, call: AnyCall, key: ApiKey) -> _FollowUp:
    """To be called before the handler returns, or while requests are paused."""
    request = call.request
    if (seen := _SEEN.get(key)) is not None:
        services.placements.saw(request.group_id, *seen(request))
    newer = _NEWER.get((key, call.version), _Newer(call.version))
    frame = call.broker_frame(newer.version, newer.request(request))
    asked = asyncio.ensure_future(call.connection.ask(frame, prompt=key not in _HELD_BACK))
    if key in _CHANGES_OFFSETS:
        services.placements.passing([request.group_id], asked)
    return _answered(call, key, newer.version, asked)


async def _answered(call: AnyCall, key: ApiKey, version: int, asked: Awaitable[bytes]) -> None:
    frame = await asked
    if version == call.version and not call.is_amended:
        call.answer_frame(frame)
        return
    response = call.parse_response(version, frame)
    newer = _NEWER.get((key, call.version))
    call.answer(response if newer is None else newer.response(response))


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
}
"""By which it is known that a member comes through the shim: its id, and its generation."""


# --- a group that changes hands --------------------------------------------------------------------------------------


def _told_to_join(services: Services, call: AnyCall, gathering: Gathering, whose: Whose, _: Handle) -> _FollowUp | None:
    """A member that is not there yet is told of a rebalance, once it is known that it is one."""
    if not gathering.is_expected(call.request.member_id):
        return None
    call.amend(lambda response: response._replace(error_code=response.error_code or ErrorCode.REBALANCE_IN_PROGRESS))
    return _passed(services, call, ApiKey.HEARTBEAT) if whose is Whose.PASSED_THROUGH else None


def _held(services: Services, call: AnyCall, gathering: Gathering, _: Whose, route: Handle) -> _FollowUp:
    return _when(call, gathering.joined(call.request), lambda _: route(services, call))


def _leaving(
    services: Services, call: AnyCall, gathering: Gathering, _whose: Whose, _route: Handle
) -> _FollowUp | None:
    request = call.request
    gathering.gone(request.member_id)
    for each in request.members:
        gathering.gone(each.member_id, each.group_instance_id)
    return None


_Gathers = Callable[[Services, AnyCall, Gathering, Whose, Handle], _FollowUp | None]
_GATHERS: Final[Mapping[ApiKey, _Gathers]] = {
    ApiKey.HEARTBEAT: _told_to_join,
    ApiKey.JOIN_GROUP: _held,
    ApiKey.LEAVE_GROUP: _leaving,
}


# --- requests about many ---------------------------------------------------------------------------------------------


class _Many(NamedTuple):
    """``names``: the groups of a request. ``only``: the same request for some of them. ``merged``: of what the shim and
    what the cluster answers, one response, given the names and those that were passed on."""

    names: Callable[[int, Any], Sequence[str]]
    only: Callable[[Any, Collection[str]], Any]
    merged: Callable[[Sequence[str], Collection[str], Any, Any], Any]


def _many(key: ApiKey, many: _Many, served: Handle) -> Handle:
    def route(services: Services, call: AnyCall) -> _FollowUp | None:
        names = many.names(call.version, call.request)
        whose = {name: services.placements.of(name) for name in names}
        if all(each is Whose.SERVED for each in whose.values()):
            return served(services, call)
        if Whose.CHANGING in whose.values():
            call.fail(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            return None
        passed = {name for name, each in whose.items() if each is not Whose.SERVED}
        if len(passed) == len(whose):
            return _passed_all(services, call, key, passed)
        asked = asyncio.ensure_future(call.ask_broker(request=many.only(call.request, passed)))
        if key in _CHANGES_OFFSETS:
            services.placements.passing(passed, asked)

        def merged(frame: bytes) -> _FollowUp | None:
            theirs = call.parse_response(call.version, frame)
            call.request = many.only(call.request, whose.keys() - passed)
            call.amend(lambda ours: many.merged(names, passed, ours, theirs))
            return served(services, call)

        return _when(call, asked, merged)

    return route


def _passed_all(services: Services, call: AnyCall, key: ApiKey, passed: Collection[str]) -> _FollowUp:
    first = _NEWER.get((key, call.version))
    version = call.version if first is None else first.version
    asked = asyncio.ensure_future(call.connection.ask(call.broker_frame(version, call.request)))
    if key in _CHANGES_OFFSETS:
        services.placements.passing(passed, asked)
    return _answered(call, key, version, asked)


def _merged_fetches(names: Sequence[str], passed: Collection[str], ours: Any, theirs: Any) -> Any:
    """In the order of the request, in which a group may be more than once."""
    if ours.error_code:
        return ours
    from_here, from_there = iter(ours.groups), iter(theirs.groups)
    return ours._replace(groups=tuple(next(from_there if name in passed else from_here) for name in names))


def _merged_descriptions(names: Sequence[str], _: Collection[str], ours: Any, theirs: Any) -> Any:
    found = {group.group_id: group for group in (*ours.groups, *theirs.groups)}
    groups = (found[name] for name in names if name in found)
    return ours._replace(groups=tuple(sorted(groups, key=lambda group: not _is_refused(group))))  # those are first


def _merged_deletions(names: Sequence[str], _: Collection[str], ours: Any, theirs: Any) -> Any:
    found = {result.group_id: result for result in (*ours.results, *theirs.results)}
    results = (found[name] for name in dict.fromkeys(names) if name in found)
    return ours._replace(results=tuple(sorted(results, key=_is_refused)))  # those are last


def _is_refused(of_group: Any) -> bool:
    return bool(of_group.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED)


_MANY: Final[Mapping[ApiKey, _Many]] = {
    ApiKey.OFFSET_FETCH: _Many(
        lambda version, request: [group.group_id for group in offset_fetch.groups_of(version, request)],
        lambda request, names: request._replace(
            groups=tuple(each for each in request.groups if each.group_id in names)
        ),
        _merged_fetches,
    ),
    ApiKey.DESCRIBE_GROUPS: _Many(
        lambda _, request: request.groups,
        lambda request, names: request._replace(groups=tuple(each for each in request.groups if each in names)),
        _merged_descriptions,
    ),
    ApiKey.DELETE_GROUPS: _Many(
        lambda _, request: request.groups_names,
        lambda request, names: request._replace(
            groups_names=tuple(each for each in request.groups_names if each in names)
        ),
        _merged_deletions,
    ),
}


# --- all groups ------------------------------------------------------------------------------------------------------


def _listing(served: Handle) -> Handle:
    def route(services: Services, call: AnyCall) -> _FollowUp:
        return _when(call, call.ask_broker(), lambda frame: _listed(services, call, frame, served))

    return route


def _listed(services: Services, call: AnyCall, frame: bytes, served: Handle) -> _FollowUp | None:
    theirs = call.parse_response(call.version, frame)

    def is_served(group: Any) -> bool:
        return services.placements.of(group.group_id) is Whose.SERVED

    def merged(ours: Any) -> Any:
        if ours.error_code or theirs.error_code:
            return ours._replace(error_code=ours.error_code or theirs.error_code, groups=())
        return ours._replace(groups=(*filter(is_served, ours.groups), *filterfalse(is_served, theirs.groups)))

    call.amend(merged)
    return served(services, call)
