"""Between the commands and who runs them: refusals in one line, tables, JSON."""

from __future__ import annotations

import errno
import functools
import json
import sys
from collections.abc import Callable, Sequence
from typing import IO, Any, Final, ParamSpec, TypeVar

import click

from pipeline.errors import CannotRun, NotDone, SomethingWrong

SOMETHING_WRONG: Final = 1
"""Exit status of a command that was not done, or that found something wrong."""

Asked = ParamSpec("Asked")
Given = TypeVar("Given")
Command = TypeVar("Command", bound=Callable[..., Any])


class Failed(click.ClickException):
    """Why a command was not done, in one line."""

    exit_code = SOMETHING_WRONG


class NothingDone(Failed):
    """As whoever was asked wants it: that is no error."""

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(self.format_message(), file=file, err=True)


def in_one_line(command: Callable[Asked, Given]) -> Callable[Asked, Given]:
    """Has what the work raises, and files and the network, end the command as :class:`Failed`."""

    @functools.wraps(command)
    def told(*args: Asked.args, **kwargs: Asked.kwargs) -> Given:
        try:
            return command(*args, **kwargs)
        except (CannotRun, NotDone, SomethingWrong) as error:
            raise Failed(shown(str(error))) from error
        except OSError as error:
            if error.errno == errno.EPIPE:  # whoever reads has had enough: `… | head`
                raise
            where = f"{error.filename}: " if error.filename else ""
            raise Failed(f"{where}{error.strerror or error}") from error

    return told


def may_go_on(question: str, *, yes: bool) -> None:
    """Asks on a terminal, and nowhere else. Raises :class:`NothingDone` for a no, and for Ctrl-C."""
    if yes or not sys.stdin.isatty():
        return
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort:  # or the end of what is typed
        click.echo(err=True)  # behind the question
        agreed = False
    if not agreed:
        raise NothingDone("nothing was done")


def shown(text: str) -> str:
    """Text that others chose, in one line: what a terminal would act on, or cannot show, is escaped."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape", "surrogatepass").decode("ascii")
        for character in text
    )


def count_shown(count: int, what: str) -> str:
    """``1 batch``, ``2 batches``."""
    if count == 1:
        return f"1 {what}"
    return f"{count:,} {what}es" if what.endswith("ch") else f"{count:,} {what}s"


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
        click.echo("  ".join(padded).rstrip())


def print_json(document: object) -> None:
    """In ASCII, so that any text can be in it, whatever the locale."""
    click.echo(json.dumps(document, indent=2))


def json_option(command: Command) -> Command:
    return click.option("--json", "json_wanted", is_flag=True, help="The same as JSON, for scripts.")(command)


def yes_option(command: Command) -> Command:
    return click.option("--yes", is_flag=True, help="Go on without asking.")(command)


def dry_run_option(command: Command) -> Command:
    return click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")(command)


def spark_options(command: Command) -> Command:
    """``master`` (None: spark-submit's, else local[*]), ``conf`` (``name=value`` each) and ``spark_log``."""
    master = click.option("--master", metavar="M", help="Where Spark runs. Default: spark-submit's, else local[*].")
    conf = click.option("--conf", multiple=True, metavar="name=value", help="A setting of Spark; may be given often.")
    log = click.option(
        "--spark-log", type=click.Choice(["OFF", "ERROR", "WARN", "INFO"]), default="OFF", show_default=True,
        help="What of Spark's own log goes to standard error.",
    )  # fmt: skip
    return master(conf(log(command)))
