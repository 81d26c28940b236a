"""``groups reset``: what would be set is shown, and then set if nothing has changed since."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import click

from shim.admin.admin_client import RunningShim
from shim.admin.commands.asking import of_one_group
from shim.admin.commands.causes import cause_of
from shim.admin.commands.console import (
    SOMETHING_WRONG,
    Failed,
    agree,
    in_one_line,
    number_shown,
    print_json,
    print_table,
    tell_beside,
)
from shim.admin.commands.history_elsewhere import has_history_elsewhere, tell_of_history_elsewhere
from shim.admin.commands.reset_options import by_history, scope_options, target_of, target_options
from shim.admin.commands.shim_options import admin_option, cause_option, group_argument, shim_at
from shim.admin.live.shown.documents import Row
from shim.config import HostPort
from shim.counted import counted
from shim.terminal.options import dry_run_option, json_option, yes_option
from shim.terminal.showing import shown
from shim.terminal.times import time_shown

_DEAD: Final = "Dead"


@click.command("reset", short_help="Set the committed offsets of a group without members.")
@group_argument
@target_options
@scope_options
@dry_run_option
@click.option("--execute", is_flag=True, hidden=True)  # Kafka's tool does nothing without
@cause_option("`groups history`, and in the shim's log")
@yes_option
@admin_option
@json_option
@in_one_line
@of_one_group()
def reset_command(
    group: str,
    topics: tuple[Row, ...],
    all_topics: bool,
    dry_run: bool,
    execute: bool,
    cause: str | None,
    yes: bool,
    admin: HostPort,
    json_wanted: bool,
    **given: Any,
) -> None:
    """Set the committed offsets of a group that has no members. Where it has some they are named: stop them, or wait
    until the session ends of one that is dead.

    The options are those of kafka-consumer-groups --reset-offsets, and so is what they mean: an offset that is out of
    the log's range becomes its start or its end, with a note. Unlike there, IT IS DONE without --execute: --dry-run
    only shows it. On a terminal it is shown and asked for before, unless --yes is given.

    Which offsets has to be said, by --topic or --all-topics; --from-file, --from-upstream and --undo say so themselves.
    TIME is in ISO 8601, in UTC where it names no zone, or in milliseconds since 1970.

    All offsets are set, or none, and each only if it is still what was shown. A group that is not there is made, as by
    Kafka's tool; a line on standard error says so, and in JSON `new_group`. Who did it is in the group's history:
    `groups history`. --undo puts back what the last reset has changed, and says which that is; once more, it puts
    back what the undo has changed. A reset by Kafka's own tool is a commit like others: --from-history takes that back.

    A group at a zookeeper step has them set in ZooKeeper, too. For one that is passed through the cluster's own
    coordinator sets them, which keeps no history: there is no --undo and no --from-history then.

    Exit status: 0 done, or shown; 1 the group is not there, or was refused (with --dry-run: would be), or it is not
    certain what was done, as the line says then; 2 nothing was done: bad usage, or no shim there.

    \b
    offset-shim groups reset billing --to-earliest --topic orders --dry-run
    offset-shim groups reset billing --to-datetime 2026-03-01T14:05 --all-topics --yes
    offset-shim groups reset billing --by-duration PT2H --topic orders:0,1 --topic bills
    offset-shim groups reset billing --shift-by -100 --all-topics --cause 'change 4711'
    offset-shim groups reset billing --from-file offsets.csv
    offset-shim groups reset billing --from-history 2026-03-01T14:05 --all-topics
    offset-shim groups reset billing --undo
    """
    if execute and dry_run:
        raise click.UsageError("Give --dry-run, or --execute: one of them.")
    question, options = target_of(given, group, topics, all_topics=all_topics)
    shim = shim_at(admin)
    planned = _planned(shim, question, dry_run=dry_run)
    plan, changing, is_new = planned
    if plan["hindrance"] and not dry_run:
        raise Failed(f"group {shown(group)}: {plan['hindrance']}")
    if not json_wanted:
        _show(planned)
    if dry_run:
        _end_dry_run(planned, json_wanted=json_wanted)
        return
    said = cause_of(f"groups reset {options}", cause)
    if changing:
        agree(f"{_to_do(changing).capitalize()} of group {shown(group)}?", yes=yes)
        look = f"groups describe {shlex.quote(group)}"
        offsets = [{name: row[name] for name in ("topic", "partition", "offset", "new_offset")} for row in changing]
        shim.change("/v1/groups/reset", {"group": group, "offsets": offsets, "cause": said}, look)
    if json_wanted:
        print_json({**plan, "new_group": is_new, "dry_run": False, "cause": said})
    else:
        click.echo(_done(changing), err=True)
        if is_new:
            click.echo(f"group {shown(group)} is new", err=True)


class _Planned(NamedTuple):
    """``plan``: the shim's. ``changing``: those of its offsets that would be set. ``is_new``: they would make the
    group, whose name was misspelt as a rule."""

    plan: Row
    changing: Sequence[Row]
    is_new: bool


def _planned(shim: RunningShim, question: Row, *, dry_run: bool) -> _Planned:
    if by_history(question) and has_history_elsewhere(shim):  # first, as it may be why there is nothing to be set
        tell_of_history_elsewhere()
    plan: Row = shim.ask("/v1/groups/reset/plan", question, [("dry_run", "true")] if dry_run else ())
    # What is committed is committed once more where that is asked for: the cluster may keep another one until then.
    again = "to_current" in question
    changing = [row for row in plan["offsets"] if again or row["offset"] != row["new_offset"]]
    return _Planned(plan, changing, plan["state"] == _DEAD and bool(changing))


def _end_dry_run(planned: _Planned, *, json_wanted: bool) -> None:
    """Exits with 1 where it would be refused."""
    plan, _, is_new = planned
    if json_wanted:
        print_json({**plan, "new_group": is_new, "dry_run": True})
    if plan["hindrance"]:
        tell_beside(f"it would be refused now: {shown(plan['hindrance'])}")
        sys.exit(SOMETHING_WRONG)


def _set_and_deleted(changing: Sequence[Row]) -> tuple[int, int]:
    """How many offsets are set, and how many deleted, as by an undo of what there was nothing before."""
    deleted = sum(row["new_offset"] is None for row in changing)
    return len(changing) - deleted, deleted


def _to_do(changing: Sequence[Row]) -> str:
    counts = zip(("set", "delete"), _set_and_deleted(changing), strict=True)
    return " and ".join(f"{verb} {counted(count, 'offset')}" for verb, count in counts if count) or "nothing to set"


def _done(changing: Sequence[Row]) -> str:
    placed, deleted = _set_and_deleted(changing)
    told = [f"{counted(placed, 'offset')} set"] if placed or not deleted else []
    return ", ".join([*told, f"{counted(deleted, 'offset')} deleted"] if deleted else told)


def _show(planned: _Planned) -> None:
    plan, changing, is_new = planned
    if undone := plan.get("undoes"):  # an older shim does not tell
        click.echo(f"{_undone_shown(undone)}; now: {_to_do(changing)}")
    print_table(
        ("TOPIC", "PARTITION", "OFFSET", "NEW-OFFSET", "NOTE"),
        [
            (
                *(row["topic"], row["partition"], number_shown(row["offset"]), number_shown(row["new_offset"])),
                row["note"] or ("" if row in changing else "stays"),
            )
            for row in plan["offsets"]
        ],
    )
    if is_new:
        click.echo(f"group {shown(plan['group'])} has no offsets here: a reset makes the group", err=True)


def _undone_shown(undone: Row) -> str:
    when, which = time_shown(undone["time_ms"]), f"{shown(undone['cause'])}; from {shown(undone['client_host'])}"
    return f"undoes the reset of {counted(undone['offsets'], 'offset')} at {when} ({which})"
