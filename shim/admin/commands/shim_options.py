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
from shim.terminal.options import Command
from shim.terminal.progress import Waiting
from shim.terminal.showing import shown
from shim.tls import CannotUse as CannotUseFiles
from shim.tls import context_for_admin

Given = TypeVar("Given", str, tuple[str, ...], None)

DEFAULT_ADMIN: Final = "127.0.0.1:9644"

_TOKEN: Final = "offset-shim.admin-token"  # noqa: S105  # where the context of a command has it
_TLS: Final = "offset-shim.admin-tls"  # likewise the files, by option
_CA_FILE: Final = "--admin-ca-file"
_CERTIFICATE_FILE: Final = "--admin-certificate-file"


def _in_json(context: click.Context, parameter: click.Parameter, given: Given) -> Given:
    """A callback: what a shell hands over need not be Unicode, and names in JSON are."""
    texts: Sequence[str] = (given,) if isinstance(given, str) else given or ()
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError:
            raise click.BadParameter(f"{shown(text)} is not UTF-8", context, parameter) from None
    return given


def _admin_address(context: click.Context, _: click.Parameter, text: str) -> HostPort:
    try:
        address = parse_host_port(text)
    except SettingError as error:
        raise click.BadParameter(str(error)) from None
    if text != DEFAULT_ADMIN:
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
        found_at(context, "--admin-token-file", file)


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
    ca_file, own = files.get(_CA_FILE), files.get(_CERTIFICATE_FILE)
    if ca_file is None:
        if own is not None:
            raise click.UsageError(f"{_CERTIFICATE_FILE} is shown to a shim that {_CA_FILE} has checked: give both")
        return None
    try:
        return context_for_admin(ca_file, own)
    except CannotUseFiles as error:
        raise click.UsageError(str(error)) from None


def _file_option(
    name: str, variable: str, keep: Callable[[click.Context, click.Parameter, Path | None], None], text: str
) -> Callable[[Command], Command]:
    """``keep``: where the command's context has it, as no command takes it itself."""
    return click.option(
        name,
        metavar="FILE",
        type=click.Path(path_type=Path, dir_okay=False),
        envvar=variable,
        show_envvar=True,
        expose_value=False,
        callback=keep,
        help=text,
    )


_FILES: Final = (
    _file_option(
        _CERTIFICATE_FILE,
        "OFFSET_SHIM_ADMIN_CERTIFICATE_FILE",
        _keep_file,
        "PEM with a key and its certificate chain, to be shown to a shim that wants one.",
    ),
    _file_option(
        _CA_FILE,
        "OFFSET_SHIM_ADMIN_CA_FILE",
        _keep_file,
        "Ask over TLS: PEM with the CAs that the shim's certificate may be from.",
    ),
    _file_option(
        "--admin-token-file",
        "OFFSET_SHIM_ADMIN_TOKEN_FILE",
        _keep_token,
        "File with the shim's token, where it wants one: what `admin.token.file` of serve names.",
    ),
)


def admin_option(command: Command) -> Command:
    for of_file in _FILES:
        command = of_file(command)
    return click.option(
        "--admin",
        metavar="H:P",
        default=DEFAULT_ADMIN,
        show_default=True,
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
