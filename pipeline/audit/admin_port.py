"""The shims' admin ports as they are given on the command line: where they are, and the token and certificate that they
may want."""

from __future__ import annotations

import ssl
from pathlib import Path

import click

from pipeline.audit.addresses import servers
from shim.admin.admin_client import RunningShim
from shim.admin.live.guard.token_file import CannotUse, token_in
from shim.terminal.options import ADMIN_TOKEN_FILE
from shim.tls import CannotUse as CannotUseFiles
from shim.tls import context_for_admin


def admin_ports(
    text: str, token_file: Path | None, ca_file: Path | None = None, certificate_file: Path | None = None
) -> tuple[RunningShim, ...]:
    """``text``: ``host:port[,host:port]…``; the files, which are for all of them, as docs/admin.md has them.

    Raises :class:`click.UsageError`, with nothing of what is in the files.
    """
    token, tls = _token(token_file), _tls(ca_file, certificate_file)
    return tuple(RunningShim(address, token, tls) for address in servers("--admin", text))


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
