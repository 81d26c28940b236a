"""``log verify``: is everything in the data directory as it should be?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from shim.admin.at_rest.data_dir import data_dir_to_read
from shim.admin.at_rest.examine import Examination, Examined, examine
from shim.admin.at_rest.walk import Damage
from shim.admin.commands.console import SOMETHING_WRONG, bytes_shown, data_dir_option, in_one_line, print_json
from shim.counted import counted
from shim.terminal.options import json_option
from shim.terminal.progress import Ongoing


@click.command("verify", short_help="Read everything, and say what is damaged.")
@data_dir_option
@json_option
@in_one_line
def verify_command(data_dir: Path, json_wanted: bool) -> None:
    """Read everything in a data directory at rest, and say what is damaged.

    Checked are the length and CRC of every batch, that offsets follow on each other, that keys and values decode, the
    checkpoints and the index files. A line for each partition that is not empty, and one for each damage, with file and
    byte position.
    Exit status 1 when anything is damaged, cannot be read, or is another partition's; `log repair` says what can be
    done about damage. What cannot be read is told file by file, and all else is read.

    A torn write at the end of a partition is no damage: a crash leaves it, and the next start cuts it off.

    \b
    offset-shim log verify --data-dir /var/lib/offset-shim
    """
    with data_dir_to_read(data_dir) as (files, held):
        examination = examine(files, held, "verify", Ongoing, past_unreadable=True)
    if json_wanted:
        print_json({"data_dir": str(held.path), "clean_shutdown": held.clean, **examination_as_json(examination)})
    else:
        tell(examination)
    if not examination.is_sound:
        sys.exit(SOMETHING_WRONG)


def tell(examination: Examination) -> None:
    """A line for each partition that is not empty, and one for each damage and note."""
    _tell_each(examination.damages, examination.notes)
    for examined in examination.partitions:
        if examined.is_empty:
            continue
        state = "another partition's files" if examined.misplaced else "sound"
        if examined.damages or examined.unreadable:
            said = [counted(len(examined.damages), "damage")] if examined.damages else []
            said += [f"{counted(len(examined.unreadable), 'file')} unreadable"] if examined.unreadable else []
            state = ", ".join(said)
        parts = [
            counted(examined.segments, "segment"),
            counted(examined.batches, "batch"),
            counted(examined.records, "record"),
            f"end offset {examined.end_offset}",
            bytes_shown(examined.size),
        ]
        click.echo(f"{examined.partition}: {state}; {', '.join(parts)}")
        for path, reason in examined.unreadable.items():
            click.echo(f"  unreadable: {path}: {reason}")
        _tell_each(examined.damages, examined.notes)
    tell_empty(examination)
    damaged, unreadable = len(examination.all_damages), len(examination.unreadable)
    unread = f", {counted(unreadable, 'file')} unreadable" if unreadable else ""
    click.echo(f"{counted(len(examination.partitions), 'partition')}, {counted(damaged, 'damage')}{unread}")


def tell_empty(examination: Examination) -> None:
    """How many have no line of their own."""
    if empty := sum(examined.is_empty for examined in examination.partitions):
        click.echo(counted(empty, "empty partition"))


def _tell_each(damages: list[Damage], notes: list[str]) -> None:
    for damage in damages:
        click.echo(f"  damage: {damage.path} at byte {damage.position}: {damage.reason}")
    for note in notes:
        click.echo(f"  note: {note}")


def examination_as_json(examination: Examination) -> dict[str, Any]:
    return {
        "damaged": bool(examination.all_damages or examination.unreadable),
        "damages": [damage_as_json(damage) for damage in examination.damages],
        "notes": examination.notes,
        "partitions": [_as_json(examined) for examined in examination.partitions],
    }


def damage_as_json(damage: Damage) -> dict[str, Any]:
    """``offset``: the first in doubt; ``next_offset``: where the log goes on, null behind the end of what is sound."""
    return {**damage._asdict(), "path": str(damage.path)}


def _as_json(examined: Examined) -> dict[str, Any]:
    return {
        "topic": examined.partition.topic,
        "partition": examined.partition.partition,
        "segments": examined.segments,
        "bytes": examined.size,
        "batches": examined.batches,
        "records": examined.records,
        "tombstones": examined.tombstones,
        "unknown_keys": examined.unknown_keys,
        "end_offset": examined.end_offset,
        "misplaced": examined.misplaced,
        "unreadable": [{"path": str(path), "reason": reason} for path, reason in examined.unreadable.items()],
        "damages": [damage_as_json(damage) for damage in examined.damages],
        "notes": examined.notes,
    }
