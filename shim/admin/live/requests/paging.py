"""Which page of the list of groups a request asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple
from urllib.parse import parse_qsl

from shim.admin.live.asked.migration import STEPS
from shim.admin.live.requests.fields import BadRequest

MOST_ROWS: Final = 200
_LONGEST_SEARCH: Final = 1_000
_MOST_FIELDS: Final = 20


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
    try:
        pairs = parse_qsl(query, keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS)
    except ValueError:
        raise BadRequest("the query is not understood") from None
    given = dict(pairs)
    known = ("search", "step", "state", "sort", "order", "offset", "limit")
    if len(given) < len(pairs) or (unknown := sorted(given.keys() - set(known))):
        what = f"{unknown[0][:100]!a} is not known" if len(given) == len(pairs) else "each stands once"
        raise BadRequest(f"{what}: {', '.join(known[:-1])} and {known[-1]} are")
    page = Page()
    return Page(
        _text(given, "search"),
        _one_of(given, "step", ("", *STEPS)) or "",
        _text(given, "state"),
        Sort(_one_of(given, "sort", tuple(Sort)) or page.sort),
        _one_of(given, "order", ("asc", "desc")) == "desc",
        _number(given, "offset", 0, 10**9, page.offset),
        _number(given, "limit", 0, MOST_ROWS, page.limit),
    )


def _text(given: Mapping[str, str], name: str) -> str:
    text = given.get(name, "")
    if len(text) > _LONGEST_SEARCH:
        raise BadRequest(f"{name} is too long")
    return text


def _one_of(given: Mapping[str, str], name: str, choices: Sequence[str]) -> str | None:
    text = given.get(name)
    if text is not None and text not in choices:
        raise BadRequest(f"{name} has to be one of {', '.join(filter(None, choices))}")
    return text


def _number(given: Mapping[str, str], name: str, low: int, high: int, default: int) -> int:
    text = given.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) < 12 and low <= int(text) <= high):
        raise BadRequest(f"{name} has to be a whole number from {low} to {high}")
    return int(text)
