"""Requests about several groups: divided by whose these are, and what is answered put together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum, auto
from typing import Any, Final, NamedTuple

from protocol.apis import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from protocol.messages.describe_groups import DescribeGroupsResponse
from protocol.messages.offset_fetch import OffsetFetchResponse, OffsetFetchResponseGroup
from shim.api import describe_groups, offset_fetch
from shim.api.authorization import AnyCall, Handle
from shim.api.call import Services
from shim.api.hands.elsewhere import told_elsewhere
from shim.api.hands.passing import CHANGES_OFFSETS, passed_all
from shim.api.hands.when import FollowUp, when
from shim.migration.hands.placements import SERVED, Whose


class _By(Enum):
    """Who answers for a group. ``NOBODY``: it is refused, for now."""

    SHIM = auto()
    BROKER = auto()
    NOBODY = auto()


_Refused = Mapping[str, ErrorCode]


class _Many(NamedTuple):
    """``names``: the groups of a request. ``only``: the same request for some of them. ``refused``: a response that
    refuses these. ``merged``: of the responses, one; given the names, and who answers for each. ``prepared``: what is
    found out before, and who is refused because of that."""

    names: Callable[[int, Any], Sequence[str]]
    only: Callable[[Any, Collection[str]], Any]
    refused: Callable[[_Refused], Any]
    merged: Callable[[Sequence[str], Mapping[str, _By], Mapping[_By, Any]], Any]
    prepared: Callable[[Services, Mapping[str, Whose]], Awaitable[_Refused] | None] = lambda _, whose: None


def about_many(key: ApiKey, served: Handle) -> Handle:
    """The handler; ``served``: for those that the shim serves."""
    many = MANY[key]

    def route(services: Services, call: AnyCall) -> FollowUp | None:
        names = many.names(call.version, call.request)
        whose = {name: services.placements.of(name) for name in names}
        if all(each is Whose.SERVED for each in whose.values()):
            return served(services, call)
        prepared = many.prepared(services, whose)
        if prepared is None:
            return divided(services, call, names, {})
        return when(call, prepared, lambda refused: divided(services, call, names, refused))

    def divided(services: Services, call: AnyCall, names: Sequence[str], refused: _Refused) -> FollowUp | None:
        whose = {name: services.placements.of(name) for name in names}
        changing = [name for name, each in whose.items() if each is Whose.CHANGING]
        refused = {**refused, **dict.fromkeys(changing, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)}
        if len(refused) == 1 == len(whose):
            call.fail(*refused.values())
            return None
        by = {name: _answers_for(name, whose[name], refused) for name in names}
        ours = [name for name in whose if by[name] is _By.SHIM]
        theirs = [name for name in whose if by[name] is _By.BROKER]
        elsewhere = [name for name in ours if whose[name] is Whose.SERVED_AND_ELSEWHERE]
        if len(theirs) == len(whose):
            return passed_all(services, call, key, theirs)
        if len(ours) == len(whose):
            return here(services, call, elsewhere)
        answers = {_By.NOBODY: many.refused(refused)}
        asked = None
        if theirs:
            asked = asyncio.ensure_future(call.ask_broker(request=many.only(call.request, theirs)))
            if key in CHANGES_OFFSETS:
                services.placements.passing(theirs, asked)

        def the_rest(frame: bytes | None) -> FollowUp | None:
            if frame is not None:
                answers[_By.BROKER] = call.parse_response(call.version, frame)
            if not ours:
                call.answer(many.merged(names, by, answers))
                return None
            call.request = many.only(call.request, ours)
            call.amend(lambda response: many.merged(names, by, {**answers, _By.SHIM: response}))
            return here(services, call, elsewhere)

        return the_rest(None) if asked is None else when(call, asked, the_rest)

    def here(services: Services, call: AnyCall, elsewhere: Sequence[str]) -> FollowUp | None:
        if elsewhere and key in CHANGES_OFFSETS:
            return told_elsewhere(services, call, elsewhere, served, _all_but_the_failed)
        return served(services, call)

    return route


def _answers_for(name: str, whose: Whose, refused: _Refused) -> _By:
    if name in refused:
        return _By.NOBODY
    return _By.SHIM if whose in SERVED else _By.BROKER


# --- what is found out before ----------------------------------------------------------------------------------------


def _before_fetch(services: Services, whose: Mapping[str, Whose]) -> Awaitable[_Refused] | None:
    elsewhere = _in_other_places(whose)
    unknown = [name for name, each in whose.items() if each is Whose.UNKNOWN] if services.stores.has_zookeeper else []
    return _prepared_fetch(services, elsewhere, unknown) if elsewhere or unknown else None


async def _prepared_fetch(services: Services, elsewhere: Sequence[str], unknown: Sequence[str]) -> _Refused:
    """One that nobody has asked for may have its offsets in ZooKeeper."""
    errors = await asyncio.gather(*(services.placements.find_out(name, opening=False) for name in unknown))
    refused = {name: error for name, error in zip(unknown, errors, strict=True) if error}
    found = _in_other_places({name: services.placements.of(name) for name in unknown if name not in refused})
    return {**refused, **await services.stores.not_ready([*elsewhere, *found])}


def _before_deletion(services: Services, whose: Mapping[str, Whose]) -> Awaitable[_Refused] | None:
    """Consumers in ZooKeeper are members, too."""
    elsewhere = _in_other_places(whose)
    return services.stores.not_deletable(elsewhere) if elsewhere else None


def _in_other_places(whose: Mapping[str, Whose]) -> list[str]:
    return [name for name, each in whose.items() if each is Whose.SERVED_AND_ELSEWHERE]


# --- what is answered ------------------------------------------------------------------------------------------------


def _merged_fetches(names: Sequence[str], by: Mapping[str, _By], answers: Mapping[_By, Any]) -> OffsetFetchResponse:
    """In the order of the request, in which a group may be more than once."""
    refused = {each.group_id: each for each in answers[_By.NOBODY].groups}
    left = {who: iter(answer.groups) for who, answer in answers.items()}
    return OffsetFetchResponse(
        groups=tuple(refused[name] if name in refused else next(left[by[name]]) for name in names)
    )


def _merged_descriptions(
    names: Sequence[str], _: Mapping[str, _By], answers: Mapping[_By, Any]
) -> DescribeGroupsResponse:
    found = {group.group_id: group for answer in answers.values() for group in answer.groups}
    groups = (found[name] for name in names if name in found)
    return DescribeGroupsResponse(groups=tuple(sorted(groups, key=lambda group: not _is_forbidden(group))))  # are first


def _merged_deletions(names: Sequence[str], _: Mapping[str, _By], answers: Mapping[_By, Any]) -> DeleteGroupsResponse:
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


MANY: Final[Mapping[ApiKey, _Many]] = {
    ApiKey.OFFSET_FETCH: _Many(
        lambda version, request: [group.group_id for group in offset_fetch.groups_of(version, request)],
        lambda request, names: request._replace(
            groups=tuple(each for each in request.groups if each.group_id in names)
        ),
        lambda refused: OffsetFetchResponse(
            groups=tuple(OffsetFetchResponseGroup(name, (), error) for name, error in refused.items())
        ),
        _merged_fetches,
        _before_fetch,
    ),
    ApiKey.DESCRIBE_GROUPS: _Many(
        lambda _, request: request.groups,
        lambda request, names: request._replace(groups=tuple(each for each in request.groups if each in names)),
        lambda refused: DescribeGroupsResponse(
            groups=tuple(describe_groups.failed(name, error) for name, error in refused.items())
        ),
        _merged_descriptions,
    ),
    ApiKey.DELETE_GROUPS: _Many(
        lambda _, request: request.groups_names,
        lambda request, names: request._replace(
            groups_names=tuple(each for each in request.groups_names if each in names)
        ),
        lambda refused: _deletions(refused.items()),
        _merged_deletions,
        _before_deletion,
    ),
}
