"""``log compact``: the cleaner, once, over a data directory at rest."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from shim.admin.at_rest.compacting import ToCompact, compact, to_compact
from shim.admin.commands.console import (
    SOMETHING_WRONG,
    bytes_shown,
    data_dir_option,
    in_one_line,
    print_json,
    print_table,
)
from shim.admin.files_to_read import FilesToRead
from shim.counted import counted
from shim.log.cleaner.cleaning import CleanerSettings, CleanerStats
from shim.log.disk.files import Files
from shim.terminal.options import dry_run_option, json_option
from shim.terminal.progress import Ongoing


@click.command("compact", short_help="Keep only the newest record of each key.")
@data_dir_option
@click.option(
    "--delete-retention-ms", type=click.IntRange(0), default=CleanerSettings().delete_retention_ms, show_default=True,
    help="How long tombstones stay after they were first compacted (log.cleaner.delete.retention.ms).",
)  # fmt: skip
@dry_run_option
@json_option
@in_one_line
def compact_command(data_dir: Path, delete_retention_ms: int, dry_run: bool, json_wanted: bool) -> None:
    """Compact a data directory at rest: of each key only the newest record is kept.

    The shim does so by itself while it runs; this is for a log that is to be small now, before a backup, say. Closed
    segments are compacted, however little of them is new; the active segment of a partition never is. Exit status 1
    when a partition could not be compacted, as it is damaged, or as the disk is full: then it is as it was, or less of
    it was compacted. --dry-run says which partitions have anything to compact, and how many bytes their closed
    segments have: each of these is read twice at most, once for its keys and once for what is kept. How many are left,
    only reading them tells. It takes no lock, so a shim may run meanwhile.

    \b
    offset-shim log compact --data-dir /var/lib/offset-shim --dry-run
    offset-shim log compact --data-dir /var/lib/offset-shim
    """
    if dry_run:
        _show(to_compact(FilesToRead(), data_dir), json_wanted)
        return
    rounds, not_compacted = compact(Files(), data_dir, delete_retention_ms, Ongoing)
    rows = [_row(stats) for stats in rounds]
    if json_wanted:
        names = ("partition", "records_before", "records_after", "bytes_read", "bytes_written", "segments_written")
        document: dict[str, Any] = {
            "rounds": [dict(zip(names, row, strict=True)) for row in rows],
            "not_compacted": {str(partition): reason for partition, reason in not_compacted.items()},
        }
        print_json(document)
    else:
        print_table(("PARTITION", "RECORDS", "THEN", "READ", "WRITTEN", "SEGMENTS"), rows)
        written = bytes_shown(sum(stats.bytes_written for stats in rounds))
        click.echo(f"{counted(len(rounds), 'round')}, {written} written")
        for partition, reason in not_compacted.items():
            click.echo(f"{partition} was not compacted: {reason}", err=True)
    if not_compacted:
        sys.exit(SOMETHING_WRONG)


def _show(found: list[ToCompact], json_wanted: bool) -> None:
    if json_wanted:
        names = ("partition", "closed_segments", "closed_bytes", "never_compacted_bytes")
        rows = [
            (str(each.partition), each.closed_segments, sum(each.closed), each.closed.dirty_bytes) for each in found
        ]
        print_json({"to_compact": [dict(zip(names, row, strict=True)) for row in rows]})
        return
    print_table(
        ("PARTITION", "CLOSED SEGMENTS", "CLOSED BYTES", "NEVER COMPACTED"),
        [
            (str(partition), segments, bytes_shown(sum(closed)), bytes_shown(closed.dirty_bytes))
            for partition, segments, closed in found
        ],
    )
    closed = bytes_shown(sum(sum(each.closed) for each in found))
    click.echo(f"{counted(len(found), 'partition')} to compact, {closed} in closed segments; nothing was done")


def _row(stats: CleanerStats) -> tuple[str, int, int, int, int, int]:
    return (
        str(stats.partition), stats.records_read, stats.records_written, stats.bytes_read, stats.bytes_written,
        stats.segments_written,
    )  # fmt: skip
