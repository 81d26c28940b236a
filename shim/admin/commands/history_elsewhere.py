"""What is said where a history is asked for, and a part of what was committed is not in it."""

from __future__ import annotations

from typing import Final

import click

from shim.admin.admin_client import RunningShim
from shim.admin.commands.asking import overview_of
from shim.admin.errors import NotDone
from shim.admin.live.asked.migration import NotKnown
from shim.admin.live.shown.documents import Row
from shim.terminal.showing import shown

HISTORY_ELSEWHERE: Final = (
    "this log is moved between two places, or was: what was committed while a partition was at the other one is in the "
    "history there, which is not looked at (docs/log-on-topics.md, Moving there and back)"
)

AT_THE_CLUSTER: Final = (
    "the group is the cluster's now (it is passed through): its commits there are not in the history"
)


def has_history_elsewhere(shim: RunningShim) -> bool:
    """As far as the shim knows."""
    return bool(overview_of(shim)["log_moves"])


def tell_of_history_elsewhere() -> None:
    """On standard error, beside what was found."""
    click.echo(HISTORY_ELSEWHERE, err=True)


def is_passed_through(row: Row) -> bool:
    """Of a group's status."""
    return row["offsets_storage"] == "upstream" and not row["dual_commit_enabled"]


def tell_of_commits_at_the_cluster(shim: RunningShim, group: str) -> None:
    """On standard error, beside what was found."""
    try:
        (row,) = shim.get("/v1/groups", [("group", group)])["groups"]
    except NotKnown:  # it is gone, and in the history
        return
    except NotDone as error:  # what was found is told
        click.echo(f"whether the group is the cluster's now is not known: {shown(str(error))}", err=True)
        return
    if is_passed_through(row):
        click.echo(AT_THE_CLUSTER, err=True)
