"""``offset-shim migrate``: groups change hands, between the cluster's own coordinator and a running shim."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from shim.admin.commands.console import (
    SOMETHING_WRONG,
    Refused,
    count_shown,
    in_one_line,
    json_option,
    print_table,
    yes_option,
)
from shim.admin.commands.records_shown import time_shown
from shim.admin.commands.running_shim import (
    Chosen,
    Done,
    admin_option,
    all_option,
    cause_option,
    chosen,
    done_of,
    groups_argument,
    may_move,
    pattern_option,
    tell,
)
from shim.admin.live.as_json import Row
from shim.admin.live.asking import RunningShim
from shim.config import HostPort


@click.group("migrate")
def migrate_commands() -> None:
    """Move groups between the cluster's own coordinator and a running shim.

    A group is passed through (offsets.storage=upstream: the cluster's coordinator serves it) or served by the shim
    (offsets.storage=kafka). `start` has the shim take it over, with its offsets and its members; `rollback` hands it
    back. No client has to be restarted for either. What would lose or invent an offset is refused.

    The shim has to run with --admin. Exit status: 0 all is done, 1 something was refused, 2 nothing was done: bad
    usage, or no shim there.

    \b
    offset-shim migrate plan                     # what could be taken over now, and what stands in the way
    offset-shim migrate start billing            # one group
    offset-shim migrate status billing
    offset-shim migrate rollback billing
    offset-shim migrate start --pattern 'etl-*' --yes
    """


@migrate_commands.command("plan")
@groups_argument
@pattern_option
@all_option
@admin_option
@json_option
@in_one_line
def plan_command(
    groups: tuple[str, ...], pattern: str | None, all_wanted: bool, admin: HostPort, json_wanted: bool
) -> None:
    """Say what `start` would find now, and change nothing. Without groups: all that are passed through.

    HERE is how many of a group's members have come through this shim lately: a group can be taken over when it is
    empty, or when all are. OFFSETS is how many partitions have an offset that would be adopted. Where HINDRANCE is
    empty, `start` would go through.

    Exit status 1 when any of the groups has a hindrance.

    \b
    offset-shim migrate plan
    offset-shim migrate plan billing && offset-shim migrate start billing
    offset-shim migrate plan --pattern 'etl-*' --json
    """
    choice = chosen(groups, pattern, all_wanted, otherwise_all=True)
    done = done_of(RunningShim(admin), "plan", "/v1/migrate/plan", choice)
    tell(done, _show_planned, json_wanted=json_wanted)
    if any(row["hindrance"] for row in done.rows):
        sys.exit(SOMETHING_WRONG)


@migrate_commands.command("status")
@groups_argument
@pattern_option
@all_option
@admin_option
@json_option
@in_one_line
def status_command(
    groups: tuple[str, ...], pattern: str | None, all_wanted: bool, admin: HostPort, json_wanted: bool
) -> None:
    """Say in whose hands groups are, since when and why. Without groups: all.

    \b
    offset-shim migrate status
    offset-shim migrate status billing --json
    """
    choice = chosen(groups, pattern, all_wanted, otherwise_all=True)
    done = done_of(RunningShim(admin), "status", "/v1/migrate/status", choice)
    tell(done, _show_statuses, json_wanted=json_wanted)


@migrate_commands.command("start")
@groups_argument
@pattern_option
@all_option
@cause_option
@yes_option
@admin_option
@json_option
@in_one_line
def start_command(
    groups: tuple[str, ...],
    pattern: str | None,
    all_wanted: bool,
    cause: str | None,
    yes: bool,
    admin: HostPort,
    json_wanted: bool,
) -> None:
    """Have the shim take groups over, with their offsets; their members join again by themselves.

    A group with members takes as long as a rebalance. --pattern and --all mean groups that are passed through. On a
    terminal it asks first where there is more than one group, unless --yes is given. When it is broken off, groups
    under way are brought to an end and no others begun; begin again as often as you like.

    \b
    offset-shim migrate start billing --cause 'change 4711'
    offset-shim migrate start billing invoices
    offset-shim migrate start --pattern 'etl-*'
    offset-shim migrate start --all --yes --json
    """
    shim = RunningShim(admin)
    choice = _to_move(shim, chosen(groups, pattern, all_wanted, otherwise_all=False), "upstream")
    _move(shim, "start", "Take over", choice, cause or "migrate start", yes=yes, json_wanted=json_wanted)


@migrate_commands.command("rollback")
@groups_argument
@pattern_option
@all_option
@cause_option
@yes_option
@admin_option
@json_option
@in_one_line
def rollback_command(
    groups: tuple[str, ...],
    pattern: str | None,
    all_wanted: bool,
    cause: str | None,
    yes: bool,
    admin: HostPort,
    json_wanted: bool,
) -> None:
    """Hand groups back to the cluster's own coordinator, with their offsets; their members join again by themselves.

    --pattern and --all mean groups that the shim serves, those that began there among them. Otherwise as `start`.

    \b
    offset-shim migrate rollback billing --cause 'the dashboard is wrong'
    offset-shim migrate rollback --all --yes
    """
    shim = RunningShim(admin)
    choice = _to_move(shim, chosen(groups, pattern, all_wanted, otherwise_all=False), "kafka")
    _move(shim, "rollback", "Hand back", choice, cause or "migrate rollback", yes=yes, json_wanted=json_wanted)


def _to_move(shim: RunningShim, choice: Chosen, storage: str) -> tuple[str, ...]:
    """By name, so that what somebody said yes to is what is moved. Raises Refused for a pattern that nothing fits."""
    if choice.names:
        return choice.names
    rows = shim.get("/v1/groups", () if choice.pattern is None else [("pattern", choice.pattern)])["groups"]
    if choice.pattern is not None and not rows:
        raise Refused(f"no group fits {choice.pattern}")
    return tuple(row["group"] for row in rows if row["offsets_storage"] == storage)


def _move(
    shim: RunningShim, step: str, doing: str, groups: tuple[str, ...], cause: str, *, yes: bool, json_wanted: bool
) -> None:
    if not groups:
        tell(Done([], [], None), _show_statuses, json_wanted=json_wanted)
        return
    may_move(f"{doing} {count_shown(len(groups), 'group')}?", groups, yes=yes)
    done = done_of(shim, step, f"/v1/migrate/{step}", Chosen(groups, None), cause)
    tell(done, _show_statuses, json_wanted=json_wanted)


# --- what is shown ---------------------------------------------------------------------------------------------------


def _show_planned(rows: Sequence[Row]) -> None:
    print_table(
        ("GROUP", "STATE", "MEMBERS", "HERE", "OFFSETS", "HINDRANCE"),
        [
            (row["group"], row["state"], row["members"], row["members_here"], row["offsets"], row["hindrance"])
            for row in rows
        ],
    )


def _show_statuses(rows: Sequence[Row]) -> None:
    print_table(
        ("GROUP", "OFFSETS.STORAGE", "DUAL.COMMIT.ENABLED", "STATE", "MEMBERS", "SINCE", "CAUSE"),
        [
            (
                row["group"],
                row["offsets_storage"],
                "true" if row["dual_commit_enabled"] else "false",
                row["state"],
                row["members"],
                "-" if row["changed_ms"] is None else time_shown(row["changed_ms"]),
                row["cause"],
            )
            for row in rows
        ],
    )
