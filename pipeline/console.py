"""Between the commands and who runs them: refusals in one line, tables, JSON."""

from __future__ import annotations

import errno
import functools
from collections.abc import Callable, Sequence
from typing import IO, Any, Final, ParamSpec, TypeVar

import click

from pipeline.errors import CannotRun, NotDone, SomethingWrong
from shim.terminal.asking import is_agreed
from shim.terminal.options import Command
from shim.terminal.showing import json_text, shown, table_lines

SOMETHING_WRONG: Final = 1
"""Exit status of a command that was not done, or that found something wrong."""

Asked = ParamSpec("Asked")
Given = TypeVar("Given")


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


def agree(question: str, *, yes: bool) -> None:
    """Raises :class:`NothingDone` where whoever is asked says no, see :func:`shim.terminal.asking.is_agreed`."""
    if not is_agreed(question, yes=yes):
        raise NothingDone("nothing was done")


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str | int]]) -> None:
    for line in table_lines(headings, rows):
        click.echo(line)


def print_json(document: object) -> None:
    click.echo(json_text(document))


def spark_options(command: Command) -> Command:
    """``master`` (None: spark-submit's, else local[*]), ``conf`` (``name=value`` each) and ``spark_log``."""
    master = click.option("--master", metavar="M", help="Where Spark runs. Default: spark-submit's, else local[*].")
    conf = click.option("--conf", multiple=True, metavar="name=value", help="A setting of Spark; may be given often.")
    log = click.option(
        "--spark-log", type=click.Choice(["OFF", "ERROR", "WARN", "INFO"]), default="OFF", show_default=True,
        help="What of Spark's own log goes to standard error.",
    )  # fmt: skip
    return master(conf(log(command)))
