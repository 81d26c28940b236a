"""The shim's admin port as it is given on the command line: where it is, and the token and certificate it may want."""

from __future__ import annotations

import ssl
from pathlib import Path

import click

from pipeline.audit.addresses import address
from shim.admin.admin_client import RunningShim
from shim.admin.live.guard.token_file import CannotUse, token_in
from shim.terminal.options import ADMIN_TOKEN_FILE
from shim.tls import CannotUse as CannotUseFiles
from shim.tls import context_for_admin


def admin_port(
    text: str, token_file: Path | None, ca_file: Path | None = None, certificate_file: Path | None = None
) -> RunningShim:
    """``text``: ``host:port``; the files as docs/admin.md has them.

    Raises :class:`click.UsageError`, with nothing of what is in the files.
    """
    return RunningShim(address("--admin", text), _token(token_file), _tls(ca_file, certificate_file))


def _token(file: Path | None) -> str:
    if file is None:
        return ""
    try:
        return token_in(file)
    except CannotUse as error:
        raise click.BadParameter(str(error), param_hint=ADMIN_TOKEN_FILE) from None


def _tls(ca_file: Path | None, certificate_file: Path | None) -> ssl.SSLContext | None:
    try:
        return context_for_admin(ca_file, certificate_file)
    except CannotUseFiles as error:
        raise click.UsageError(str(error)) from None
