"""Options of commands that talk to a running shim: where it is, how it is spoken to, and which groups are meant."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Final, TypeVar

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from shim.admin.admin_client import RunningShim
from shim.admin.commands.hints import found_at
from shim.admin.errors import BrokenOff, NotDone
from shim.admin.live.guard.token_file import CannotUse, token_in
from shim.config import HostPort, SettingError, parse_host_port
from shim.terminal.options import (
    ADMIN_CA_FILE,
    ADMIN_CERTIFICATE_FILE,
    ADMIN_TOKEN_FILE,
    Command,
    admin_file_option,
)
from shim.terminal.progress import Waiting
from shim.terminal.showing import shown
from shim.tls import CannotUse as CannotUseFiles
from shim.tls import context_for_admin

Given = TypeVar("Given", str, tuple[str, ...], None)

DEFAULT_ADMIN: Final = "127.0.0.1:9644"
ADMIN_VARIABLE: Final = "OFFSET_SHIM_ADMIN"

_TOKEN: Final = "offset-shim.admin-token"  # noqa: S105  # where the context of a command has it
_TLS: Final = "offset-shim.admin-tls"  # likewise the files, by option


def _in_json(context: click.Context, parameter: click.Parameter, given: Given) -> Given:
    """A callback: what a shell hands over need not be Unicode, and names in JSON are."""
    texts: Sequence[str] = (given,) if isinstance(given, str) else given or ()
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError:
            raise click.BadParameter(f"{shown(text)} is not UTF-8", context, parameter) from None
    return given


def _admin_address(context: click.Context, parameter: click.Parameter, text: str) -> HostPort:
    try:
        address = parse_host_port(text)
    except SettingError as error:
        raise click.BadParameter(str(error)) from None
    if text != (parameter.value_from_envvar(context) or DEFAULT_ADMIN):  # a variable is still there
        found_at(context, "--admin", address)
    return address


def _keep_token(context: click.Context, parameter: click.Parameter, file: Path | None) -> None:
    """A callback: the token goes with each request of the command, see :func:`shim_at`."""
    if file is None:
        return
    try:
        context.meta[_TOKEN] = token_in(file)
    except CannotUse as error:
        raise click.BadParameter(str(error), context, parameter) from None
    if context.get_parameter_source(str(parameter.name)) is ParameterSource.COMMANDLINE:  # a variable is still there
        found_at(context, ADMIN_TOKEN_FILE, file)


def _keep_file(context: click.Context, parameter: click.Parameter, file: Path | None) -> None:
    """A callback: certificates go with each connection of the command, see :func:`shim_at`."""
    if file is None:
        return
    option = parameter.opts[0]
    context.meta.setdefault(_TLS, {})[option] = file
    if context.get_parameter_source(str(parameter.name)) is ParameterSource.COMMANDLINE:
        found_at(context, option, file)


def shim_at(address: HostPort, waiting: Callable[[str], AbstractContextManager[object]] = Waiting) -> RunningShim:
    """The one there, asked with the token and the certificates that the command was given. ``waiting``: see
    :class:`RunningShim`. Raises click.UsageError for files that are no certificates."""
    context = click.get_current_context(silent=True)
    meta = {} if context is None else context.meta
    return RunningShim(address, meta.get(_TOKEN, ""), _tls(meta.get(_TLS, {})), waiting)


def _tls(files: Mapping[str, Path]) -> ssl.SSLContext | None:
    """None where the commands were told of no CA."""
    try:
        return context_for_admin(files.get(ADMIN_CA_FILE), files.get(ADMIN_CERTIFICATE_FILE))
    except CannotUseFiles as error:
        raise click.UsageError(str(error)) from None


_KEEPS: Final = {ADMIN_CERTIFICATE_FILE: _keep_file, ADMIN_CA_FILE: _keep_file, ADMIN_TOKEN_FILE: _keep_token}
"""In the order in which they are put on a command: the last one is shown first."""


def admin_option(command: Command) -> Command:
    for name, keep in _KEEPS.items():  # no command takes it itself: its context has it
        command = admin_file_option(name, expose_value=False, callback=keep)(command)
    return click.option(
        "--admin",
        metavar="H:P",
        default=DEFAULT_ADMIN,
        show_default=True,
        envvar=ADMIN_VARIABLE,
        show_envvar=True,
        callback=_admin_address,
        help="Where the shim's admin interface is: what `serve --admin` names.",
    )(command)


def pattern_option(command: Command) -> Command:
    text = "Groups whose names fit: * for anything, ? for one character, [ab] for one of some."
    return click.option("--pattern", callback=_in_json, metavar="GLOB", help=text)(command)


def all_option(command: Command) -> Command:
    return click.option("--all", "all_wanted", is_flag=True, help="All groups there are, or that can be moved so.")(
        command
    )


def _known_groups(context: click.Context, _: click.Parameter, begun: str) -> list[CompletionItem]:
    """For the shell's completion: names of groups of the running shim."""
    address = context.params.get("admin", DEFAULT_ADMIN)
    try:
        at = parse_host_port(address) if isinstance(address, str) else address
        known = shim_at(at, nullcontext).get("/v1/groups")
    except (BrokenOff, NotDone, SettingError):  # whoever presses tab is in the middle of a line: none are known
        return []
    return [CompletionItem(row["group"]) for row in known["groups"] if row["group"].startswith(begun)]


def groups_argument(command: Command, metavar: str = "[G]...") -> Command:
    return click.argument("groups", nargs=-1, callback=_in_json, metavar=metavar, shell_complete=_known_groups)(command)


def group_argument(command: Command) -> Command:
    return click.argument("group", callback=_in_json, metavar="G", shell_complete=_known_groups)(command)


def cause_option(where: str) -> Callable[[Command], Command]:
    """``where``: what shows it later."""
    return click.option("--cause", callback=_in_json, metavar="TEXT", help=f"Why: it is kept, for {where}.")
