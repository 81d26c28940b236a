"""What commands that talk to a running shim have in common: where it is, which groups, and what became of each."""

from __future__ import annotations

import itertools
import ssl
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from shim.admin.commands.admin_client import RunningShim, in_parts
from shim.admin.commands.console import (
    SOMETHING_WRONG,
    Failed,
    Ongoing,
    Refused,
    Waiting,
    print_json,
    shown,
    tell_beside,
)
from shim.admin.commands.hints import found_at
from shim.admin.errors import BrokenOff, Declined, NotDone, NotOffered
from shim.admin.live.guard.token_file import CannotUse, token_in
from shim.admin.live.shown.documents import Row
from shim.admin.progress import Advancing
from shim.config import HostPort, SettingError, parse_host_port
from shim.counted import counted
from shim.tls import CannotUse as CannotUseFiles
from shim.tls import context_for_admin

Command = TypeVar("Command", bound=Callable[..., Any])
Given = TypeVar("Given", str, tuple[str, ...], None)

DEFAULT_ADMIN: Final = "127.0.0.1:9644"

NONE_HEARD_OF: Final = "no group that this shim has heard of (`migrate plan` shows those of the cluster)"

_TOKEN: Final = "offset-shim.admin-token"  # noqa: S105  # where the context of a command has it
_TLS: Final = "offset-shim.admin-tls"  # likewise the files, by option
_CA_FILE: Final = "--admin-ca-file"
_CERTIFICATE_FILE: Final = "--admin-certificate-file"

_NAMED: Final = 10
"""Groups in one line."""


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


@contextmanager
def of_one_group() -> Iterator[None]:
    """Of commands that ask about one: that it is refused ends them with the status that it has as one of many. Raises
    Failed then."""
    try:
        yield
    except Declined as error:
        if error.status == HTTPStatus.CONFLICT:
            raise Failed(str(error)) from error
        raise


class Chosen(NamedTuple):
    """Groups as they were given; none and no pattern: all."""

    names: tuple[str, ...]
    pattern: str | None

    @property
    def question(self) -> Row:
        """For what is not given by name."""
        return {"all": True} if self.pattern is None else {"pattern": self.pattern}


def chosen(groups: Sequence[str], pattern: str | None, all_wanted: bool, *, otherwise_all: bool) -> Chosen:
    """Raises UsageError where more than one way is taken to name groups, or none and not ``otherwise_all``."""
    ways = bool(groups) + (pattern is not None) + all_wanted
    if ways > 1:
        raise click.UsageError("Give groups by name, or --pattern, or --all: one of them.")
    if not ways and not otherwise_all:
        raise click.UsageError("Which groups? Name them, or give --pattern or --all.")
    return Chosen(tuple(dict.fromkeys(groups)), pattern)


def fitting_shown(choice: Chosen) -> str:
    """Behind `no group`."""
    return "" if choice.pattern is None else f" that fits {shown(choice.pattern)}"


class Done(NamedTuple):
    """``rows``: of the groups with which all went well; ``not_done``: the others; ``broken_off``: why there are no
    more, None where these are all; ``unanswered``: a line for each broker that may have more, and has not answered.
    """

    rows: list[Row]
    not_done: list[Row]
    broken_off: BrokenOff | None
    unanswered: Sequence[str] = ()


def done_of(
    shim: RunningShim, what: str, path: str, choice: Chosen, more: Row | None = None, *, look: str | None = None
) -> Done:
    """Has the shim do it, and shows how far it is. ``more``: what is asked besides. ``look``: of what changes groups,
    the command that shows what became of it. Raises NotDone where it does not even begin."""
    done = Done([], [], None)
    try:
        total, rows, unanswered = _answers(shim, path, choice, more or {}, look)
        done = done._replace(unanswered=unanswered)
        with Ongoing(what, total) as ongoing:
            done = done._replace(broken_off=_sorted_out(rows, done, ongoing))
    except BrokenOff as error:
        done = done._replace(broken_off=error)
    except KeyboardInterrupt:
        hint = "" if look is None else f": look with `{look}`"
        why = f"stopped; groups under way are brought to an end, no others begun{hint}"
        done = done._replace(broken_off=BrokenOff(why))
    return done._replace(rows=sorted(done.rows, key=_name), not_done=sorted(done.not_done, key=_name))


