"""``offset-shim groups``: groups as a running shim sees them, those that it passes through among them."""

from __future__ import annotations

import click

from shim.admin.commands.console import (
    count_shown,
    in_one_line,
    json_option,
    print_json,
    print_table,
    shown,
)
from shim.admin.commands.migration_shown import lag_shown
from shim.admin.commands.records_shown import time_shown
from shim.admin.commands.running_shim import admin_option, group_argument, pattern_option
from shim.admin.live.asking import RunningShim
from shim.config import HostPort


@click.group("groups")
def groups_commands() -> None:
    """Look at the groups of a running shim.

    The shim has to run with --admin. Exit status: 0 shown, 1 there is no such group, 2 bad usage, or no shim there.

    \b
    offset-shim groups list
    offset-shim groups describe billing
    """


@groups_commands.command("list")
@pattern_option
@admin_option
@json_option
@in_one_line
def list_command(pattern: str | None, admin: HostPort, json_wanted: bool) -> None:
    """All groups, a line each: in whose hands, in what state, with how many members.

    OFFSETS.STORAGE is where a group's offsets are, by the step at which it is: `offset-shim migrate --help` says more.

    \b
    offset-shim groups list
    offset-shim groups list --pattern 'etl-*' --json
    """
    document = RunningShim(admin).get("/v1/groups", () if pattern is None else [("pattern", pattern)])
    if json_wanted:
        print_json(document)
        return
    rows = [(row["group"], row["offsets_storage"], row["state"], row["members"]) for row in document["groups"]]
    if rows:
        print_table(("GROUP", "OFFSETS.STORAGE", "STATE", "MEMBERS"), rows)
    else:
        click.echo("no group", err=True)


@groups_commands.command("describe")
@group_argument
@admin_option
@json_option
@in_one_line
def describe_command(group: str, admin: HostPort, json_wanted: bool) -> None:
    """One group, and its committed offsets.

    \b
    offset-shim groups describe billing
    offset-shim groups describe -- -starts-with-a-dash
    """
    row = RunningShim(admin).get("/v1/groups/describe", [("group", group)])
    if json_wanted:
        print_json(row)
        return
    click.echo(f"group: {shown(row['group'])}")
    click.echo(f"offsets.storage: {row['offsets_storage']}")
    click.echo(f"dual.commit.enabled: {'true' if row['dual_commit_enabled'] else 'false'}")
    click.echo(f"lag: {lag_shown(row)}")
    if row["alarm"]:
        click.echo(f"alarm: {shown(row['alarm'])}")
    click.echo(f"state: {shown(row['state'])}, {count_shown(row['members'], 'member')}")
    if row["changed_ms"] is not None:
        click.echo(f"since: {time_shown(row['changed_ms'])}, {shown(row['cause'])}")
    if row["offsets"]:
        print_table(
            ("TOPIC", "PARTITION", "OFFSET"), [(at["topic"], at["partition"], at["offset"]) for at in row["offsets"]]
        )
    else:
        click.echo("no offsets")
