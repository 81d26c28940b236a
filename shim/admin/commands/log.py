"""``offset-shim log``: what can be done with a data directory while no shim uses it."""

from __future__ import annotations

from typing import Final

import click

from shim.admin.commands.when_asked_for import WhenAskedFor


def _backup() -> click.Command:
    from shim.admin.commands.log_backup import backup_command

    return backup_command


def _compact() -> click.Command:
    from shim.admin.commands.log_compact import compact_command

    return compact_command


def _dump() -> click.Command:
    from shim.admin.commands.log_dump import dump_command

    return dump_command


def _export() -> click.Command:
    from shim.admin.commands.log_export import export_command

    return export_command


def _import() -> click.Command:
    from shim.admin.commands.log_import import import_command

    return import_command


def _move() -> click.Command:
    from shim.admin.commands.log_move import move_command

    return move_command


def _repair() -> click.Command:
    from shim.admin.commands.log_repair import repair_command

    return repair_command


def _verify() -> click.Command:
    from shim.admin.commands.log_verify import verify_command

    return verify_command


_COMMANDS: Final = {
    "backup": _backup,
    "compact": _compact,
    "dump": _dump,
    "export": _export,
    "import": _import,
    "move": _move,
    "repair": _repair,
    "verify": _verify,
}


@click.group(
    "log", cls=WhenAskedFor, imported=_COMMANDS, short_help="Look into, check and mend a data directory at rest."
)
def log_commands() -> None:
    """Look into a data directory at rest, check it, mend it, move offsets in and out.

    Every command takes the directory's lock, so none runs beside a shim that uses it; only `backup` and `compact
    --dry-run` do without, and `move` asks the shim. `dump`, `verify`, `export`, `backup` and every --dry-run only read,
    from a disk that has gone read-only, too.
    Exit status: 0 all is well, 1 something is wrong with the data, 2 nothing was done.

    \b
    offset-shim log verify --data-dir /var/lib/offset-shim
    offset-shim log dump --data-dir /var/lib/offset-shim --group billing
    offset-shim log backup /backup/offset-shim-2026-11-21 --data-dir /var/lib/offset-shim
    """