def _answers(
    shim: RunningShim, path: str, choice: Chosen, more: Row, look: str | None
) -> tuple[int, Iterable[Row], Sequence[str]]:
    """How many groups there are, what becomes of each, and which brokers may have more."""
    if not choice.names:
        return shim.post(path, {**choice.question, **more}, look)
    parts = in_parts(choice.names)
    # The first is asked for now: where there is no shim, nothing has begun.
    first = shim.post(path, {"groups": next(parts), **more}, look).rows
    rest = (shim.post(path, {"groups": part, **more}, look).rows for part in parts)
    return len(choice.names), itertools.chain(first, itertools.chain.from_iterable(rest)), ()


def _sorted_out(rows: Iterable[Row], done: Done, ongoing: Advancing) -> BrokenOff | None:
    """Why it broke off, or None."""
    try:
        for row in rows:
            if "error" in row:
                done.not_done.append(row)  # and no step towards 100 %, of which it would be the last line
            else:
                done.rows.append(row)
                ongoing.advance(1)
    except (BrokenOff, NotDone) as error:
        return BrokenOff(str(error))
    return None


def _name(row: Row) -> str:
    return str(row["group"])


def tell(
    done: Done, show: Callable[[Sequence[Row]], None], *, json_wanted: bool, none_of_them: str = "no group"
) -> None:
    """What was done on standard output, what was not on standard error, ``none_of_them`` where it was about no group.
    Raises what it broke off with; exits with 1 where something was not done, or not all groups are known.
    """
    if json_wanted:
        unanswered = {"unanswered": done.unanswered} if done.unanswered else {}
        print_json({"groups": done.rows, "not_done": done.not_done, **unanswered})
    else:
        if done.rows:
            show(done.rows)
        elif not done.not_done and done.broken_off is None and not done.unanswered:
            tell_beside(none_of_them)
        for line in done.unanswered:
            tell_beside(f"not all groups are known: {shown(line)}")
        by_reason: dict[tuple[str, str], list[Row]] = {}
        for row in done.not_done:
            by_reason.setdefault((row["kind"], row["error"]), []).append(row)
        for (kind, why), its in by_reason.items():
            tell_beside(f"{names_shown(its)}: {kind}: {shown(why)}")
    if done.broken_off is not None:
        raise done.broken_off
    if done.not_done or done.unanswered:
        sys.exit(SOMETHING_WRONG)


def refuse_misspelt(shim: RunningShim, choice: Chosen, done: Done) -> None:
    """Raises Refused where there was nothing because no group that is known fits the pattern."""
    fits = choice.pattern is None or done.rows or done.not_done or done.unanswered or done.broken_off is not None
    if not fits and not shim.get("/v1/groups", [("pattern", str(choice.pattern))])["groups"]:
        raise Refused(f"no group fits {choice.pattern}")


def overview_of(shim: RunningShim) -> Row:
    """With what an older shim does not tell: it has all partitions, and its log in one place."""
    try:
        whole: Row = shim.get("/v1/overview")
    except NotOffered:
        whole = {"partitions": 0}
    return {"owned": whole["partitions"], "others": [], "log_moves": False, **whole}


def tell_of_others(shim: RunningShim) -> None:
    """On standard error, where not all partitions are that shim's: what was shown is of its groups alone."""
    whole = overview_of(shim)
    if whole["owned"] == whole["partitions"]:
        return
    others = ", ".join(map(shown, whole["others"]))
    where = f"; others: {others} (clients' addresses; ask each one's --admin)" if others else ""
    click.echo(f"this shim has {whole['owned']} of {counted(whole['partitions'], 'partition')}{where}", err=True)


def name_shown(row: Row) -> str:
    """Of a group, before what is said of it."""
    return shown(row["group"]) or "(no name)"


def names_shown(rows: Sequence[Row]) -> str:
    """Of groups of which the same is said, before that."""
    more = len(rows) - _NAMED
    return ", ".join(map(name_shown, rows[:_NAMED])) + (f" and {more:,} more (--json has all)" if more > 0 else "")


def groups_shown(rows: Sequence[Row]) -> str:
    """Of one or more groups, of which the same is said: its name, or how many they are."""
    return name_shown(rows[0]) if len(rows) == 1 else counted(len(rows), "group")
