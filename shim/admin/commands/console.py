"""Between the commands and who runs them: refusals in one line, tables, and progress that a pipe can read too.

Exit statuses, the same for every command (docs/admin.md): 0 done and nothing wrong; 1 something is wrong with what was
looked at (damage, offsets that differ, a group that is not there or was refused), or it broke off, and what was done is
not certain; 2 not begun: a wrong option, a directory in use, no shim there, a refusal of what is about no group.
"""

from __future__ import annotations

import errno
import functools
import json
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Final, ParamSpec, Self, TextIO, TypeVar

import click

from shim.admin.commands.hints import pasteable
from shim.admin.errors import BrokenOff, NotDone, StoppedLooking
from shim.config import SettingError

if TYPE_CHECKING:
    from rich.progress import Progress
    from rich.status import Status

SOMETHING_WRONG: Final = 1
"""Exit status of a command that did what it was asked, and found something wrong."""

_LINE_EVERY_S: Final = 5.0
_WAITING_AFTER_S: Final = 3.0
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


def reason_of(error: OSError) -> str:
    """In a few words."""
    from shim.upstream.errors import reason_of  # likewise

    return reason_of(error)


def agree(question: str, names: Sequence[str] = (), *, yes: bool) -> None:
    """Asks on a terminal, with what it is about a line each, and nowhere else. Raises NothingDone for a no, and
    for Ctrl-C."""
    if yes or not sys.stdin.isatty():
        return
    for name in names:
        click.echo(f"  {shown(name)}", err=True)
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort:  # or the end of what is typed
        click.echo(err=True)  # behind the question
        agreed = False
    if not agreed:
        raise NothingDone("nothing was done")


# --- what is shown ---------------------------------------------------------------------------------------------------


def shown(text: str) -> str:
    """Text that clients chose, in one line: what a terminal would act on, or cannot show, is escaped."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape", "surrogatepass").decode("ascii")
        for character in text
    )


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
    """Columns as wide as they need to be, numbers to the right; two spaces between."""
    cells = [tuple(f"{cell}" if isinstance(cell, int) else shown(cell) for cell in row) for row in rows]
    widths = [max(map(len, column)) for column in zip(headings, *cells, strict=True)]
    numbers = [bool(rows) and all(isinstance(row[at], int) for row in rows) for at in range(len(headings))]
    for row in (headings, *cells):
        padded = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numbers, strict=True)
        ]
        _print("  ".join(padded).rstrip())


def print_json(document: object) -> None:
    """In ASCII, so that any text can be in it, whatever the locale."""
    _print(json.dumps(document, indent=2))


def _print(text: str) -> None:
    """Raises Failed where that cannot be written, as to a file on a full disk: what was asked for may be done by then,
    and is not refused."""
    try:
        click.echo(text)
    except OSError as error:
        if error.errno == errno.EPIPE:  # whoever reads has had enough
            raise
        raise Failed(f"{_UNWRITTEN}: {reason_of(error)}; what was asked for may be done all the same") from error


class Ongoing:
    """:class:`shim.admin.progress.Progress` on standard error: a bar on a terminal, else a line every five seconds."""

    def __init__(
        self,
        what: str,
        total: int,
        *,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``total`` is in whatever :meth:`advance` is told in."""
        self._what = what
        self._total = total
        self._stream = stream or sys.stderr
        self._clock = clock
        self._done = 0
        self._next_line = 0.0
        self._bar: Progress | None = None

    def __enter__(self) -> Self:
        if self._stream.isatty():
            self._bar = _started_bar(self._what, self._total, self._stream)
        else:
            self._next_line = self._clock() + _LINE_EVERY_S
        return self

    def advance(self, done: int) -> None:
        self._done += done
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=self._done)
        elif (now := self._clock()) >= self._next_line:
            percent = 100 * self._done // self._total if self._total else 100
            print(f"{self._what}: {min(percent, 100)} %", file=self._stream, flush=True)
            self._next_line = now + _LINE_EVERY_S

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()


class Waiting:
    """Says on standard error what is waited for, once that takes some seconds: on a terminal for as long as it lasts,
    else in a line."""

    def __init__(self, what: str) -> None:
        """``what``: behind `waiting for`."""
        self._line = f"waiting for {what}"
        self._status: Status | None = None
        self._timer = threading.Timer(_WAITING_AFTER_S, self._tell)
        self._timer.daemon = True

    def __enter__(self) -> None:
        self._timer.start()

    def _tell(self) -> None:
        if sys.stderr.isatty():
            # Only now: whoever is answered soon does without.
            from rich.console import Console
            from rich.status import Status
            from rich.text import Text

            self._status = Status(Text(self._line), console=Console(stderr=True))
            self._status.start()
        else:
            click.echo(self._line, err=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        self._timer.join()  # it may be about to tell
        if self._status is not None:
            self._status.stop()


def _started_bar(what: str, total: int, stream: TextIO) -> Progress:
    # Only now: `serve` and most of these commands do without.
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
    bar = Progress(*columns, TimeRemainingColumn(), console=Console(file=stream), transient=True)
    bar.add_task(what, total=total)
    bar.start()
    return bar


Command = TypeVar("Command", bound=Callable[..., Any])

_FOLDER: Final = click.Path(path_type=Path, file_okay=False)
_FILE: Final = click.Path(path_type=Path, dir_okay=False)


def data_dir_option(command: Command) -> Command:
    return click.option("--data-dir", required=True, metavar="DIR", type=_FOLDER, help="The shim's data directory.")(
        command
    )


def json_option(command: Command) -> Command:
    return click.option("--json", "json_wanted", is_flag=True, help="The same as JSON, for scripts.")(command)


def yes_option(command: Command) -> Command:
    return click.option("--yes", is_flag=True, help="Go on without asking.")(command)


def configuration_options(command: Command) -> Command:
    """``config`` and ``assignments``, as :func:`shim.config.load_configuration` takes them."""
    named = click.option("--config", type=_FILE, help="Settings in a TOML file.")
    single = click.option(
        "--set", "assignments", multiple=True, metavar="name=value", help="One setting; may be given many times."
    )
    return named(single(command))


def dry_run_option(command: Command) -> Command:
    return click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")(command)
