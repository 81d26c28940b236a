"""``log export``: offsets out of a data directory, into a broker's files or a live cluster."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import click

from shim.admin.at_rest.data_dir import data_dir_to_read
from shim.admin.commands.console import (
    SOMETHING_WRONG,
    Refused,
    configuration_options,
    data_dir_option,
    in_one_line,
    print_json,
)
from shim.admin.commands.groups_shown import chosen_groups, group_as_json, print_groups
from shim.admin.transfer.exporting import (
    BROKERS_RETENTION_MINUTES,
    Expiring,
    commit_anew,
    expiring,
    export_to_folders,
    verify_export,
)
from shim.admin.transfer.group_offsets import GroupOffsets, read_offsets
from shim.admin.transfer.hands import kept_elsewhere
from shim.admin.transfer.live_brokers import LiveBrokers
from shim.admin.transfer.live_export import REFUSED, WOULD_WRITE, WRITTEN, Exported, export_to_cluster
from shim.config import load_configuration, parse_servers
from shim.counted import counted, some_of
from shim.log.disk.files import Files
from shim.terminal.options import dry_run_option, json_option
from shim.terminal.progress import Ongoing
from shim.terminal.showing import shown

_FOLDER: Final = click.Path(path_type=Path, file_okay=False)

_DAY_MINUTES: Final = 24 * 60

KEPT, NOW = "kept", "now"


@click.command("export", short_help="Take committed offsets out of a data directory at rest.")
@data_dir_option
@click.option("--to-folder", "folder", type=_FOLDER, metavar="DIR", help="Where to write the partitions' folders.")
@click.option("--to-bootstrap", "bootstrap", metavar="H:P[,H:P]", help="Brokers of a live cluster.")
@click.option("--group", "groups", multiple=True, metavar="G", help="Only this group; may be given many times.")
@click.option(
    "--partitions", type=click.IntRange(1, 100_000), default=50, show_default=True,
    help="offsets.topic.num.partitions of the brokers that the folders are for.",
)  # fmt: skip
@click.option(
    "--commit-timestamp", type=click.Choice((KEPT, NOW)), default=KEPT, show_default=True,
    help="In folders: when each offset was committed, from which brokers count until it expires.",
)  # fmt: skip
@click.option("--replace", is_flag=True, help="Of a group that has other offsets in the cluster, replace them.")
@configuration_options
@dry_run_option
@json_option
@in_one_line
def export_command(
    data_dir: Path,
    folder: Path | None,
    bootstrap: str | None,
    groups: tuple[str, ...],
    partitions: int,
    commit_timestamp: str,
    replace: bool,
    config: Path | None,
    assignments: tuple[str, ...],
    dry_run: bool,
    json_wanted: bool,
) -> None:
    """Take committed offsets out of a data directory at rest.

    --to-folder writes __consumer_offsets-<p>/00000000000000000000.log for each of --partitions, as a broker's cleaner
    leaves them: only what is in force. They are the whole topic for a broker that is stopped and has none of its own.
    Groups arrive without members, and so their offsets expire offsets.retention.minutes after they were committed. How
    many are that old is told; for these --commit-timestamp now, or raise that setting before the broker starts.

    --to-bootstrap commits the offsets to each group's coordinator. A group that has members there is refused, and so
    is one that has other offsets, unless --replace is given. Of a partition that the cluster does not have, or whose
    log ends before the offset, nothing is written. When and until when an offset was committed is not carried over: the
    cluster counts from now on. How it is spoken to (upstream.security.protocol, upstream.sasl.*, upstream.ssl.*) is
    said as to the shim, by --config or --set.

    Only offsets go along, no members, no steps, and no transactions: while one that has committed offsets of a group
    has not ended, that group is refused. So is one of which the log need not have the newest: one at zookeeper or
    zookeeper+dual, or passed through. What was written is read back and compared; exit status 1 when anything differs
    or was refused.

    \b
    offset-shim log export --data-dir /var/lib/offset-shim --to-folder /tmp/exported --partitions 50
    offset-shim log export --data-dir /var/lib/offset-shim --to-bootstrap kafka:9092 --group billing --dry-run
    """
    if bool(folder) == bool(bootstrap):
        raise Refused("give either --to-folder or --to-bootstrap")
    settings = load_configuration(config, assignments, os.environ).settings
    with data_dir_to_read(data_dir) as (reading, held):
        offsets = read_offsets(reading, held, "reading", Ongoing)
        elsewhere = kept_elsewhere(reading, held)
    _refuse_pending(offsets, groups)
    wanted = chosen_groups(offsets, groups, f"{data_dir} holds no offsets")
    chosen = [group for group in wanted if group not in elsewhere]
    refused = [
        Exported(group, offsets.of(group), REFUSED, [f"group {group}: {elsewhere[group]}"])
        for group in wanted
        if group in elsewhere
    ]
    in_danger = None
    exported: list[Exported] = []
    if folder is not None and chosen:
        now_ms = time.time_ns() // 1_000_000
        if commit_timestamp == NOW:
            commit_anew(offsets, chosen, now_ms)
        in_danger = expiring(offsets, chosen, now_ms)
        exported = _to_folder(Files(), folder.absolute(), offsets, chosen, partitions, now_ms, dry_run=dry_run)
    elif chosen:
        brokers = LiveBrokers(parse_servers(bootstrap or ""), settings)
        exported = asyncio.run(_to_cluster(brokers, offsets, chosen, replace=replace, dry_run=dry_run))
    exported = sorted([*exported, *refused], key=lambda each: each.group)
    _tell(exported, in_danger, dry_run=dry_run, json_wanted=json_wanted)
    if any(each.problems for each in exported):
        sys.exit(SOMETHING_WRONG)


def _refuse_pending(offsets: GroupOffsets, groups: Sequence[str]) -> None:
    """The cluster may commit such a transaction yet, and what was exported would stand in the way of its offsets."""
    pending = {group: producers for group, producers in offsets.pending().items() if not groups or group in groups}
    if not pending:
        return
    named = some_of([*pending.items()], lambda each: f"{shown(each[0])} (producer id {', '.join(map(str, each[1]))})")
    raise Refused(
        f"nothing was written: transactions that have not ended have offsets of {named}; let the shim "
        "run until they have, or choose other groups with --group"
    )


def _to_folder(
    files: Files,
    folder: Path,
    offsets: GroupOffsets,
    groups: Sequence[str],
    partitions: int,
    now_ms: int,
    *,
    dry_run: bool,
) -> list[Exported]:
    if dry_run:
        return [Exported(group, offsets.of(group), WOULD_WRITE, []) for group in groups]
    export_to_folders(files, folder, offsets, groups, partitions, now_ms, Ongoing)
    problems = verify_export(files, folder, offsets, groups, partitions, Ongoing)
    return [Exported(group, offsets.of(group), WRITTEN, problems.get(group, [])) for group in groups]


async def _to_cluster(
    brokers: LiveBrokers, offsets: GroupOffsets, groups: Sequence[str], *, replace: bool, dry_run: bool
) -> list[Exported]:
    async with brokers:
        return await export_to_cluster(brokers, offsets, groups, Ongoing, replace=replace, dry_run=dry_run)


def _tell(exported: Sequence[Exported], in_danger: Expiring | None, *, dry_run: bool, json_wanted: bool) -> None:
    problems = sum(len(each.problems) for each in exported)
    if json_wanted:
        groups = [{**group_as_json(each), "problems": each.problems} for each in exported]
        document = {"dry_run": dry_run, "groups": groups, "verified": None if dry_run else not problems}
        if in_danger is not None:
            document["expiring"] = in_danger._asdict()
        print_json(document)
        return
    print_groups(exported)
    for each in exported:
        for problem in each.problems:
            click.echo(f"problem: {shown(problem)}", err=True)
    for warning in _warnings(in_danger or Expiring(0, 0)):
        click.echo(f"warning: {warning}", err=True)
    total = counted(sum(len(each.offsets) for each in exported), "offset")
    verdict = "nothing was written" if dry_run else "read back: all there"
    if problems:
        verdict = counted(problems, "problem")
    click.echo(f"{counted(len(exported), 'group')}, {total}; {verdict}")


def _warnings(in_danger: Expiring) -> Iterator[str]:
    if in_danger.old:
        yield (
            f"{counted(in_danger.old, 'offset')} committed more than {BROKERS_RETENTION_MINUTES // _DAY_MINUTES} "
            "days ago: a broker drops them soon after its start, unless their consumers are back by then. Raise its "
            f"offsets.retention.minutes first ({BROKERS_RETENTION_MINUTES} by default), or export with "
            "--commit-timestamp now"
        )
    if in_danger.expired:
        yield (
            f"{counted(in_danger.expired, 'offset')} with an expire timestamp that has passed: a broker drops them "
            "soon after its start"
        )
