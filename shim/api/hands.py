"""In front of what the shim serves: is the group the shim's to serve, or is its request to be passed on?

What is passed on goes to the broker behind the connection, as this client, and what that answers is the answer: the
client was led there by FindCoordinator. Requests that make a group are where it is found out whose one is that nobody
has asked for; to all others such a group is the cluster's, which says that it knows nothing of it, if it does not.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from itertools import filterfalse
from typing import Any, Final, NamedTuple, TypeVar

from protocol.apis import ApiKey
from protocol.commit_rows import AllCommitted
from protocol.errors import ErrorCode
from protocol.own.conditional_commit import is_conditional
from shim.api import offset_fetch
from shim.api.authorization import AnyCall, Handle, Policy, authorized
from shim.api.call import Services
from shim.logged_once import LoggedOnce
from shim.migration.gathering import Gathering
from shim.migration.groups import SERVED, Whose
from shim.migration.stores import StoreError

log = logging.getLogger(__name__)
_trouble = LoggedOnce(log)

Known = TypeVar("Known")

_FollowUp = Coroutine[Any, Any, None]

_OPENS: Final = frozenset({ApiKey.JOIN_GROUP, ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT})
"""Requests that make a group where there is none."""
_CHANGES_OFFSETS: Final = frozenset(
    {ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT, ApiKey.OFFSET_DELETE, ApiKey.DELETE_GROUPS}
)
_OF_OLD_CONSUMERS: Final = (1, 2)
"""Versions of OffsetCommit that those of 0.8.2 to 1.1 send, who are in ZooKeeper."""
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
        if whose is Whose.SERVED_AND_ELSEWHERE and key in _CHANGES_OFFSETS:
            return _change_elsewhere(services, call, key, served)
        if gathers is not None and (gathering := services.placements.gathering(group_id)) is not None:
            following = gathers(services, call, gathering, whose, route)
            if following is not None:
                return following
        if whose in SERVED:
            return served(services, call)
        if whose is Whose.CHANGING:
            call.fail(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            return None
        if whose is Whose.UNKNOWN and key in _OPENS:
            return opening(services, call)
        return _passed(services, call, key)

    return route


def _change_elsewhere(services: Services, call: AnyCall, key: ApiKey, served: Handle) -> _FollowUp | None:
    """Of a group whose offsets are in another place, too."""
    group_id = call.request.group_id
    if key == ApiKey.TXN_OFFSET_COMMIT and not services.stores.takes_transactions(group_id):
        call.fail(ErrorCode.GROUP_AUTHORIZATION_FAILED)  # at which clients abort, and no more
        return None
    of_old_consumers = key == ApiKey.OFFSET_COMMIT and call.version in _OF_OLD_CONSUMERS
    answered = _notes_old_consumers if of_old_consumers else _notes_nothing
    # Of an offset that the log does not have yet it would have nothing to delete, and a condition would be held against
    # an older one.
    looks_first = key == ApiKey.OFFSET_DELETE or (key == ApiKey.OFFSET_COMMIT and is_conditional(call.request))
    if not looks_first and services.stores.is_ready(group_id):
        return _told_elsewhere(services, call, [group_id], served, answered)

    def ready(error: ErrorCode) -> _FollowUp | None:
        if error:
            call.fail(error)
            return None
        return _told_elsewhere(services, call, [group_id], served, answered)

    if key == ApiKey.OFFSET_DELETE:
        return _when(call, _prepared_deletion(services, [group_id], ()), ready)
    return _when(call, _ready(services, [group_id]), ready)


def _notes_nothing(_services: Services, _call: AnyCall, _response: Any) -> None:
    """Of whoever else is answered nothing has to be known."""


def _notes_old_consumers(services: Services, call: AnyCall, response: Any) -> None:
    """They commit as nobody in no generation."""
    if isinstance(response, AllCommitted):
        response = response.response()
    if not call.request.member_id and call.request.generation_id_or_member_epoch < 0:
        committed = [
            (topic.name, each.partition_index)
            for topic in response.topics
            for each in topic.partitions
            if not each.error_code
        ]
        services.stores.committed_by_none(call.request.group_id, committed)


async def _ready(services: Services, group_ids: Iterable[str]) -> ErrorCode:
    """NONE when the log has what decides about the offsets of these groups."""
    ready = await asyncio.gather(*(_went_well(each, services.stores.before(each)) for each in group_ids))
    return ErrorCode.NONE if all(ready) else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


async def _went_well(group_id: str, other_place: Awaitable[None]) -> bool:
    """What does not is told once for each group, until it goes well again."""
    what = f"requests of group {group_id} are refused"
    try:
        await other_place
    except StoreError as error:
        _trouble.failed(what, error)
        return False
    _trouble.went_well(what)
    return True


def _told_elsewhere(
    services: Services,
    call: AnyCall,
    group_ids: Sequence[str],
    served: Handle,
    answered: Callable[[Services, AnyCall, Any], None] = _notes_nothing,
) -> _FollowUp:
    """Have it decided, now; it is answered when what it has changed is where else that has to be, and otherwise with an
    error. ``answered`` is called with the response, if it is none."""
    decided: asyncio.Future[tuple[Any, list[Awaitable[None]]]] = asyncio.get_running_loop().create_future()

    def held(response: Any) -> None:
        if not decided.done():  # it is when the client has gone
            # At once: what has been decided by now is what is to be there.
            decided.set_result((response, [services.stores.after(group_id) for group_id in group_ids]))

    call.hold(held)
    return _answered_when_told(call, group_ids, served(services, call), decided, partial(answered, services))


async def _answered_when_told(
    call: AnyCall,
    group_ids: Sequence[str],
    following: _FollowUp | None,
    decided: asyncio.Future[tuple[Any, list[Awaitable[None]]]],
    answered: Callable[[AnyCall, Any], None],
) -> None:
    if following is not None:
        await following
    response, told = await decided
    if all(await asyncio.gather(*map(_went_well, group_ids, told))):
        call.answer(response)
        answered(call, response)
    else:
        call.fail(ErrorCode.COORDINATOR_NOT_AVAILABLE)


def _finding_out(key: ApiKey, handle: Handle) -> Handle:
    def find_out(services: Services, call: AnyCall) -> _FollowUp:
        group_id = call.request.group_id

        def found(error: ErrorCode) -> _FollowUp | None:
            whose = services.placements.of(group_id)
            if error is ErrorCode.NONE and whose is Whose.SERVED:
                return handle(services, call)
            if error is ErrorCode.NONE and whose is Whose.SERVED_AND_ELSEWHERE:
                if key in _CHANGES_OFFSETS:
                    return _change_elsewhere(services, call, key, handle)
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
        elsewhere = [name for name, each in whose.items() if each is Whose.SERVED_AND_ELSEWHERE]
        unknown = [name for name, each in whose.items() if each is Whose.UNKNOWN] if key == ApiKey.OFFSET_FETCH else []
        looked_for = unknown if services.stores.has_zookeeper else []
        if (elsewhere or looked_for) and key in _PREPARED:

            def prepared(error: ErrorCode) -> _FollowUp | None:
                if error:
                    call.fail(error)
                    return None
                return divided({name: services.placements.of(name) for name in names}, services, call)

            return _when(call, _PREPARED[key](services, elsewhere, looked_for), prepared)
        return divided(whose, services, call)

    def divided(whose: Mapping[str, Whose], services: Services, call: AnyCall) -> _FollowUp | None:
        names = many.names(call.version, call.request)
        elsewhere = [name for name, each in whose.items() if each is Whose.SERVED_AND_ELSEWHERE]
        passed = {name for name, each in whose.items() if each not in SERVED}
        if not passed:
            return here(services, call, elsewhere)
        if len(passed) == len(whose):
            return _passed_all(services, call, key, passed)
        asked = asyncio.ensure_future(call.ask_broker(request=many.only(call.request, passed)))
        if key in _CHANGES_OFFSETS:
            services.placements.passing(passed, asked)

        def merged(frame: bytes) -> _FollowUp | None:
            theirs = call.parse_response(call.version, frame)
            call.request = many.only(call.request, whose.keys() - passed)
            call.amend(lambda ours: many.merged(names, passed, ours, theirs))
            return here(services, call, elsewhere)

        return _when(call, asked, merged)

    def here(services: Services, call: AnyCall, elsewhere: Sequence[str]) -> _FollowUp | None:
        if elsewhere and key in _CHANGES_OFFSETS:
            return _told_elsewhere(services, call, elsewhere, served)
        return served(services, call)

    return route


async def _prepared_fetch(services: Services, elsewhere: Sequence[str], unknown: Sequence[str]) -> ErrorCode:
    """One that nobody has asked for may have its offsets in ZooKeeper."""
    for name in unknown:
        error = await services.placements.find_out(name, opening=False)
        if error:
            return error
    now = [name for name in unknown if services.placements.of(name) is Whose.SERVED_AND_ELSEWHERE]
    return await _ready(services, (*elsewhere, *now))


async def _prepared_deletion(services: Services, elsewhere: Sequence[str], _: Sequence[str]) -> ErrorCode:
    """Consumers in ZooKeeper are members, too."""
    for name in elsewhere:
        try:
            if await services.stores.is_in_use_elsewhere(name):
                return ErrorCode.NON_EMPTY_GROUP
        except StoreError as error:
            log.info("group %s is not deleted now: %s", name, error)
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return await _ready(services, elsewhere)


_PREPARED: Final[Mapping[ApiKey, Callable[[Services, Sequence[str], Sequence[str]], Awaitable[ErrorCode]]]] = {
    ApiKey.OFFSET_FETCH: _prepared_fetch,
    ApiKey.DELETE_GROUPS: _prepared_deletion,
}


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
        return services.placements.of(group.group_id) in SERVED

    def merged(ours: Any) -> Any:
        if ours.error_code or theirs.error_code:
            return ours._replace(error_code=ours.error_code or theirs.error_code, groups=())
        return ours._replace(groups=(*filter(is_served, ours.groups), *filterfalse(is_served, theirs.groups)))

    call.amend(merged)
    return served(services, call)
