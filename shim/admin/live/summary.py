"""A page of the list of groups: which are meant, in which order, and what is told of them all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl

from shim.admin.live.asked.migration import STEPS, GroupStatus, Storage
from shim.admin.live.choosing import BadRequest
from shim.admin.live.lag_series import Sample
from shim.admin.live.shown.documents import Row
from shim.admin.live.shown.migration_rows import status_row

MOST_ROWS: Final = 200
_LONGEST_SEARCH: Final = 1_000
_MOST_FIELDS: Final = 20
_POINTS: Final = 60
"""Of each group's chart in a list."""

Lag = Callable[[str], int | None]
Recent = Callable[[str], Sequence[Sample]]


class Page(NamedTuple):
    """``search``: a part of the name, in any case. ``step`` and ``state``: "" for any."""

    search: str = ""
    step: str = ""
    state: str = ""
    sort: str = "group"
    descending: bool = False
    offset: int = 0
    limit: int = 50


_SORTS: Final[Mapping[str, Callable[[GroupStatus, Lag], Any]]] = {
    "group": lambda status, _: status.group,
    "state": lambda status, _: status.state,
    "step": lambda status, _: STEPS.index(step_of(status)),
    "members": lambda status, _: status.members,
    "lag": lambda status, lag: -1 if (known := lag(status.group)) is None else known,
}


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
        _one_of(given, "sort", tuple(_SORTS)) or page.sort,
        _one_of(given, "order", ("asc", "desc")) == "desc",
        _number(given, "offset", 0, 10**9, page.offset),
        _number(given, "limit", 0, MOST_ROWS, page.limit),
    )


def summary_of(statuses: Sequence[GroupStatus], lag: Lag, page: Page) -> tuple[Row, Sequence[GroupStatus]]:
    """What is told of all groups, and those of the page. With many groups it takes long: ``lag`` may be called in
    another thread."""
    meant = [each for each in statuses if _is_meant(each, page)]
    key = _SORTS[page.sort]
    meant.sort(key=lambda each: each.group)
    meant.sort(key=lambda each: key(each, lag), reverse=page.descending)
    lags = [known for each in statuses if (known := lag(each.group)) is not None]
    head = {
        "total": len(statuses),
        "matching": len(meant),
        "offset": page.offset,
        "steps": {**dict.fromkeys(STEPS, 0), **Counter(map(step_of, statuses))},
        "states": dict(sorted(Counter(each.state for each in statuses).items())),
        "lag": sum(lags) if lags else None,
        "alarms": sum(bool(each.alarm) for each in statuses),
    }
    return head, meant[page.offset : page.offset + page.limit]


def summary_row(status: GroupStatus, lag: Lag, recent: Recent) -> Row:
    return {
        **status_row(status),
        "step": step_of(status),
        "lag": lag(status.group),
        "recent": _thinned(recent(status.group)),
    }


def step_of(status: GroupStatus) -> str:
    return str(Storage(status.storage, status.dual_commit))


def _is_meant(status: GroupStatus, page: Page) -> bool:
    return (
        page.search.lower() in status.group.lower()
        and page.step in ("", step_of(status))
        and page.state in ("", status.state)
    )


def _thinned(samples: Sequence[Sample]) -> list[Sample]:
    """The newest is among them."""
    every = -(-len(samples) // _POINTS) or 1
    return list(samples)[::-1][::every][::-1]


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
