"""``log backup``: a copy that can be opened as a data directory."""

from __future__ import annotations

from pathlib import Path

import click

from shim.admin.at_rest.backing_up import back_up
from shim.admin.commands.console import bytes_shown, data_dir_option, in_one_line, print_json, print_table
from shim.admin.commands.log_verify import tell_empty
from shim.counted import counted
from shim.log.disk.files import Files
from shim.terminal.options import json_option
from shim.terminal.progress import Ongoing


@click.command("backup", short_help="Copy a data directory, also while a shim uses it.")
@data_dir_option
@click.argument("target", metavar="TARGET", type=click.Path(path_type=Path))
@json_option
@in_one_line
def backup_command(data_dir: Path, target: Path, json_wanted: bool) -> None:
    """Copy a data directory to TARGET, a new one outside of it, also while a shim is using it.

    TARGET can be opened as a data directory, and then serves what was acknowledged before the backup began, and perhaps
    some of what came later. On the same file system closed segments are linked, which takes no room; a backup against
    the loss of a disk belongs on another. What was copied is read back and checked before TARGET gets its name. A
    damaged log, or one that holds another partition's files, is not backed up: copy the directory of a stopped shim as
    it is before you repair it.

    \b
    offset-shim log backup --data-dir /var/lib/offset-shim /backup/offset-shim-2026-11-21
    """
    done, examination = back_up(Files(), data_dir, target, Ongoing)
    found = {examined.partition: examined for examined in examination.partitions}
    rows = [
        (str(at), linked, copied, size, found[at].records, found[at].end_offset)
        for at, linked, copied, size in ((one.partition, one.linked, one.copied, one.size) for one in done)
    ]
    if json_wanted:
        names = ("partition", "linked", "copied", "bytes", "records", "end_offset")
        partitions = [dict(zip(names, row, strict=True)) for row in rows]
        print_json({"target": str(target.absolute()), "partitions": partitions})
        return
    told = [row for row, one in zip(rows, done, strict=True) if not found[one.partition].is_empty]
    if told:
        print_table(("PARTITION", "LINKED", "COPIED", "BYTES", "RECORDS", "END OFFSET"), told)
    tell_empty(examination)
    total = bytes_shown(sum(one.size for one in done))
    click.echo(f"{counted(len(done), 'partition')}, {total}; read back: sound; in {target}")
