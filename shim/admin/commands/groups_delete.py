"""``groups delete``: groups with all their offsets."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import click

from shim.admin.commands.asking import Chosen, done_of
from shim.admin.commands.causes import cause_of
from shim.admin.commands.console import agree, in_one_line, print_table
from shim.admin.commands.shim_options import admin_option, cause_option, groups_argument, shim_at
from shim.admin.commands.telling import tell
from shim.admin.live.shown.documents import Row
from shim.config import HostPort
from shim.counted import counted
from shim.terminal.options import dry_run_option, json_option, yes_option


@click.command("delete", short_help="Delete groups with all their offsets.")
@partial(groups_argument, metavar="G...")
@dry_run_option
@cause_option("`groups history`, of groups that the shim serves, and the shim's log")
@yes_option
@admin_option
@json_option
@in_one_line
def delete_command(
    groups: tuple[str, ...], dry_run: bool, cause: str | None, yes: bool, admin: HostPort, json_wanted: bool
) -> None:
    """Delete groups with all their offsets, as DeleteGroups of an admin client does. Groups with members are refused,
    and the line names them: stop them, or wait until the session ends of one that is dead.

    A group whose offsets are in ZooKeeper, too, is deleted there as well. What was committed while the shim served it
    stays in the history, and so does who has deleted it: `groups reset G --from-history TIME --all-topics`, with a time
    before it was deleted, brings offsets back. On a terminal it asks first, unless --yes is given.

    Exit status: 0 all are deleted, 1 one or more are not, or it is not certain what was done, 2 none was tried: bad
    usage, or no shim there.

    \b
    offset-shim groups delete billing --dry-run
    offset-shim groups delete billing invoices --yes --cause 'change 4711'
    """
    if not groups:
        raise click.UsageError("Which groups? Name them.")
    names = tuple(dict.fromkeys(groups))
    agree(f"Delete {counted(len(names), 'group')} with all offsets?", names, yes=yes or dry_run)
    more: Row = {"dry_run": dry_run, "cause": cause_of("groups delete", cause)}
    tell(
        done_of(
            shim_at(admin),
            "delete",
            "/v1/groups/delete",
            Chosen(names, None),
            more,
            look=None if dry_run else "groups list",
        ),
        _show,
        json_wanted=json_wanted,
    )


def _show(rows: Sequence[Row]) -> None:
    outcome = {True: "deleted", False: "would be deleted"}
    print_table(
        ("GROUP", "OFFSETS", "OUTCOME"), [(row["group"], row["offsets"], outcome[row["deleted"]]) for row in rows]
    )
