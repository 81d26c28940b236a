"""``groups history``: who moved which offset of a group when."""

from __future__ import annotations

import click

from shim.admin.commands.asking import of_one_group
from shim.admin.commands.console import in_one_line, print_json, print_table
from shim.admin.commands.history_elsewhere import (
    HISTORY_ELSEWHERE,
    has_history_elsewhere,
    tell_of_commits_at_the_cluster,
)
from shim.admin.commands.shim_options import admin_option, group_argument, shim_at
from shim.admin.live.shown.documents import Row
from shim.config import HostPort
from shim.terminal.options import json_option
from shim.terminal.showing import shown
from shim.terminal.times import time_option, time_shown


def _topic(text: str) -> str:
    """As it is. Raises BadParameter where it is none: no topic would have moved."""
    if ":" in text:
        raise click.BadParameter(f"{text!r}: no topic has a colon in its name; of one partition: --partition orders:3")
    return text


def _partition(text: str) -> str:
    """As it is. Raises BadParameter where it is none."""
    topic, _, number = text.rpartition(":")
    if not topic or not (number.isascii() and number.isdigit()):
        raise click.BadParameter(f"{text!r}: a topic and a number, as in orders:3")
    return text


@click.command("history", short_help="Who moved or deleted which offset of a group, and when.")
@group_argument
@click.option(
    "--topic", "topics", multiple=True, type=_topic, metavar="T", help="This topic alone; may be given many times."
)
@click.option(
    "--partition",
    "partitions",
    multiple=True,
    type=_partition,
    metavar="T:N",
    help="This partition alone; may be given many times.",
)
@time_option("--since", "since_ms", text="From then on: ISO 8601, in UTC where it names no zone, or milliseconds.")
@click.option("--last", type=click.IntRange(1, 10**9), metavar="N", help="The newest N alone.")
@click.option("--all-commits", is_flag=True, help="Also the commits that moved nothing.")
@admin_option
@json_option
@in_one_line
@of_one_group()
def history_command(
    group: str,
    topics: tuple[str, ...],
    partitions: tuple[str, ...],
    since_ms: int | None,
    last: int | None,
    all_commits: bool,
    admin: HostPort,
    json_wanted: bool,
) -> None:
    """Who moved or deleted which offset of a group, and when: the oldest first.

    Of every commit the shim keeps who made it, for offsets.history.retention.minutes (7 days). Commits of the offset
    that was there before are left out, unless --all-commits is given. FROM is that offset: `-` for the first that the
    history has of a partition, where it cannot tell what was before, or whether anything was; `none` where a reset
    found none. CAUSE is why, of what was set with `groups reset`. TO is `deleted` where an offset is there no more:
    the one of FROM was deleted, alone or with its group, or has expired, as CAUSE says. What was committed while the
    cluster served the group is not in it, as standard error says where the cluster has it now. A group that nobody has
    heard of ends it with 1.

    \b
    offset-shim groups history billing --last 20
    offset-shim groups history billing --topic orders --since 2026-03-01T14:05
    offset-shim groups history billing --partition orders:3 --all-commits
    offset-shim groups history billing --json
    """
    query = [("group", group), *(("topic", topic) for topic in topics)]
    query += [("partition", each) for each in partitions]
    if all_commits:
        query.append(("all", "true"))
    query += [(name, str(value)) for name, value in (("since_ms", since_ms), ("last", last)) if value is not None]
    shim = shim_at(admin)
    document = shim.get("/v1/groups/history", query)
    if json_wanted:
        print_json(document)
    elif document["moves"]:
        print_table(
            ("TIME", "TOPIC", "PARTITION", "FROM", "TO", "CLIENT-ID", "HOST", "PRINCIPAL", "CAUSE"),
            [
                (
                    *(time_shown(row["time_ms"]), row["topic"], row["partition"], _from_shown(row), _to_shown(row)),
                    *(row["client_id"] or "-", row["client_host"] or "-", row["principal"] or "-", row["cause"]),
                )
                for row in document["moves"]
            ],
        )
    else:
        what = "commit" if all_commits else "move"
        of = f" of {', '.join(map(shown, (*topics, *partitions)))}" if topics or partitions else ""
        since = "" if since_ms is None else f" since {time_shown(since_ms)}"
        more = "" if all_commits else " (--all-commits shows also what moved nothing)"
        elsewhere = f"; {HISTORY_ELSEWHERE}" if has_history_elsewhere(shim) else ""
        click.echo(f"group {shown(group)}: the history has no {what}{of}{since}{more}{elsewhere}", err=True)
    tell_of_commits_at_the_cluster(shim, group)


def _from_shown(row: Row) -> int | str:
    before: int | None = row["from"]
    if before is None:
        return "-"
    return "none" if before == -1 else before


def _to_shown(row: Row) -> int | str:
    offset: int = row["to"]
    return "deleted" if row.get("deleted") else offset  # an older shim's history has no deletions
