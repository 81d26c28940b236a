"""A page of the list of groups, and what is told of them all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from shim.admin.live.asked.migration import STEPS, GroupStatus
from shim.admin.live.requests.paging import Page, Sort
from shim.admin.live.sampled.lag_series import Sample
from shim.admin.live.shown.documents import Row
from shim.admin.live.shown.migration_rows import status_row

_POINTS: Final = 60
"""Of each group's chart in a list."""

Lag = Callable[[str], int | None]
"""Of a group, by its name, in records; None where it is not known."""
Recent = Callable[[str], Sequence[Sample]]
"""Of a group, by its name, the oldest first."""

_SORTS: Final[Mapping[Sort, Callable[[GroupStatus, Lag], Any]]] = {
    Sort.GROUP: lambda status, _: status.group,
    Sort.STATE: lambda status, _: status.state,
    Sort.STEP: lambda status, _: STEPS.index(status.step),
    Sort.MEMBERS: lambda status, _: -1 if status.members is None else status.members,
    Sort.LAG: lambda status, lag: -1 if (known := lag(status.group)) is None else known,
}


def summary_of(statuses: Sequence[GroupStatus], lag: Lag, page: Page) -> tuple[Row, Sequence[GroupStatus]]:
    """What is told of all groups, and those of the page, in its order; of the same rank by name.

    Told are ``total``, how many are at each step, in each state and with an alarm (of those whose broker does not
    answer one a broker), and ``lag``: the sum of what is known, in records, None where nothing is; ``matching``: how
    many fit what the page is of. With many groups it takes long: ``lag`` may be called in another thread.
    """
    meant = [each for each in statuses if _is_meant(each, page)]
    key = _SORTS[page.sort]
    meant.sort(key=lambda each: each.group)
    meant.sort(key=lambda each: key(each, lag), reverse=page.descending)
    silent = {each.alarm for each in statuses if each.members is None}  # a broker, whatever it has
    lags = [known for each in statuses if (known := lag(each.group)) is not None]
    head = {
        "total": len(statuses),
        "matching": len(meant),
        "offset": page.offset,
        "steps": {**dict.fromkeys(STEPS, 0), **Counter(each.step for each in statuses)},
        "states": dict(sorted(Counter(each.state for each in statuses).items())),
        "lag": sum(lags) if lags else None,
        "alarms": sum(bool(each.alarm) for each in statuses if each.members is not None) + len(silent),
    }
    return head, meant[page.offset : page.offset + page.limit]


def summary_row(status: GroupStatus, lag: Lag, recent: Recent) -> Row:
    """A status with ``step``, ``lag`` in records or None, and ``recent``: ``[ms since the epoch, lag or None]``, the
    oldest first, :data:`_POINTS` at most."""
    return {
        **status_row(status),
        "step": status.step,
        "lag": lag(status.group),
        "recent": _thinned(recent(status.group)),
    }


def _is_meant(status: GroupStatus, page: Page) -> bool:
    return (
        page.search.lower() in status.group.lower()
        and page.step in ("", status.step)
        and page.state in ("", status.state)
    )


def _thinned(samples: Sequence[Sample]) -> list[Sample]:
    """The newest is among them."""
    every = -(-len(samples) // _POINTS) or 1
    return list(samples)[::-1][::every][::-1]
