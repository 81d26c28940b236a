"""`python -m benchmarks.overhead [--json] [--only TEXT] [--starts N] [--rounds N] [--seconds S]`."""

from __future__ import annotations

import json
import math
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple, Self

import click
from rich.table import Table

from benchmarks import shown
from benchmarks.commit.generator import Load
from benchmarks.overhead.sides import HISTORY, OFF, ON, TWIN, Measured, Side, a_broker, all_sides, together

GOAL: Final = 0.95
"""What is to be left of the rate of a shim that has all of it off."""
_ORDERS: Final = ((0, 1, 3, 2), (1, 2, 0, 3), (2, 3, 1, 0), (3, 0, 2, 1))
"""Of the sides in four rounds: each comes first to last once, and once behind each other one, which may still have
something to do then."""
_WARM_SECONDS: Final = 0.5
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

    def shown(self, numbers: Numbers) -> tuple[str, str]:
        if self.load is None:
            return f"{numbers.rate / _MB:,.0f} MB/s", f"{numbers.cpu * _GB:.2f} s a GB"
        return f"{numbers.rate:,.0f}/s", f"{numbers.cpu * _MILLION:.1f} µs"


LINES: Final = (
    Line("commits 8x8", Load("commit", 8, 8, 1, 0.0)),
    Line("commits 64x1", Load("commit", 64, 1, 1, 0.0)),
    Line("commits 64x16", Load("commit", 64, 16, 1, 0.0)),
    Line("commits 8x8, 100 partitions", Load("commit", 8, 8, 100, 0.0)),
    Line("offset fetches 8x8", Load("fetch", 8, 8, 1, 0.0)),
    Line("round trips passed on 8x8", Load("ask", 8, 8, 1, 0.0)),
    Line("fetches passed on, of 1 MiB", None),
)


class Numbers(NamedTuple):
    """One side of a line, over all starts: medians; and the means of the ratios to the sides that have all of it off,
    start by start, with their standard errors (0 of a single start)."""

    side: str
    rate: float
    cpu: float
    rate_left: float
    rate_left_error: float
    cpu_more: float
    cpu_more_error: float

    @classmethod
    def of(cls, side: str, own: Sequence[Measured], off: Sequence[Measured]) -> Self:
        return cls(
            side,
            statistics.median(one.rate for one in own),
            statistics.median(one.cpu for one in own),
            *_mean([one.rate / other.rate for one, other in zip(own, off, strict=True)]),
            *_mean([one.cpu / other.cpu for one, other in zip(own, off, strict=True)]),
        )


def _mean(ratios: Sequence[float]) -> tuple[float, float]:
    """And its standard error."""
    spread = statistics.stdev(ratios) if len(ratios) > 1 else 0.0
    return statistics.mean(ratios), spread / math.sqrt(len(ratios))


def run(sides: Sequence[Side], line: Line, rounds: int, seconds: float) -> dict[str, Measured]:
    """By side, all rounds of it together: what looks once in a while is in one of them."""
    for side in sides:
        line.measured(side, _WARM_SECONDS)
    taken: dict[str, list[Measured]] = {side.name: [] for side in sides}
    for number in range(rounds):
        for side in (sides[place] for place in _ORDERS[number % len(_ORDERS)]):
            taken[side.name].append(line.measured(side, seconds))
    return {name: together(own) for name, own in taken.items()}


def concluded(starts: Sequence[dict[str, Measured]]) -> list[Numbers]:
    """Both that have all of it off are what the others are compared with, as one of them may be quick or slow by
    itself; and one of the two with the other."""
    off = [each[OFF] for each in starts]
    both = [together((each[OFF], each[TWIN])) for each in starts]
    compared = {OFF: off, TWIN: off}
    return [Numbers.of(name, [each[name] for each in starts], compared.get(name, both)) for name in starts[0]]


def as_table(found: Sequence[tuple[Line, list[Numbers]]]) -> Table:
    table = shown.results("", "", "rate", "CPU", "rate, of all off", "CPU, of all off", "goal")
    for line, sides in found:
        for number, each in enumerate(sides):
            ratios = ("", "")
            if number:
                ratios = (
                    f"{each.rate_left:.3f} ± {each.rate_left_error:.3f}",
                    f"{each.cpu_more:.3f} ± {each.cpu_more_error:.3f}",
                )
            goal = f"{GOAL}" if each.side in (HISTORY, ON) else ""
            table.add_row("" if number else line.name, each.side, *line.shown(each), *ratios, goal)
    return table


@click.command()
@click.option("--json", "to_json", is_flag=True, help="JSON on standard output instead of a table.")
@click.option("--only", metavar="TEXT", default="", help="Only the lines whose name has TEXT in it.")
@click.option("--starts", default=8, show_default=True, type=click.IntRange(1), help="Of all the shims.")
@click.option(
    "--rounds", default=len(_ORDERS), show_default=True, type=click.IntRange(1), help="Of each line after each start."
)
@click.option("--seconds", default=1.2, show_default=True, help="Of each side in each round.")
@click.option("--directory", type=click.Path(exists=True, path_type=Path), help="On which disk all write.")
def main(to_json: bool, only: str, starts: int, rounds: int, seconds: float, directory: Path | None) -> None:
    """What metrics, the history and an open console cost: commits, offset fetches and what is passed on.

    Four shims in front of one broker take turns: two without a history and without an admin port; one with the history;
    one with everything, at which three pages of the console are open, and a Prometheus and a StatsD server are served,
    as often as by default, while it is measured. CPU is of the shim's whole process.

    Two processes that do the same are not equally quick, for as long as they live. So all are started anew a few times,
    and the others are compared with both that have all of it off; these with each other, which tells by how much two
    differ that should not.
    """
    chosen = shown.chosen(LINES, only)
    connections = max(line.connections for line in chosen)
    taken: dict[Line, list[dict[str, Measured]]] = {line: [] for line in chosen}
    with (
        tempfile.TemporaryDirectory(dir=directory, prefix="benchmarks-overhead-") as temporary,
        a_broker(Path(temporary) / "kafka") as broker,
        shown.progress() as progress,
    ):
        for start in progress.track(range(starts), description="measuring"):
            with all_sides(broker, Path(temporary) / f"start-{start}", connections, start) as sides:
                for line in chosen:
                    taken[line].append(run(sides, line, rounds, seconds))
    found = [(line, concluded(of_line)) for line, of_line in taken.items()]
    here = shown.conditions(rounds, seconds) | {"starts": starts}
    if to_json:
        lines = {line.name: {each.side: each._asdict() for each in numbers} for line, numbers in found}
        click.echo(json.dumps({**here, "goal": GOAL, "lines": lines}, indent=2, ensure_ascii=False))
        return
    shown.show(
        as_table(found),
        f"{here['date']}, {here['python']}, {here['kafka']}, {here['cores']} cores shared with the load, load average "
        f"{here['load_average']}; {starts} starts of each shim, each of {rounds} rounds of {seconds:g} s, taking "
        "turns: medians, and means of what is left of all off, with their standard errors; rates in requests or bytes "
        "a second, processor time for one of them",
    )


if __name__ == "__main__":
    main()
