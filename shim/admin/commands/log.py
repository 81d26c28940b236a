"""``offset-shim log``: what can be done with a data directory while no shim uses it."""

from __future__ import annotations

import click

from shim.admin.commands.log_backup import backup_command
from shim.admin.commands.log_compact import compact_command
from shim.admin.commands.log_dump import dump_command
from shim.admin.commands.log_export import export_command
from shim.admin.commands.log_import import import_command
from shim.admin.commands.log_move import move_command
from shim.admin.commands.log_repair import repair_command
from shim.admin.commands.log_verify import verify_command


@click.group("log", short_help="Look into, check and mend a data directory at rest.")
def log_commands() -> None:
    """Look into a data directory at rest, check it, mend it, move offsets in and out.

    Every command takes the directory's lock, so none runs beside a shim that uses it; only `backup` and `compact
    --dry-run` do without, and `move` asks the shim. `dump`, `verify`, `export`, `backup` and every --dry-run only read,
    from a disk that has gone read-only, too.
    Exit status: 0 all is well, 1 something is wrong with the data, 2 nothing was done.

    \b
    offset-shim log verify --data-dir /var/lib/offset-shim
    offset-shim log dump --data-dir /var/lib/offset-shim --group billing
    offset-shim log backup /backup/offset-shim --data-dir /var/lib/offset-shim
    """


for _command in (
    dump_command,
    verify_command,
    repair_command,
    compact_command,
    export_command,
    import_command,
    backup_command,
    move_command,
):
    log_commands.add_command(_command)
