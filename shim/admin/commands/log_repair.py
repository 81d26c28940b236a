"""``log repair``: takes what is damaged out of a data directory, keeps it, and says what may be older now."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from protocol.offsets_log import GroupMetadataKey, OffsetCommitKey, OffsetCommitValue, decode_value
from protocol.own.history_log import HISTORY_TOPIC
from protocol.records.batches import Record
from shim.admin.at_rest.data_dir import DataDir, data_dir_at_rest, data_dir_to_read, read_data_dir
from shim.admin.at_rest.examine import Examination, examine
from shim.admin.at_rest.repair_plan import Doubt, PartitionPlan, plan_repair
from shim.admin.at_rest.repairing import repair
from shim.admin.commands.console import SOMETHING_WRONG, agree, data_dir_option, in_one_line, print_json, print_table
from shim.admin.commands.log_verify import damage_as_json
from shim.admin.commands.records_shown import decoded_key
from shim.counted import counted
from shim.log.disk.files import Files
from shim.terminal.options import dry_run_option, json_option, yes_option
from shim.terminal.progress import Ongoing


@click.command("repair", short_help="Make a damaged data directory usable again.")
@data_dir_option
@click.option("--skip", is_flag=True, help="Take out the damaged batches only, and keep what follows them.")
@yes_option
@dry_run_option
@json_option
@in_one_line
def repair_command(data_dir: Path, skip: bool, yes: bool, dry_run: bool, json_wanted: bool) -> None:
    """Make a damaged data directory at rest usable again, at the price of what is damaged.

    Only partitions that `log verify` calls damaged are touched. Each is cut at its first damage: what follows is lost
    with it, so that the log is what it was at an earlier time. With --skip only the damaged batches are taken out:
    less is lost, but a group may then have new offsets for some partitions and old ones for others.
    Bytes between sound batches of which no offset is missing are only taken out, with and without --skip.

    A copy of everything that is taken away stays in the partition's folder (*.cut-*). Listed are the keys that may be
    older than what was acknowledged: their consumers would read again what they have read.

    Copy the whole directory first, with `cp -a` or the like: `log backup` takes none that is damaged. A backup from
    before may be the better way: all groups go back to that time.

    Asks on a terminal before it changes anything, unless --yes is given; elsewhere nothing is asked. Exit status
    1 when the directory is not sound afterwards.

    \b
    offset-shim log repair --data-dir /var/lib/offset-shim --dry-run        # what it would cost
    offset-shim log repair --data-dir /var/lib/offset-shim --skip --dry-run
    offset-shim log repair --data-dir /var/lib/offset-shim --skip
    """
    copies: list[Path] = []
    after: Examination | None = None
    if dry_run:
        with data_dir_to_read(data_dir) as (files_to_read, held):
            before, plans = _planned(files_to_read, held, skip=skip, json_wanted=json_wanted)
    else:
        files = Files()
        with data_dir_at_rest(files, data_dir) as held:
            before, plans = _planned(files, held, skip=skip, json_wanted=json_wanted)
            if before.all_damages:
                agree(f"Repair {counted(len(before.all_damages), 'damage')}?", yes=yes)
                copies = repair(files, held, plans, time.time_ns() // 1_000_000)
                after = examine(files, read_data_dir(files, held.path), "verify", Ongoing)
    still = [] if after is None else after.all_damages
    if json_wanted:
        document = {
            "dry_run": dry_run,
            "damages": [damage_as_json(damage) for damage in before.all_damages],
            "partitions": [_as_json(plan) for plan in plans],
            "copies": [str(copy) for copy in copies],
            "damages_left": [damage_as_json(damage) for damage in still],
        }
        print_json(document)
    elif after is not None:
        for copy in copies:
            click.echo(f"kept: {copy}")
        for damage in still:
            click.echo(f"damage left: {damage.path} at byte {damage.position}: {damage.reason}", err=True)
        click.echo("repaired" if not still else f"{counted(len(still), 'damage')} left")
    if still:
        sys.exit(SOMETHING_WRONG)


def _planned(
    files: Files, held: DataDir, *, skip: bool, json_wanted: bool
) -> tuple[Examination, Sequence[PartitionPlan]]:
    before = examine(files, held, "verify", Ongoing)
    plans = plan_repair(files, held, before, skip=skip)
    if not json_wanted:
        _tell(plans, before)
    return before, plans


# --- what is shown ---------------------------------------------------------------------------------------------------


def _tell(plans: Sequence[PartitionPlan], before: Examination) -> None:
    if not before.all_damages:
        click.echo("nothing is damaged")
        return
    for damage in before.damages:
        click.echo(f"damage: {damage.path} at byte {damage.position}: {damage.reason}")
    rows: list[tuple[str, str, str | int, str, str]] = []
    for plan in plans:
        for damage in plan.damages if not plan.is_missing else ():
            click.echo(f"damage: {damage.path} at byte {damage.position}: {damage.reason}")
        for segment in plan.rewritten:
            taken = sum(end - start for start, end in segment.taken)
            if taken:
                click.echo(f"  {segment.path}: {taken} bytes are taken out, a copy is kept")
        for path in plan.aside:
            click.echo(f"  {path}: taken away whole, and kept under another name")
        click.echo(f"  {plan.partition} then ends at offset {plan.end_offset}")
        if plan.partition.topic == HISTORY_TOPIC:
            click.echo("  that is the history: commits are missing in it afterwards, and no committed offset changes")
            continue
        for first, following in plan.unknown:
            until = "on" if following is None else f"to {following - 1}"
            click.echo(
                f"  offsets from {first} {until}: nobody can say for certain which keys they had; "
                f"any group of {plan.partition} may have older offsets afterwards, listed below or not"
            )
        rows += [_row(plan, doubt) for doubt in plan.doubts]
    if rows:
        click.echo("These may be older afterwards than what was acknowledged:")
        print_table(("GROUP", "TOPIC", "PARTITION", "THEN", "WAS"), rows)


def _row(plan: PartitionPlan, doubt: Doubt) -> tuple[str, str, str | int, str, str]:
    told = _doubt_as_json(plan, doubt)
    then, was = (_value_shown(told[name]) for name in ("then", "was"))
    partition = told["partition"] if told["partition"] is not None else "-"
    return told["group"] or told["key"], told["topic"] or "(members)", partition, then, was


def _value_shown(value: object) -> str:
    return "-" if value is None else str(value)


def _as_json(plan: PartitionPlan) -> dict[str, Any]:
    return {
        "topic": plan.partition.topic,
        "partition": plan.partition.partition,
        "end_offset": plan.end_offset,
        "taken_out": [
            {"path": str(segment.path), "position": start, "end": end}
            for segment in plan.rewritten
            for start, end in segment.taken
        ],
        "taken_away": [str(path) for path in plan.aside],
        "unknown_offsets": [{"offset": first, "next_offset": following} for first, following in plan.unknown],
        # Nothing is served from the history.
        "maybe_older": [_doubt_as_json(plan, doubt) for doubt in plan.doubts if plan.partition.topic != HISTORY_TOPIC],
    }


def _doubt_as_json(plan: PartitionPlan, doubt: Doubt) -> dict[str, Any]:
    """``then`` and ``was``: the offset, null for none (or of a record that is no offset's); ``key``: in hex."""
    key = decoded_key(plan.partition.topic, doubt.was)
    group = key.group if isinstance(key, OffsetCommitKey | GroupMetadataKey) else None
    at = key if isinstance(key, OffsetCommitKey) else None
    return {
        "group": group,
        "topic": at and at.topic,
        "partition": at and at.partition,
        "key": doubt.key.hex(),
        "then": _offset(at, doubt.now),
        "was": _offset(at, doubt.was),
    }


def _offset(key: OffsetCommitKey | None, record: Record | None) -> int | None:
    if key is None or record is None or record.value is None:
        return None
    try:
        value = decode_value(key, record.value)
    except ValueError:
        return None
    return value.offset if isinstance(value, OffsetCommitValue) else None
