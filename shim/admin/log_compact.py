"""``log compact``: the cleaner, once, over a data directory at rest."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import click

from shim.admin.at_rest import OTHER_FILES, read_data_dir
from shim.admin.console import (
    SOMETHING_WRONG,
    Ongoing,
    Refused,
    bytes_shown,
    count_shown,
    data_dir_option,
    in_one_line,
    json_option,
    print_json,
    print_table,
)
from shim.log import OFFSETS_TOPIC, OffsetsLog
from shim.log.cleaner import Cleaner
from shim.log.cleaning import CleanerSettings, CleaningStats
from shim.log.files import Files
from shim.log.open_files import allow_open_files


@click.command("compact")
@data_dir_option
@click.option(
    "--delete-retention-ms", type=click.IntRange(0), default=24 * 3600 * 1000, show_default=True,
    help="How long tombstones stay after they were first compacted (log.cleaner.delete.retention.ms).",
)  # fmt: skip
@json_option
@in_one_line
def compact_command(data_dir: Path, delete_retention_ms: int, json_wanted: bool) -> None:
    """Compact a data directory at rest: of each key only the newest record is kept.

    The shim does so by itself while it runs; this is for a log that is to be small now, before a backup, say. Closed
    segments are compacted, however little of them is new; the active segment of a partition never is.

    \b
    offset-shim log compact --data-dir /var/lib/offset-shim
    """
    files = Files()
    count = read_data_dir(files, data_dir).num_partitions(OFFSETS_TOPIC)
    if not count:
        raise Refused(f"{data_dir} holds no partition of {OFFSETS_TOPIC}")
    rounds, uncleanable = _compact(files, data_dir, count, delete_retention_ms)
    rows = [_row(stats) for stats in rounds]
    if json_wanted:
        names = ("partition", "records_before", "records_after", "bytes_read", "bytes_written", "segments_written")
        document: dict[str, Any] = {
            "rounds": [dict(zip(names, row, strict=True)) for row in rows],
            "not_compacted": uncleanable,
        }
        print_json(document)
    else:
        print_table(("PARTITION", "RECORDS", "THEN", "READ", "WRITTEN", "SEGMENTS"), rows)
        written = bytes_shown(sum(stats.bytes_written for stats in rounds))
        click.echo(f"{count_shown(len(rounds), 'round')}, {written} written")
        for partition, reason in uncleanable.items():
            click.echo(f"{partition} was not compacted: {reason}", err=True)
    if uncleanable:
        sys.exit(SOMETHING_WRONG)


def _row(stats: CleaningStats) -> tuple[str, int, int, int, int, int]:
    return (
        str(stats.partition), stats.records_read, stats.records_written, stats.bytes_read, stats.bytes_written,
        stats.segments_written,
    )  # fmt: skip


def _compact(
    files: Files, data_dir: Path, count: int, delete_retention_ms: int
) -> tuple[list[CleaningStats], dict[str, str]]:
    """What each round did, and the partitions that could not be compacted, with why."""
    allow_open_files(count, OTHER_FILES)
    log = OffsetsLog.open(data_dir, count, files=files)
    try:
        with Ongoing("reading", count) as ongoing:
            for partition in range(count):
                for _ in log.recover(partition):
                    pass
                ongoing.advance(1)
        # Every partition with anything that was never compacted.
        settings = CleanerSettings(min_cleanable_ratio=0.0, delete_retention_ms=delete_retention_ms)
        cleaner = Cleaner(data_dir.absolute(), log.partition_logs(), settings, files=files)
        rounds = []
        with Ongoing("compacting", count) as ongoing:
            while (stats := cleaner.step(time.time_ns() // 1_000_000)) is not None:
                rounds.append(stats)
                ongoing.advance(1)
    finally:
        log.close()
    return rounds, {str(partition): str(error) for partition, error in cleaner.uncleanable.items()}
