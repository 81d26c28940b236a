"""Requests about several groups: divided by whose these are, and what is answered put together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Mapping, Sequence, Set
from enum import Enum, auto
from functools import partial
from typing import Any, Final, NamedTuple

from protocol.apis import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponse, OffsetFetchResponseGroup
from shim.api import offset_fetch
from shim.api.authorization import AnyCall, Handle, Policy, authorized_for_groups
from shim.api.call import Services
from shim.api.descriptions import DESCRIBES, Describes
from shim.api.hands.other_stores import told_after_stores
from shim.api.hands.passing import CHANGES_OFFSETS, passed_all
from shim.api.hands.when import FollowUp, when
from shim.migration.hands.placements import SERVED, Whose
from shim.migration.stores import Stores


class By(Enum):
    """Who answers for a group. ``NOBODY``: it is refused, for now. Another process that does is none of these."""

    SHIM = auto()
    BROKER = auto()
    NOBODY = auto()


_Refused = Mapping[str, ErrorCode]
_Then = Callable[[Stores, Sequence[str]], Awaitable[_Refused]]


class _Many(NamedTuple):
    """``names``: the groups of a request. ``only``: the same request for some of them. ``refused``: a response that
    refuses these. ``merged``: of the responses, one; given the names, and who answers for each. ``looks``: whether
    something has to be found out before, and ``look``: that, and who is refused because of it."""

    names: Callable[[int, Any], Sequence[str]]
    only: Callable[[Any, Set[str]], Any]
    refused: Callable[[_Refused], Any]
    merged: Callable[[Sequence[str], Mapping[str, Hashable], Mapping[Any, Any]], Any]
    looks: Callable[[Services, Mapping[str, Whose]], bool] = lambda _, whose: False
    look: Callable[[Services, Mapping[str, Whose]], Awaitable[_Refused]] = lambda _, whose: _nobody()


def about_many(key: ApiKey, policy: Policy, served: Handle) -> Handle:
    """The handler; ``served``: for those that the shim serves."""
    many = MANY[key]

    def route(services: Services, call: AnyCall) -> FollowUp | None:
        whose = _whose(services, many.names(call.version, call.request))
        if all(each is Whose.SERVED for each in whose.values()):
            return served(services, call)
        return looking(services, call) if many.looks(services, whose) else divided(services, call, {})

    def look(services: Services, call: AnyCall) -> FollowUp | None:
        whose = _whose(services, many.names(call.version, call.request))
        return when(call, many.look(services, whose), lambda refused: divided(services, call, refused))

    looking = authorized_for_groups(policy, look)

    def divided(services: Services, call: AnyCall, refused: _Refused, *, is_confirmed: bool = False) -> FollowUp | None:
        names = many.names(call.version, call.request)
        whose = _whose(services, names)
        changing = [name for name, each in whose.items() if each is Whose.CHANGING]
        refused = {**refused, **dict.fromkeys(changing, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)}
        if len(refused) == 1 == len(whose):
            call.fail(*refused.values())
            return None
        by = {name: _answers_for(name, whose[name], refused) for name in names}
        ours = {name for name in whose if by[name] is By.SHIM}
        theirs = {name for name in whose if by[name] is By.BROKER}
        if theirs and not (is_confirmed or services.placements.surely_here(theirs)):

            def confirmed(error: ErrorCode) -> FollowUp | None:
                also = dict.fromkeys(theirs, error) if error else {}
                return divided(services, call, {**refused, **also}, is_confirmed=True)

            return when(call, services.placements.confirmed_here(theirs), confirmed)
        in_stores = [name for name in ours if whose[name] is Whose.SERVED_WITH_STORES]
        if len(theirs) == len(whose):
            return passed_all(services, call, key, theirs)
        if len(ours) == len(whose):
            return here(services, call, in_stores)
        answers = {By.NOBODY: many.refused(refused)}
        asked = None
        if theirs:
            asked = asyncio.ensure_future(call.ask_broker(request=many.only(call.request, theirs)))
            if key in CHANGES_OFFSETS:
                services.placements.passing(theirs, asked)

        def the_rest(frame: bytes | None) -> FollowUp | None:
            if frame is not None:
                answers[By.BROKER] = call.parse_response(call.version, frame)
            if not ours:
                call.answer(many.merged(names, by, answers))
                return None
            call.request = many.only(call.request, ours)
            call.amend(lambda response: many.merged(names, by, {**answers, By.SHIM: response}))
            return here(services, call, in_stores)

        return the_rest(None) if asked is None else when(call, asked, the_rest)

    def here(services: Services, call: AnyCall, in_stores: Sequence[str]) -> FollowUp | None:
        if in_stores and key in CHANGES_OFFSETS:
            return told_after_stores(services, call, in_stores, served, _all_but_the_failed)
        return served(services, call)

    return route


def _whose(services: Services, names: Iterable[str]) -> dict[str, Whose]:
    return {name: services.placements.of(name) for name in names}


def _answers_for(name: str, whose: Whose, refused: _Refused) -> By:
    if name in refused:
        return By.NOBODY
    return By.SHIM if whose in SERVED else By.BROKER


# --- what is found out before ----------------------------------------------------------------------------------------


async def _nobody() -> _Refused:
    return {}


def _looks(services: Services, whose: Mapping[str, Whose]) -> bool:
    return bool(_in_other_places(whose)) or (services.stores.has_zookeeper and Whose.UNKNOWN in whose.values())


async def _look(then: _Then, services: Services, whose: Mapping[str, Whose]) -> _Refused:
    """One that nobody has asked for may have its offsets in ZooKeeper. ``then``: what is asked of those that have."""
    in_stores, refused = _in_other_places(whose), dict[str, ErrorCode]()
    unknown = [name for name, each in whose.items() if each is Whose.UNKNOWN] if services.stores.has_zookeeper else []
    failed = ErrorCode.NONE
    for name in unknown:  # one after the other: new groups of others have their turns between them
        failed = failed or await services.placements.find_out(name, None)
        if failed:  # so would the others, after as long a wait
            refused[name] = failed
        elif services.placements.of(name) is Whose.SERVED_WITH_STORES:
            in_stores.append(name)
    return {**refused, **await then(services.stores, in_stores)}


def _in_other_places(whose: Mapping[str, Whose]) -> list[str]:
    return [name for name, each in whose.items() if each is Whose.SERVED_WITH_STORES]


# --- what is answered ------------------------------------------------------------------------------------------------


def _merged_fetches(
    names: Sequence[str], by: Mapping[str, Hashable], answers: Mapping[Any, Any]
) -> OffsetFetchResponse:
    """In the order of the request, in which a group may be more than once."""
    refused = {each.group_id: each for each in answers[By.NOBODY].groups}
    left = {who: iter(answer.groups) for who, answer in answers.items()}
    return OffsetFetchResponse(
        groups=tuple(refused.get(name) or next(left[by[name]], _not_told(name)) for name in names)
    )


def _not_told(name: str) -> OffsetFetchResponseGroup:
    """Of a group of which a broker has left out what it was asked."""
    return _refused_fetch(name, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


def _refused_fetch(name: str, error: ErrorCode) -> OffsetFetchResponseGroup:
    return offset_fetch.failed(OffsetFetchRequestGroup(name, topics=None), error)


def _merged_descriptions(names: Sequence[str], _: Mapping[str, Hashable], answers: Mapping[Any, Any]) -> Any:
    found = {group.group_id: group for answer in answers.values() for group in answer.groups}
    groups = (found[name] for name in names if name in found)
    response = answers[By.NOBODY]
    return response._replace(groups=tuple(sorted(groups, key=lambda group: not _is_forbidden(group))))  # are first


def _merged_deletions(
    names: Sequence[str], _: Mapping[str, Hashable], answers: Mapping[Any, Any]
) -> DeleteGroupsResponse:
    found = {result.group_id: result for answer in answers.values() for result in answer.results}
    results = (found[name] for name in dict.fromkeys(names) if name in found)
    return DeleteGroupsResponse(0, tuple(sorted(results, key=_is_forbidden)))  # those are last


def _is_forbidden(of_group: Any) -> bool:
    return bool(of_group.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED)


def _all_but_the_failed(call: AnyCall, response: Any, failed: Collection[str]) -> None:
    """Of DeleteGroups."""
    call.answer(
        response._replace(
            results=tuple(
                each._replace(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE) if each.group_id in failed else each
                for each in response.results
            )
        )
    )


def _deletions(refused: Iterable[tuple[str, ErrorCode]]) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(0, tuple(DeletableGroupResult(*each) for each in refused))


def _only(field: str, request: Any, names: Set[str]) -> Any:
    return request._replace(**{field: tuple(each for each in getattr(request, field) if each in names)})


def _described(its: Describes) -> _Many:
    return _Many(
        lambda _, request: getattr(request, its.field), partial(_only, its.field), its.refused, _merged_descriptions
    )


MANY: Final[Mapping[ApiKey, _Many]] = {
    ApiKey.OFFSET_FETCH: _Many(
        lambda version, request: [group.group_id for group in offset_fetch.groups_of(version, request)],
        lambda request, names: request._replace(
            groups=tuple(each for each in request.groups if each.group_id in names)
        ),
        lambda refused: OffsetFetchResponse(groups=tuple(_refused_fetch(*each) for each in refused.items())),
        _merged_fetches,
        _looks,
        partial(_look, lambda stores, groups: stores.not_ready(groups)),
    ),
    **{key: _described(its) for key, its in DESCRIBES.items()},
    ApiKey.DELETE_GROUPS: _Many(
        lambda _, request: request.groups_names,
        partial(_only, "groups_names"),
        lambda refused: _deletions(refused.items()),
        _merged_deletions,
        _looks,
        partial(_look, lambda stores, groups: stores.not_deletable(groups)),
    ),
}
