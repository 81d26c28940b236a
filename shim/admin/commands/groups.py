"""``offset-shim groups``: groups as a running shim sees them, those that it passes through among them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import click

from shim.admin.commands.console import in_one_line, number_shown, print_json, print_table, tell_beside
from shim.admin.commands.groups_delete import delete_command
from shim.admin.commands.groups_describe import describe_command
from shim.admin.commands.groups_history import history_command
from shim.admin.commands.groups_reset import reset_command
from shim.admin.commands.groups_watch import watch_command
from shim.admin.commands.lags import end_where_untold, with_lags, without_lags
from shim.admin.commands.migration_shown import tell_alarms
from shim.admin.commands.shim_options import admin_option, pattern_option, shim_at
from shim.admin.commands.telling import name_shown, none_heard_of, tell_of_others
from shim.admin.live.shown.documents import Row
from shim.admin.live.shown.migration_rows import step_of
from shim.config import HostPort
from shim.counted import counted
from shim.terminal.options import json_option
from shim.terminal.times import since_shown


@click.group("groups", short_help="Look at groups of a running shim, reset and delete them.")
def groups_commands() -> None:
    """Look at the groups of a running shim, reset their offsets, delete them.

    The shim has to run with --admin. Exit status: 0 done, or shown; 1 a group is not there or was refused, a lag that
    was asked for cannot be told, or it is not certain what was done; 2 nothing was done: bad usage, or no shim there.

    \b
    offset-shim groups list --lag                            # all, with how far they are behind
    offset-shim groups describe billing                      # members, offsets, lag, who committed last
    offset-shim groups history billing --last 20             # who moved which offset when
    offset-shim groups reset billing --to-earliest --topic orders --dry-run
    offset-shim groups reset billing --undo
    offset-shim groups watch billing
    offset-shim groups delete billing
    """


@groups_commands.command("list", short_help="All groups, a line each.")
@pattern_option
@click.option("--lag", "lag_wanted", is_flag=True, help="Ask the brokers how far each is behind: in records, in all.")
@admin_option
@json_option
@in_one_line
def list_command(pattern: str | None, lag_wanted: bool, admin: HostPort, json_wanted: bool) -> None:
    """All groups, a line each: at which step, in what state, of what type, with how many members.

    STEP is where a group's offsets are, with +dual where another place has them, too: `offset-shim migrate --help` says
    more of each. LAG is of all partitions with a committed offset together; `-` where there is none, or where not all
    log ends can be told: standard error says why not, and the exit status is 1. One that is consumed and not committed
    yet has no lag: `groups describe` shows it as `-`, as kafka-consumer-groups does. What is amiss with a group, its
    alarm, stands on standard error; so does why its state is Unknown and MEMBERS is `-`: the broker that has the group
    does not answer. SINCE is when the group came to its STATE; `-` where nobody knows, as of one that is passed
    through: its coordinator does not tell. A line on standard error says of which groups members are silent: `groups
    describe` has who.

    \b
    offset-shim groups list
    offset-shim groups list --pattern 'etl-*' --lag --json
    """
    shim, query = shim_at(admin), () if pattern is None else [("pattern", pattern)]
    rows, untold = (with_lags if lag_wanted else without_lags)(shim, query)
    tell_of_others(shim)
    if json_wanted:
        print_json({"groups": rows})
    else:
        _show_groups(rows, lag_wanted=lag_wanted, pattern=pattern, are_all=not untold)
    end_where_untold(untold)


def _show_groups(groups: Sequence[Row], *, lag_wanted: bool, pattern: str | None, are_all: bool) -> None:
    rows = [
        (
            *(row["group"], step_of(row), row["state"], row["type"], number_shown(row["members"])),
            *((number_shown(row["lag"]),) if lag_wanted else ()),
            since_shown(row.get("state_since_ms")),  # which an older shim does not say
        )
        for row in groups
    ]
    if rows:
        headings = ("GROUP", "STEP", "STATE", "TYPE", "MEMBERS", *(("LAG",) if lag_wanted else ()), "SINCE")
        print_table(headings, rows)
        tell_alarms(groups)
        for row in groups:
            if silent := row.get("silent_members"):  # which an older shim does not say
                says = f"`groups describe {shlex.quote(row['group'])}` says who"
                tell_beside(f"{name_shown(row)}: {silent} of {counted(row['members'], 'member')} silent: {says}")
    elif are_all:
        tell_beside(none_heard_of(pattern))


for _command in (describe_command, history_command, reset_command, delete_command, watch_command):
    groups_commands.add_command(_command)
