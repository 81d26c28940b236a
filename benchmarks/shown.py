"""How results are told: what was measured where, tables for people, and how far it is."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Protocol, TypeAlias, TypeVar

import click
from rich.box import MARKDOWN
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from shim.demo.parts.jars import KAFKA

Json: TypeAlias = dict[str, Any]


class Named(Protocol):
    @property
    def name(self) -> str: ...


LineT = TypeVar("LineT", bound=Named)


def conditions(rounds: int, seconds: float, shim_settings: Sequence[str] = ()) -> Json:
    """When, where and with what was measured."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "kafka": KAFKA,
        "system": f"{platform.system()} {platform.machine()}",
        "cores": len(os.sched_getaffinity(0)),
        "load_average": round(os.getloadavg()[0], 1),
        "rounds": rounds,
        "seconds": seconds,
        "shim_settings": list(shim_settings),
    }


def chosen(lines: Sequence[LineT], only: str) -> list[LineT]:
    """Those whose name has that text in it. Raises :class:`click.BadParameter` where none has."""
    found = [line for line in lines if only in line.name]
    if not found:
        raise click.BadParameter(f"no line has {only!r} in its name", param_hint="--only")
    return found


def progress() -> Progress:
    """On standard error, where that is a terminal."""
    console = Console(stderr=True)
    return Progress(console=console, transient=True, disable=not console.is_terminal)


def results(*headings: str, words: int = 2) -> Table:
    """A table whose first columns are ``words``, and the others numbers."""
    table = Table(*headings, box=MARKDOWN)
    for column in table.columns[words:]:
        column.justify = "right"
    return table


def show(*what: Table | str) -> None:
    """On standard output. A table that is cut to the width of a pipe is of no use to anybody."""
    console = Console() if Console().is_terminal else Console(width=150)
    for each in what:
        console.print(each, highlight=False)
