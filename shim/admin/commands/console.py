"""Between the commands and who runs them: what ends one, in one line, and what is shown of what was done.

Exit statuses, the same for every command (docs/admin.md): 0 done and nothing wrong; 1 something is wrong with what was
looked at (damage, offsets that differ, a group that is not there or was refused), or it broke off, and what was done is
not certain; 2 not begun: a wrong option, a directory in use, no shim there, a refusal of what is about no group.
"""

from __future__ import annotations

import errno
import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, Final, ParamSpec, TypeVar

import click

from shim.admin.commands.hints import pasteable
from shim.admin.errors import BrokenOff, NotDone, StoppedLooking
from shim.admin.reasons import reason_of
from shim.config import SettingError
from shim.terminal.asking import is_agreed
from shim.terminal.options import Command
from shim.terminal.showing import json_text, table_lines

SOMETHING_WRONG: Final = 1
"""Exit status of a command that did what it was asked, and found something wrong."""

_UNWRITTEN: Final = "what this command has to say cannot be written to standard output"

Asked = ParamSpec("Asked")
Given = TypeVar("Given")


class _InOneLine(click.ClickException):
    def __init__(self, message: str) -> None:
        super().__init__(pasteable(message))  # now, as click shows it when nobody knows any more what was given


class Refused(_InOneLine):
    """Why a command did nothing, in one line."""

    exit_code = 2


class Failed(_InOneLine):
    """Why a command broke off in the middle, or a group was refused, in one line."""

    exit_code = SOMETHING_WRONG


class NothingDone(Refused):
    """As whoever has given the command wants it: he has said no, or stopped it. That is no error."""

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(self.format_message(), file=file, err=True)


def in_one_line(command: Callable[Asked, Given]) -> Callable[Asked, Given]:
    """Has what the work raises, and the log, the disk and the network, end the command as :class:`Refused`; damage,
    what broke off in the middle, and a group that is not there, as :class:`Failed`."""

    @functools.wraps(command)
    def told(*args: Asked.args, **kwargs: Asked.kwargs) -> Given:
        try:
            return command(*args, **kwargs)
        except StoppedLooking as error:
            raise NothingDone("stopped; nothing was done") from error
        except Exception as error:
            if (line := _line_of(error)) is None:
                raise
            raise line from error

    return told


def _line_of(error: Exception) -> click.ClickException | None:
    """What is shown of it, if it is one of those that are expected."""
    # Only now: the rooms that have these are most of what a command would import.
    from shim.admin.live.asked.migration import NotKnown
    from shim.log import CorruptLog, LogError
    from shim.upstream.errors import UpstreamError

    match error:
        case CorruptLog() | BrokenOff() | NotKnown():
            return Failed(str(error))
        case LogError() | NotDone() | SettingError() | UpstreamError():
            return Refused(str(error))
        case OSError(errno=errno.EPIPE):  # whoever reads has had enough: `log dump | head`
            return None
        case OSError():
            where = f"{error.filename}: " if error.filename else ""
            return Refused(f"{where}{reason_of(error)}")
        case _:
            return None


def agree(question: str, names: Sequence[str] = (), *, yes: bool) -> None:
    """Raises NothingDone where whoever is asked says no, see :func:`shim.terminal.asking.is_agreed`."""
    if not is_agreed(question, names, yes=yes):
        raise NothingDone("nothing was done")


# --- what is shown ---------------------------------------------------------------------------------------------------


def tell_beside(line: str) -> None:
    """On standard error, beside what was asked for."""
    click.echo(pasteable(line), err=True)


def number_shown(number: int | None) -> int | str:
    """``-`` where nobody knows."""
    return "-" if number is None else number


def bytes_shown(size: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str | int]]) -> None:
    for line in table_lines(headings, rows):
        _print(line)


def print_json(document: object) -> None:
    _print(json_text(document))


def _print(text: str) -> None:
    """Raises Failed where that cannot be written, as to a file on a full disk: what was asked for may be done by then,
    and is not refused."""
    try:
        click.echo(text)
    except OSError as error:
        if error.errno == errno.EPIPE:  # whoever reads has had enough
            raise
        raise Failed(f"{_UNWRITTEN}: {reason_of(error)}; what was asked for may be done all the same") from error


_FOLDER: Final = click.Path(path_type=Path, file_okay=False)
_FILE: Final = click.Path(path_type=Path, dir_okay=False)


def data_dir_option(command: Command) -> Command:
    return click.option("--data-dir", required=True, metavar="DIR", type=_FOLDER, help="The shim's data directory.")(
        command
    )


def configuration_options(command: Command) -> Command:
    """``config`` and ``assignments``, as :func:`shim.config.load_configuration` takes them."""
    named = click.option("--config", type=_FILE, help="Settings in a TOML file.")
    single = click.option(
        "--set", "assignments", multiple=True, metavar="name=value", help="One setting; may be given many times."
    )
    return named(single(command))
