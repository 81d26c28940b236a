"""``groups describe``: one group in detail."""

from __future__ import annotations

import re
from typing import Final

import click

from protocol.group_kinds import SHARE
from protocol.own.history_log import READ_IN_ZOOKEEPER
from shim.admin.commands.asking import of_one_group
from shim.admin.commands.console import in_one_line, number_shown, print_json, print_table
from shim.admin.commands.hints import pasteable
from shim.admin.commands.history_elsewhere import is_passed_through
from shim.admin.commands.lags import end_where_untold
from shim.admin.commands.migration_shown import behind_shown
from shim.admin.commands.shim_options import admin_option, group_argument, shim_at
from shim.admin.commands.telling import some_shown
from shim.admin.live.shown.documents import Row
from shim.admin.live.shown.migration_rows import step_of
from shim.config import HostPort
from shim.counted import counted, lasting
from shim.terminal.options import json_option
from shim.terminal.showing import shown
from shim.terminal.times import since_shown, time_shown

_GIVEN_ID: Final = re.compile(r".*-([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.DOTALL)
"""The client's id or its instance's, and a UUID."""

_SHARE_GROUPS_TOOL: Final = "kafka-share-groups.sh --describe --offsets"


@click.command("describe", short_help="One group: step, members, offsets and lag.")
@group_argument
@admin_option
@json_option
@in_one_line
@of_one_group()
def describe_command(group: str, admin: HostPort, json_wanted: bool) -> None:
    """One group: its step, its members and what each has, its committed offsets and how far they are behind.

    MEMBER is the beginning of the UUID in a member's id, or all of an id that is none of a coordinator's; --json has
    all of each. HEARD is when its last request came, heartbeats among them; `-` where none has since the shim began.
    REMOVED is when its SESSION ends, unless one comes: a member that was killed has its partitions until then, and
    nobody reads them. `-` where a request of its own waits to be answered. Of a group that is passed through all three
    are `-`: its coordinator does not tell. Whose session is more than half over is `silent`, as clients send three
    heartbeats or more in one: it was killed, hangs, or cannot reach the shim.

    LAG is how many records are behind the offset: the log's end, as the partition's leader tells it, less the offset.
    Where that cannot be told, LAG and LOG-END-OFFSET are `-`, standard error says why, and the exit status is 1.
    What is assigned to a member and not committed yet has `-`. The line `copies behind` says for how long a change
    waits that ZooKeeper or the cluster is yet to have: the BEHIND of `migrate status`. The line `last commit` is from
    the shim's history; of a group that is passed through it is not known here, as others commit at the cluster. Nor is
    when, and by whom, an offset was committed that was adopted from there, or read in ZooKeeper: the time, also under
    COMMITTED, is when the shim did so. `consumers in ZooKeeper` are old ones: no coordinator has them as members, so a
    group that is Empty may be at work.

    Of a group that the shim serves: its generation, and why it last rebalanced; `it had to wait for` is whom the others
    waited for then: who was removed at its end, and who joined last after 10 seconds or more. `awaited` are members
    that have not joined again (PreparingRebalance), or not asked for their assignment (otherwise: the leader has to
    bring it), when each was heard of, and when the group goes on without them at the latest.

    \b
    offset-shim groups describe billing
    offset-shim groups describe billing --json
    offset-shim groups describe -- -starts-with-a-dash
    """
    row = shim_at(admin).get("/v1/groups/describe", [("group", group)])
    if json_wanted:
        print_json(row)
    else:
        _describe(row)
    reasons = dict.fromkeys(at["why"] for at in row["offsets"] if at["why"])
    end_where_untold([f"no log end: {shown(why)}" for why in reasons])


def _describe(row: Row) -> None:
    click.echo(f"group: {shown(row['group'])}")
    click.echo(f"step: {step_of(row)}")
    click.echo(f"offsets.storage: {row['offsets_storage']}")
    click.echo(f"dual.commit.enabled: {'true' if row['dual_commit_enabled'] else 'false'}")
    click.echo(f"copies behind: {behind_shown(row)}")
    if row["alarm"]:
        click.echo(f"alarm: {pasteable(shown(row['alarm']))}")
    click.echo(f"state: {shown(row['state'])}, {row['type']}, {counted(row['members'], 'member')}")
    _show_consumers(row.get("zookeeper_consumers", []))  # an older shim tells none
    if row.get("generation") is not None:  # likewise
        _show_generation(row["generation"])
    if row["changed_ms"] is not None:
        click.echo(f"at this step since: {since_shown(row['changed_ms'])}, {shown(row['cause'])}")
    if is_passed_through(row):
        click.echo("last commit: not known here, as the cluster has the group")
    elif row["last_commit"] is not None:
        click.echo(f"last commit: {_commit_shown(row['last_commit'])}")
    if row["member_details"]:
        _show_members(row["member_details"], row.get("now_ms"))
    if row["offsets"]:
        _show_offsets(row["offsets"])
    elif row["type"] == SHARE.type:
        click.echo(f"no committed offsets: where a share group stands {_SHARE_GROUPS_TOOL} says")
    else:
        click.echo("no offsets")


def _show_consumers(in_zookeeper: list[str] | None) -> None:
    """None where nobody knows."""
    if in_zookeeper is None:
        click.echo("consumers in ZooKeeper: not known now")
    elif in_zookeeper:
        click.echo(f"consumers in ZooKeeper: {len(in_zookeeper)}: {some_shown(in_zookeeper, shown)}")


def _show_generation(generation: Row) -> None:
    since = "" if generation["since_ms"] is None else f" since {since_shown(generation['since_ms'])}"
    click.echo(f"generation: {generation['generation_id']}, {shown(generation['state'])}{since}")
    if generation["reason"]:
        click.echo(f"last rebalance: {shown(generation['reason'])}")
    if generation["waited_for"]:
        click.echo(f"it had to wait for: {shown(generation['waited_for'])}")
    if awaited := generation["awaited"]:
        click.echo(f"awaited: {some_shown([each['words'] for each in awaited], shown)}{_until(generation)}")
    if pending := generation["pending"]:
        click.echo(f"given an id, and not joined: {some_shown(pending, shown)}{_until(generation)}")


def _until(generation: Row) -> str:
    return "" if generation["until_ms"] is None else f"; until {time_shown(generation['until_ms'])} at the latest"


def _commit_shown(last: Row) -> str:
    who = " ".join(shown(last[name]) for name in ("client_id", "client_host", "principal") if last[name])
    time, cause = time_shown(last["time_ms"]), shown(last["cause"])
    if last["client_id"] == READ_IN_ZOOKEEPER and not last["client_host"]:
        return f"{time}, read in ZooKeeper (when it was written there, and by whom, is not known here)"
    if who:
        return f"{time} by {who}{f' ({cause})' if cause else ''}"
    return f"{time}{f', {cause}' if cause else ''} (by whom is not known here)"


def _show_members(members: list[Row], now_ms: int | None) -> None:
    """``now_ms``: None of an older shim, which tells no times."""
    static = any(each["group_instance_id"] is not None for each in members)
    print_table(
        (
            "CLIENT-ID",
            "HOST",
            "MEMBER",
            *(("INSTANCE",) if static else ()),
            *("HEARD", "SESSION", "REMOVED"),
            "PARTITIONS",
        ),
        [
            (
                *(each["client_id"], each["client_host"], _id_shown(each)),
                *((each["group_instance_id"] or "-",) if static else ()),
                *(_times_shown(each, now_ms) if now_ms is not None else ("-", "-", "-")),
                _assigned_shown(each["partitions"]),
            )
            for each in members
        ],
    )


def _id_shown(member: Row) -> str:
    """Ids of a coordinator's begin with what stands beside them, and are too long for a line."""
    member_id: str = member["member_id"]
    found = _GIVEN_ID.fullmatch(member_id)
    return f"{found[1]}…" if found else member_id


def _times_shown(member: Row, now_ms: int) -> tuple[str, str, str]:
    heard, session, removed = (member[name] for name in ("heard_ms", "session_timeout_ms", "removed_ms"))
    return (
        f"{'silent, ' if member.get('is_silent') else ''}{'-' if heard is None else f'{lasting(now_ms - heard)} ago'}",
        "-" if session is None else lasting(session),
        "-" if removed is None else f"in {lasting(removed - now_ms)}",
    )


def _assigned_shown(partitions: list[Row] | None) -> str:
    """``orders:0,1 bills:2``; ``-`` where its coordinator does not tell."""
    if partitions is None:
        return "-"
    by_topic: dict[str, list[str]] = {}
    for each in partitions:
        by_topic.setdefault(each["topic"], []).append(str(each["partition"]))
    return " ".join(f"{topic}:{','.join(numbers)}" for topic, numbers in by_topic.items()) or "none"


def _show_offsets(offsets: list[Row]) -> None:
    print_table(
        ("TOPIC", "PARTITION", "OFFSET", "LOG-END-OFFSET", "LAG", "COMMITTED"),
        [
            (
                *(at["topic"], at["partition"]),
                *map(number_shown, (at["offset"], at["log_end_offset"], at["lag"])),
                time_shown(at["committed_ms"]),
            )
            for at in offsets
        ],
    )
