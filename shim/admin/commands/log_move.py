"""``log move``: the partitions of a running shim's log, from its data directory to topics of the cluster, or back."""

from __future__ import annotations

import sys
from typing import Any

import click

from shim.admin.admin_client import RunningShim
from shim.admin.commands.console import SOMETHING_WRONG, in_one_line, print_json, print_table
from shim.admin.commands.shim_options import admin_option, shim_at
from shim.admin.errors import BrokenOff, NotDone
from shim.config import HostPort
from shim.counted import counted
from shim.relocation.words import Side
from shim.terminal.options import json_option
from shim.terminal.progress import Ongoing
from shim.terminal.showing import shown


@click.command("move", short_help="Move a running shim's log to topics of the cluster, or back.")
@click.option("--to", type=click.Choice(list(map(str, Side))), help="Where to. Default: only say where partitions are.")
@admin_option
@json_option
@in_one_line
def move_command(to: str | None, admin: HostPort, json_wanted: bool) -> None:
    """Move the log of a running shim, that was started with offsets.log=moving, to topics of the cluster (kafka), or
    into its data directory (local), one partition after the other. Without --to: say where each partition is. A shim
    that was started otherwise has its log in one place: a line says in which, and the exit status is 2.

    While a partition is moved, clients of its groups are told to ask again (COORDINATOR_LOAD_IN_PROGRESS). It is read
    back and compared before it is served from there. Offsets, groups and their members, transactions that are open, and
    in whose hands groups are come along; the history of commits before the move stays where it was, and `groups
    history` does not show it from then on.

    It goes on in the shim when this command is stopped; the same command watches it, and does what was not done.

    Exit status 1 when a partition is not moved: it is served from where it was; and when the command is stopped.

    \b
    offset-shim log move
    offset-shim log move --to kafka
    """
    shim = shim_at(admin)
    found = shim.get("/v1/log/places") if to is None else _moved(shim, to)
    _tell(found, json_wanted=json_wanted)
    if to is None:
        return
    if warning := found.get("warning"):
        click.echo(f"Warning: {shown(warning)}", err=True)
    if left := [each for each in found["partitions"] if each["log"] != to]:
        for each in left:
            click.echo(f"__consumer_offsets-{each['partition']} is not moved: {shown(each['trouble'])}", err=True)
        sys.exit(SOMETHING_WRONG)
    click.echo(
        f"all is in one place: the shim may be started with offsets.log={to}. The history of commits before the move "
        "stays where it was",
        err=True,
    )


def _moved(shim: RunningShim, to: str) -> Any:
    """Where partitions are when that is over."""
    found = shim.change("/v1/log/move", {"to": to}, "log move")
    left = _left(found, to)
    try:
        with Ongoing(f"to {to}", left) as ongoing:
            while found["to"] is not None:
                found = shim.get("/v1/log/places", [("turn", str(found["turn"]))])
                ongoing.advance(left - (left := _left(found, to)))
    except KeyboardInterrupt:
        click.echo("stopped looking; the shim goes on, and the same command watches it again", err=True)
        sys.exit(SOMETHING_WRONG)
    except NotDone as error:
        raise BrokenOff(f"{error}. Partitions were being moved: once it runs, give this command again") from error
    return found


def _left(found: Any, to: str) -> int:
    return sum(each["log"] != to for each in found["partitions"])


def _tell(found: Any, *, json_wanted: bool) -> None:
    partitions = found["partitions"]
    if json_wanted:
        print_json({"partitions": partitions, "to": found["to"], "warning": found.get("warning", "")})
        return
    print_table(
        ("PARTITION", "LOG", "TROUBLE"),
        [(each["partition"], each["log"], each["trouble"] or "-") for each in partitions],
    )
    if found["to"] is not None:
        click.echo(f"{counted(_left(found, found['to']), 'partition')} being moved to {found['to']}", err=True)
