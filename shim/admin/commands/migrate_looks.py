"""``migrate plan``, ``status`` and ``verify``: they change nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TypedDict, Unpack

import click

from shim.admin.commands.asking import chosen, done_of, refuse_misspelt
from shim.admin.commands.console import SOMETHING_WRONG, in_one_line
from shim.admin.commands.migration_shown import show_planned, show_statuses, show_verified
from shim.admin.commands.shim_options import admin_option, all_option, groups_argument, pattern_option, shim_at
from shim.admin.commands.telling import fitting_shown, none_heard_of, tell, tell_of_others
from shim.admin.live.shown.documents import Row
from shim.config import HostPort
from shim.terminal.options import Command, json_option


class _Given(TypedDict):
    groups: tuple[str, ...]
    pattern: str | None
    all_wanted: bool
    admin: HostPort
    json_wanted: bool


def _look_options(command: Command) -> Command:
    """Those of :class:`_Given`."""
    return groups_argument(pattern_option(all_option(admin_option(json_option(command)))))


@click.command("plan", short_help="Say what `start` would find now, and change nothing.")
@_look_options
@in_one_line
def plan_command(**given: Unpack[_Given]) -> None:
    """Say what `start` would find now, and change nothing. Without groups: all that it could be about, those among them
    that the cluster or ZooKeeper has and the shim has not heard of.

    OFFSETS.STORAGE is where a group's offsets are: of one that is named, and served by the shim already, as `status`
    has it. HERE is how many of its members have come through this shim lately:
    a group can be taken over when it is empty, or when all are. OFFSETS is how many partitions have an offset that
    would be adopted, or, of such a one, that the shim has. Where HINDRANCE is empty, `start` would go through.

    Where a broker does not answer, what the others have is shown, and standard error says which has not: there may be
    more groups.

    Exit status 1 when any of the groups has a hindrance, or not all are known. Of groups that are not named those do
    not count whose clients have another protocol (consumer, streams): `start --all` leaves them alone, too.

    \b
    offset-shim migrate plan
    offset-shim migrate plan billing && offset-shim migrate start billing
    offset-shim migrate plan --pattern 'etl-*' --json
    """
    _look("plan", given, show_planned, amiss="hindrance", otherwise="is left to be started")


@click.command("status", short_help="Say at which step groups are, since when and why.")
@_look_options
@in_one_line
def status_command(**given: Unpack[_Given]) -> None:
    """Say at which step groups are, since when and why. Without groups: all.

    BEHIND is for how long the oldest change waits that another place is yet to have, and "-" where none waits. What is
    amiss, such as clients that go past the shim, stands on standard error, a line a group, and in JSON as its alarm.

    Exit status 1 when anything is amiss with any of the groups.

    \b
    offset-shim migrate status
    offset-shim migrate status billing --json
    """
    _look("status", given, show_statuses, amiss="alarm")


@click.command("verify", short_help="Compare offsets in all their places.")
@_look_options
@in_one_line
def verify_command(**given: Unpack[_Given]) -> None:
    """Compare offsets in all their places.

    Those in the shim's log with those in each other place that a group's step keeps them in; nothing is changed.
    Without groups: all that the shim serves.

    OFFSETS is how many were compared, DIFFERING how many are not the same; below, there is a line for each of these,
    with the offset in the log, and the one elsewhere, and where that is. Of a group that commits meanwhile, look again.

    Exit status 1 when anything differs or could not be compared.

    \b
    offset-shim migrate verify
    offset-shim migrate verify billing && offset-shim migrate advance billing
    offset-shim migrate verify --pattern 'etl-*' --json
    """
    _look("verify", given, show_verified, amiss="differing", otherwise="is served by the shim")


def _look(
    what: str, given: _Given, show: Callable[[Sequence[Row]], None], *, amiss: str, otherwise: str | None = None
) -> None:
    """Exits with 1 where a row has something under ``amiss``. ``otherwise``: what no group is, where there is none to
    show; None: none is heard of."""
    choice = chosen(given["groups"], given["pattern"], given["all_wanted"], otherwise_all=True)
    shim = shim_at(given["admin"])
    done = done_of(shim, what, f"/v1/migrate/{what}", choice)
    if not choice.names:
        tell_of_others(shim)
    refuse_misspelt(shim, choice, done)
    none = f"no group{fitting_shown(choice)} {otherwise}: `migrate status` says where each is"
    tell(done, show, json_wanted=given["json_wanted"], none_of_them=none_heard_of() if otherwise is None else none)
    left_alone = {row["group"] for row in done.left_alone}
    if any(row[amiss] for row in done.rows if row["group"] not in left_alone):
        sys.exit(SOMETHING_WRONG)
