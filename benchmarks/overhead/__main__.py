"""`python -m benchmarks.overhead [--json] [--only TEXT] [--rounds N] [--seconds S]`."""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import click
from rich.box import MARKDOWN
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from benchmarks.commit.generator import Load
from benchmarks.commit.report import conditions
from benchmarks.overhead.sides import OFF, Measured, Side, all_sides

GOAL: Final = 0.95
"""What is to be left of the rate of a shim that has all of it off."""
_MB: Final = 1e6
_GB: Final = 1e9
_MILLION: Final = 1e6
_FETCHING: Final = 8


class Line(NamedTuple):
    """``load``: None for connections that fetch."""

    name: str
    load: Load | None

    def measured(self, side: Side, seconds: float) -> Measured:
        if self.load is None:
            return side.fetch(self.connections, seconds)
        return side.carry(self.load._replace(seconds=seconds))

    @property
    def connections(self) -> int:
        return self.load.connections if self.load is not None else _FETCHING

    def shown(self, numbers: Measured) -> tuple[str, str]:
        if self.load is None:
            return f"{numbers.rate / _MB:,.0f} MB/s", f"{numbers.cpu * _GB:.2f} s a GB"
        return f"{numbers.rate:,.0f}/s", f"{numbers.cpu * _MILLION:.1f} µs"


LINES: Final = (
    Line("commits 8x8", Load("commit", 8, 8, 1, 0.0)),
    Line("commits 64x16", Load("commit", 64, 16, 1, 0.0)),
    Line("commits 8x8, 100 partitions", Load("commit", 8, 8, 100, 0.0)),
    Line("offset fetches 8x8", Load("fetch", 8, 8, 1, 0.0)),
    Line("forwarded round trips 8x8", Load("ask", 8, 8, 1, 0.0)),
    Line("forwarded fetches of 1 MiB", None),
)


class Numbers(NamedTuple):
    """One side of a line, over all rounds: medians; ``rate_left`` and ``cpu_more`` of each round's own ratio to the
    side that has all of it off."""

    side: str
    measured: Measured
    rate_left: float
    cpu_more: float


def run(sides: Sequence[Side], line: Line, rounds: int, seconds: float) -> list[Numbers]:
    for side in sides:
        line.measured(side, seconds)  # warm
    taken: dict[str, list[Measured]] = {side.name: [] for side in sides}
    for number in range(rounds):
        turn = number % len(sides)
        for side in (*sides[turn:], *sides[:turn]):
            taken[side.name].append(line.measured(side, seconds))
    return [
        Numbers(
            name,
            Measured(*map(statistics.median, zip(*own, strict=True))),
            statistics.median(one.rate / off.rate for one, off in zip(own, taken[OFF], strict=True)),
            statistics.median(one.cpu / off.cpu for one, off in zip(own, taken[OFF], strict=True)),
        )
        for name, own in taken.items()
    ]


def as_table(found: Sequence[tuple[Line, list[Numbers]]]) -> Table:
    table = Table("", "", "rate", "CPU of the shim", "rate, of all off", "CPU, of all off", "goal", box=MARKDOWN)
    for column in table.columns[2:]:
        column.justify = "right"
    for line, sides in found:
        for number, each in enumerate(sides):
            ratios = (f"{each.rate_left:.2f}", f"{each.cpu_more:.2f}", f"{GOAL}") if number else ("", "", "")
            table.add_row("" if number else line.name, each.side, *line.shown(each.measured), *ratios)
    return table


def as_json(numbers: Numbers) -> dict[str, float]:
    """Rates in requests or bytes a second, processor seconds for one of them."""
    return {**numbers.measured._asdict(), "rate_left": numbers.rate_left, "cpu_more": numbers.cpu_more}


@click.command()
@click.option("--json", "to_json", is_flag=True, help="JSON on standard output instead of a table.")
@click.option("--only", metavar="TEXT", default="", help="Only the lines whose name has TEXT in it.")
@click.option("--rounds", default=6, show_default=True, type=click.IntRange(1), help="Of each line.")
@click.option("--seconds", default=3.0, show_default=True, help="Of each side in each round.")
@click.option("--directory", type=click.Path(exists=True, path_type=Path), help="On which disk all write.")
def main(to_json: bool, only: str, rounds: int, seconds: float, directory: Path | None) -> None:
    """What metrics, the history and an open console cost: commits, offset fetches and what is forwarded.

    Three shims in front of one broker take turns: one without a history and without an admin port; one with the
    history; one with everything, at which three pages of the console are open and a Prometheus and a StatsD server are
    served, more often than by default, while it is measured. CPU is of the shim's whole process.
    """
    chosen = [line for line in LINES if only in line.name]
    if not chosen:
        raise click.BadParameter(f"no line has {only!r} in its name", param_hint="--only")
    shown = Console(stderr=True)
    with (
        tempfile.TemporaryDirectory(dir=directory, prefix="benchmarks-overhead-") as temporary,
        all_sides(Path(temporary), max(line.connections for line in chosen)) as sides,
        Progress(console=shown, transient=True, disable=not shown.is_terminal) as progress,
    ):
        found = [(line, run(sides, line, rounds, seconds)) for line in progress.track(chosen, description="measuring")]
    here = conditions(rounds, seconds, ())
    if to_json:
        lines = {line.name: {each.side: as_json(each) for each in numbers} for line, numbers in found}
        click.echo(json.dumps({**here, "goal": GOAL, "lines": lines}, indent=2, ensure_ascii=False))
        return
    # A table that is cut to the width of a pipe is of no use to anybody.
    console = Console() if Console().is_terminal else Console(width=150)
    console.print(as_table(found))
    console.print(
        f"{here['date']}, {here['python']}, {here['kafka']}, {here['cores']} cores shared with the load, load average "
        f"{here['load_average']}; medians of {rounds} rounds of {seconds:g} s a side, taking turns",
        highlight=False,
    )


if __name__ == "__main__":
    main()
