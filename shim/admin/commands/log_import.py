"""``log import``: offsets from a broker's files or a live cluster into a data directory."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from protocol.own.state_log import STATE_TOPIC
from shim.admin.at_rest.data_dir import partition_folders
from shim.admin.commands.console import (
    SOMETHING_WRONG,
    Refused,
    configuration_options,
    data_dir_option,
    in_one_line,
    print_json,
)
from shim.admin.commands.groups_shown import chosen_groups, group_as_json, print_groups
from shim.admin.commands.log_export import KEPT, NOW
from shim.admin.files_to_read import FilesToRead
from shim.admin.transfer.broker_offsets import Counts, read_broker
from shim.admin.transfer.exporting import Expiring, commit_anew, expiring
from shim.admin.transfer.group_offsets import GroupOffsets
from shim.admin.transfer.importing import PlannedGroup, import_offsets, plan_for, verify_import
from shim.admin.transfer.live_import import read_cluster
from shim.config import Settings, load_configuration, parse_servers
from shim.counted import counted
from shim.log.directory.data_dir import LOCK_NAME
from shim.log.directory.meta_properties import cluster_id_of, refuse_log_on_topics
from shim.log.disk.files import Files
from shim.terminal.options import dry_run_option, json_option
from shim.terminal.progress import Ongoing
from shim.terminal.showing import shown

_FOLDER: Final = click.Path(path_type=Path, file_okay=False, exists=True)


class Source(NamedTuple):
    """Where the offsets come from. ``counts``: what else was there, for JSON; ``notes``: what is worth a line."""

    offsets: GroupOffsets
    cluster_id: str | None
    counts: dict[str, Any]
    notes: list[str]


@click.command("import", short_help="Bring committed offsets into a data directory at rest.")
@data_dir_option
@click.option(
    "--from-folder", "folders", multiple=True, type=_FOLDER, metavar="DIR",
    help="A stopped broker's log directory; may be given many times.",
)  # fmt: skip
@click.option("--from-bootstrap", "bootstrap", metavar="H:P[,H:P]", help="Brokers of a live cluster.")
@click.option("--group", "groups", multiple=True, metavar="G", help="Only this group; may be given many times.")
@click.option("--replace", is_flag=True, help="Put the new offsets of a group in the place of those that are here.")
@click.option(
    "--partitions", type=click.IntRange(1, 100_000), default=50, show_default=True,
    help="offsets.topic.num.partitions, for a data directory that does not exist yet.",
)  # fmt: skip
@click.option(
    "--source-partitions", type=click.IntRange(1), metavar="N",
    help="How many partitions the topic has there: records in the wrong one are left out.",
)  # fmt: skip
@click.option(
    "--commit-timestamp", type=click.Choice((KEPT, NOW)), default=KEPT, show_default=True,
    help="From folders: when each offset was committed, from which the shim counts until it expires.",
)  # fmt: skip
@configuration_options
@click.option("--any-cluster", is_flag=True, help="Do not mind whether the offsets are of the same cluster.")
@dry_run_option
@json_option
@in_one_line
def import_command(
    data_dir: Path,
    folders: tuple[Path, ...],
    bootstrap: str | None,
    groups: tuple[str, ...],
    replace: bool,
    partitions: int,
    source_partitions: int | None,
    commit_timestamp: str,
    config: Path | None,
    assignments: tuple[str, ...],
    any_cluster: bool,
    dry_run: bool,
    json_wanted: bool,
) -> None:
    """Bring committed offsets into a data directory at rest.

    From a broker that is stopped, --from-folder: its log directory (log.dirs), with the folders __consumer_offsets-<p>
    in it, as Kafka 0.10 to 4.3 keep them. Of a cluster of several brokers take each partition from its leader. Offsets
    of a transaction count when it was committed; those whose own expire timestamp has passed are left out. When an
    offset was committed comes along, so that one that is older than offsets.retention.minutes expires soon after the
    shim's start unless its consumers are back by then. How many are that old is told; --commit-timestamp now takes them
    as if they had been committed now.

    From a live cluster, --from-bootstrap: what its coordinators serve. Consumers that go on committing there make the
    copy old; stop them first. How it is spoken to (upstream.security.protocol, upstream.sasl.*, upstream.ssl.*) is said
    as to the shim, by --config or --set.

    Only offsets come along: a group arrives without members. A group that is here already, with other offsets, with
    members or with transactions that have not ended, is refused, and nothing is written, unless --replace is given. One
    that the shim would not serve from its log (passed through, at zookeeper or zookeeper+dual) is refused in any case.
    What was written is read back and compared; exit status 1 when anything differs.

    \b
    offset-shim log import --data-dir /var/lib/offset-shim --from-folder /var/kafka-logs --dry-run
    offset-shim log import --data-dir /var/lib/offset-shim --from-bootstrap kafka:9092 --group billing
    """
    if bool(folders) == bool(bootstrap):
        raise Refused("give either --from-folder or --from-bootstrap")
    files = FilesToRead()
    if bootstrap is None:
        source = _from_folders(files, folders, source_partitions)
    else:
        source = _from_cluster(bootstrap, load_configuration(config, assignments, os.environ).settings, groups)
    cluster_id = None if any_cluster else source.cluster_id
    owner = cluster_id_of(files, data_dir) if files.exists(data_dir) else None
    if cluster_id and owner and cluster_id != owner:
        raise Refused(f"{data_dir} is of cluster {owner}, the offsets are of {cluster_id}: --any-cluster if they fit")
    chosen = chosen_groups(source.offsets, groups, "no offsets there")
    if commit_timestamp == NOW:
        commit_anew(source.offsets, chosen, time.time_ns() // 1_000_000)
    in_danger = expiring(source.offsets, chosen, time.time_ns() // 1_000_000)
    differences: list[str] = []
    if dry_run:
        planned = plan_for(data_dir, source.offsets, chosen, Ongoing, replace=replace)
    else:
        planned = import_offsets(
            data_dir, Files(), source.offsets, chosen, Ongoing,
            replace=replace, num_partitions=partitions, cluster_id=cluster_id,
        )  # fmt: skip
        differences = verify_import(data_dir, planned, Ongoing)
    _tell(planned, source, differences, in_danger, dry_run=dry_run, json_wanted=json_wanted)
    if differences:
        sys.exit(SOMETHING_WRONG)


# --- where from ------------------------------------------------------------------------------------------------------


def _from_folders(files: Files, folders: Sequence[Path], num_partitions: int | None) -> Source:
    for lock in (folder / LOCK_NAME for folder in folders):
        if files.exists(lock) and files.is_held(lock):
            raise Refused(f"{lock.parent} is in use by another process (it holds {LOCK_NAME}): stop the broker first")
    for folder in folders:
        refuse_log_on_topics(files, folder)
        if any(at.topic == STATE_TOPIC for at in partition_folders(files, folder)):
            # It may have the newest in its journal, and says of which groups it has not what counts.
            raise Refused(
                f"{folder} is a shim's data directory, and no broker's: take the offsets out of it first, with "
                "offset-shim log export --to-folder"
            )
    now_ms = time.time_ns() // 1_000_000
    offsets, counts = read_broker(files, folders, now_ms, Ongoing, num_partitions=num_partitions)
    found = {cluster_id for folder in folders if (cluster_id := cluster_id_of(files, folder))}
    if len(found) > 1:
        raise Refused(f"the folders are of different clusters: {', '.join(sorted(found))}")
    return Source(offsets, next(iter(found), None), _counts_as_json(counts), list(_notes(counts)))


def _counts_as_json(counts: Counts) -> dict[str, Any]:
    return {
        "partitions": counts.partitions,
        "segments": counts.segments,
        "records": counts.records,
        "tombstones": counts.tombstones,
        "group_metadata": counts.group_metadata,
        "expired": counts.expired,
        "aborted": counts.aborted,
        "open": counts.open,
        "misplaced": counts.misplaced,
        "unknown_keys": {str(kind): count for kind, count in sorted(counts.unknown_keys.items())},
        "ignored_tails": [
            {"path": str(tail.path), "position": tail.position, "size": tail.size, "reason": tail.reason}
            for tail in counts.ignored_tails
        ],
        "swaps": [str(path) for path in counts.swaps],
    }


def _notes(counts: Counts) -> Iterable[str]:
    yield (
        f"read {counted(counts.records, 'record')} in {counted(counts.segments, 'segment')} of "
        f"{counted(counts.partitions, 'partition')}"
    )
    if counts.expired:
        yield f"{counted(counts.expired, 'offset')} with an expire timestamp that has passed, which stays with them"
    if counts.aborted:
        yield f"left out {counted(counts.aborted, 'offset')} of transactions that were aborted"
    if counts.open:
        yield f"left out {counted(counts.open, 'offset')} of transactions that had not ended"
    if counts.misplaced:
        yield f"left out {counted(counts.misplaced, 'record')} of groups that belong in another partition"
    for kind, count in sorted(counts.unknown_keys.items()):
        yield f"left out {counted(count, 'record')} of key type {kind}, which hold no offsets"
    for path in counts.swaps:
        yield f"read {path} in the place of the segments that it was made of, as a broker does at its start"
    for tail in counts.ignored_tails:
        yield (
            f"left out {tail.size} bytes at the end of {tail.path} (from byte {tail.position}: {tail.reason}), "
            "which a broker cuts off at its start"
        )


def _from_cluster(bootstrap: str, settings: Settings, groups: Sequence[str]) -> Source:
    offsets, cluster_id, count, may_lack = asyncio.run(
        read_cluster(parse_servers(bootstrap), settings, groups, Ongoing)
    )
    busy = sorted(offsets.with_members)
    notes = [f"group {shown(group)} has members there: what they commit from now on is not in here" for group in busy]
    if may_lack:
        notes.append(
            "warning: the cluster has an authorizer, and leaves out offsets of topics that one may not describe: are "
            "all topics (*) allowed to be described?"
        )
    counts = {"groups": count, "groups_with_members": busy, "may_lack_topics": may_lack}
    return Source(offsets, cluster_id, counts, notes)


# --- what came of it -------------------------------------------------------------------------------------------------


def _tell(
    planned: Sequence[PlannedGroup],
    source: Source,
    differences: Sequence[str],
    in_danger: Expiring,
    *,
    dry_run: bool,
    json_wanted: bool,
) -> None:
    if json_wanted:
        groups = [{**group_as_json(each), "deleted": len(each.stale)} for each in planned]
        document = {
            "dry_run": dry_run,
            "cluster_id": source.cluster_id,
            "source": source.counts,
            "groups": groups,
            "verified": None if dry_run else not differences,
            "differences": list(differences),
            "expiring": in_danger._asdict(),
        }
        print_json(document)
        return
    for note in source.notes:
        click.echo(note, err=True)
    if in_danger.old:
        click.echo(
            f"warning: {counted(in_danger.old, 'offset')} committed more than 7 days ago: the shim deletes them "
            "ten minutes after its start, unless their consumers are back by then. Set offsets.retention.minutes "
            "higher (10080 by default), or import with --commit-timestamp now",
            err=True,
        )
    if in_danger.expired:
        click.echo(
            f"warning: {counted(in_danger.expired, 'offset')} with an expire timestamp that has passed: the shim "
            "deletes them ten minutes after its start, unless their consumers are back by then",
            err=True,
        )
    print_groups(planned)
    total = f"{counted(len(planned), 'group')}, {counted(sum(len(each.offsets) for each in planned), 'offset')}"
    if dry_run:
        click.echo(f"{total}; nothing was written")
        return
    for difference in differences:
        click.echo(f"differs: {shown(difference)}", err=True)
    verdict = f"{counted(len(differences), 'difference')} when read back" if differences else "read back: all there"
    click.echo(f"{total}; {verdict}")
