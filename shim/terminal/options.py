"""Options that mean the same wherever they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

ADMIN_TOKEN_FILE: Final = "--admin-token-file"  # noqa: S105  # what it is called
ADMIN_CA_FILE: Final = "--admin-ca-file"
ADMIN_CERTIFICATE_FILE: Final = "--admin-certificate-file"

_ADMIN_FILES: Final = {
    ADMIN_TOKEN_FILE: (
        "OFFSET_SHIM_ADMIN_TOKEN_FILE",
        "File with the shim's token, where it wants one: what `admin.token.file` of serve names.",
    ),
    ADMIN_CA_FILE: (
        "OFFSET_SHIM_ADMIN_CA_FILE",
        "Ask over TLS: PEM with the CAs that the shim's certificate may be from.",
    ),
    ADMIN_CERTIFICATE_FILE: (
        "OFFSET_SHIM_ADMIN_CERTIFICATE_FILE",
        "PEM with a key and its certificate chain, to be shown to a shim that wants one.",
    ),
}
"""Of a running shim's admin port, by option: the variable that stands for it, and its help."""


def json_option(command: Command) -> Command:
    return click.option("--json", "json_wanted", is_flag=True, help="The same as JSON, for scripts.")(command)


def yes_option(command: Command) -> Command:
    return click.option("--yes", is_flag=True, help="Go on without asking.")(command)


def dry_run_option(command: Command) -> Command:
    return click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")(command)


def admin_file_option(name: str, *parameter: str, **more: Any) -> Callable[[Command], Command]:
    """``name``: :data:`ADMIN_TOKEN_FILE`, or another of these. ``parameter``: what the command has it as, if it does;
    ``more``: as for :func:`click.option`."""
    variable, text = _ADMIN_FILES[name]
    kind = click.Path(path_type=Path, dir_okay=False)
    return click.option(
        *(name, *parameter), metavar="FILE", type=kind, envvar=variable, show_envvar=True, help=text, **more
    )
