"""Groups of a running shim, with how far they are behind."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from shim.admin.admin_client import RunningShim
from shim.admin.commands.console import SOMETHING_WRONG, tell_beside
from shim.admin.commands.telling import groups_shown, not_all_shown
from shim.admin.errors import NotDone
from shim.admin.live.shown.documents import Row
from shim.terminal.showing import shown


def with_lags(shim: RunningShim, query: Sequence[tuple[str, str]]) -> tuple[list[Row], Sequence[str]]:
    """All groups, and lines about what cannot be told now: the lag of some, or some of the groups."""
    try:
        found = shim.get("/v1/groups/lag", query)
    except NotDone as error:  # what else is known is told
        rows, untold = without_lags(shim, query)
        return [{**row, "lag": None} for row in rows], [*untold, f"no lag: {shown(str(error))}"]
    rows = found["groups"]
    if any("state" not in row for row in rows):  # an older shim tells no more than the lag
        lags = {row["group"]: row for row in rows}
        rows = [{"lag": None, **row, **lags.get(row["group"], {})} for row in shim.get("/v1/groups", query)["groups"]]
    by_reason: dict[str, list[Row]] = {}
    for row in rows:
        if why := row.get("why"):  # which an older shim does not say
            by_reason.setdefault(why, []).append(row)
    no_lag = [f"no lag of {groups_shown(its)}: {shown(why)}" for why, its in by_reason.items()]
    return rows, [*_left_out(found), *no_lag]


def without_lags(shim: RunningShim, query: Sequence[tuple[str, str]]) -> tuple[list[Row], Sequence[str]]:
    """Likewise, where nobody asks how far they are behind."""
    found = shim.get("/v1/groups", query)
    return found["groups"], _left_out(found)


def _left_out(found: Row) -> list[str]:
    return [not_all_shown(line) for line in found.get("unanswered", ())]


def end_where_untold(lines: Sequence[str]) -> None:
    """Says on standard error what could not be told of what was asked for, and exits with 1 where there is any."""
    for line in lines:
        tell_beside(line)
    if lines:
        sys.exit(SOMETHING_WRONG)
