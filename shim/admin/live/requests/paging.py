"""Which page of the list of groups a request asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from shim.admin.live.asked.migration import STEPS
from shim.admin.live.requests.fields import BadRequest, fields_of, number_in, once_in, text_of

MOST_ROWS: Final = 200
_LONGEST_SEARCH: Final = 1_000
_MOST_GROUPS: Final = 10**9


class Sort(StrEnum):
    """By what the groups are in order."""

    GROUP = "group"
    STATE = "state"
    STEP = "step"
    MEMBERS = "members"
    LAG = "lag"


class Page(NamedTuple):
    """``search``: a part of the name, in any case. ``step`` and ``state``: "" for any."""

    search: str = ""
    step: str = ""
    state: str = ""
    sort: Sort = Sort.GROUP
    descending: bool = False
    offset: int = 0
    limit: int = 50


def page_of(query: str) -> Page:
    """Reads ``search``, ``step``, ``state``, ``sort``, ``order``, ``offset`` and ``limit``, each at most once.

    Raises :class:`BadRequest`.
    """
    given = fields_of(query, ("search", "step", "state", "sort", "order", "offset", "limit"))
    offset, limit = number_in(given, "offset", _MOST_GROUPS), number_in(given, "limit", MOST_ROWS)
    page = Page()
    return Page(
        _text(given, "search"),
        _one_of(given, "step", ("", *STEPS)) or page.step,
        _text(given, "state"),
        Sort(_one_of(given, "sort", tuple(Sort)) or page.sort),
        _one_of(given, "order", ("asc", "desc")) == "desc",
        page.offset if offset is None else offset,
        page.limit if limit is None else limit,
    )


def _text(given: Mapping[str, Sequence[str]], name: str) -> str:
    return text_of(once_in(given, name) or "", name, _LONGEST_SEARCH)


def _one_of(given: Mapping[str, Sequence[str]], name: str, choices: Sequence[str]) -> str | None:
    text = once_in(given, name)
    if text is not None and text not in choices:
        raise BadRequest(f"{name} has to be one of {', '.join(filter(None, choices))}")
    return text
