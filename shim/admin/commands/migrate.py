"""``offset-shim migrate``: groups are moved, between the places where their offsets can be, by a running shim."""

from __future__ import annotations

import click

from shim.admin.commands.migrate_looks import plan_command, status_command, verify_command
from shim.admin.commands.migrate_moves import advance_command, rollback_command, start_command


@click.group("migrate", short_help="Move groups between ZooKeeper, the shim and the cluster.")
def migrate_commands() -> None:
    """Move groups, a step at a time, between ZooKeeper, a running shim and the cluster's own coordinator.

    The steps in their order, each with its offsets.storage, and "+dual" where dual.commit.enabled is true:

    \b
    zookeeper        its offsets are in ZooKeeper
    zookeeper+dual   in ZooKeeper, which is right where the two differ, and in the shim's log
    kafka+dual       in the shim's log, which is right where the two differ, and in ZooKeeper
    kafka            in the shim's log; the shim serves the group
    upstream+dual    in the shim's log, and in the cluster's own offsets before a commit is answered
    upstream         in the cluster's own: the group is passed through to the cluster's coordinator

    `start` is the first step: from zookeeper to zookeeper+dual; a group that is passed through, from upstream to kafka:
    the shim takes it over with its offsets and members. `advance` is one step on, `rollback` one step back; a group
    that was taken over from the cluster's coordinator goes back there. `advance --all` and `--pattern` never move a
    group out of plain kafka, where it can stay: that has to be named.

    No client has to be restarted for any of them. What would lose or invent an offset is refused.

    The shim has to run with --admin. Exit status: 0 all is done; 1 a group was refused or is not there, has a
    hindrance, differs, or is shown by `status` with something amiss, or it is not certain what was done: look with
    `migrate status`; 2 none was tried: bad usage, a pattern that fits none, or no shim there.

    \b
    offset-shim migrate plan                     # what could be started now, and what stands in the way
    offset-shim migrate start billing            # one group
    offset-shim migrate status billing
    offset-shim migrate verify billing && offset-shim migrate advance billing
    offset-shim migrate rollback billing
    offset-shim migrate start --pattern 'etl-*' --yes
    """


for _command in (plan_command, status_command, start_command, advance_command, verify_command, rollback_command):
    migrate_commands.add_command(_command)
