"""A request about several groups, as several about some of them each, and what these are answered as one answer."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Set
from enum import Enum, auto
from functools import partial
from typing import Any, Final, NamedTuple

from protocol.errors import ErrorCode
from protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponse, OffsetFetchResponseGroup
from shim.api import offset_fetch
from shim.api.descriptions import Describes


class By(Enum):
    """Who answers for a group. ``NOBODY``: it is refused, for now. Another process that does is none of these."""

    SHIM = auto()
    BROKER = auto()
    NOBODY = auto()


class Divided(NamedTuple):
    """How requests of an API are divided. ``names``: the groups of a request, of a version. ``only``: the same request
    for some of them. ``refused``: a response that refuses these. ``merged``: of the responses, one; given the names,
    and who answers for each."""

    names: Callable[[int, Any], Sequence[str]]
    only: Callable[[Any, Set[str]], Any]
    refused: Callable[[Mapping[str, ErrorCode]], Any]
    merged: Callable[[Sequence[str], Mapping[str, Hashable], Mapping[Any, Any]], Any]


def _only(field: str, request: Any, names: Set[str]) -> Any:
    return request._replace(**{field: tuple(each for each in getattr(request, field) if each in names)})


def _is_forbidden(of_group: Any) -> bool:
    return bool(of_group.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED)


# --- OffsetFetch -----------------------------------------------------------------------------------------------------


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


FETCHES: Final = Divided(
    lambda version, request: [group.group_id for group in offset_fetch.groups_of(version, request)],
    lambda request, names: request._replace(groups=tuple(each for each in request.groups if each.group_id in names)),
    lambda refused: OffsetFetchResponse(groups=tuple(_refused_fetch(*each) for each in refused.items())),
    _merged_fetches,
)

# --- APIs that describe groups ---------------------------------------------------------------------------------------


def _merged_descriptions(names: Sequence[str], _: Mapping[str, Hashable], answers: Mapping[Any, Any]) -> Any:
    found = {group.group_id: group for answer in answers.values() for group in answer.groups}
    groups = (found[name] for name in names if name in found)
    response = answers[By.NOBODY]
    return response._replace(groups=tuple(sorted(groups, key=lambda group: not _is_forbidden(group))))  # are first


def descriptions(its: Describes) -> Divided:
    return Divided(
        lambda _, request: getattr(request, its.field), partial(_only, its.field), its.refused, _merged_descriptions
    )


# --- DeleteGroups ----------------------------------------------------------------------------------------------------


def _merged_deletions(
    names: Sequence[str], _: Mapping[str, Hashable], answers: Mapping[Any, Any]
) -> DeleteGroupsResponse:
    found = {result.group_id: result for answer in answers.values() for result in answer.results}
    results = (found[name] for name in dict.fromkeys(names) if name in found)
    return DeleteGroupsResponse(0, tuple(sorted(results, key=_is_forbidden)))  # those are last


def _deletions(refused: Iterable[tuple[str, ErrorCode]]) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(0, tuple(DeletableGroupResult(*each) for each in refused))


DELETIONS: Final = Divided(
    lambda _, request: request.groups_names,
    partial(_only, "groups_names"),
    lambda refused: _deletions(refused.items()),
    _merged_deletions,
)
