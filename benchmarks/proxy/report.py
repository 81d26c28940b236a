"""The results as a table for people, and as JSON."""

from collections.abc import Sequence

from rich.table import Table

from benchmarks import shown
from benchmarks.proxy.kroxylicious import RELEASE
from benchmarks.proxy.rounds import ADDED_GOAL_US, CPU_GOAL, Numbers, Result
from benchmarks.proxy.sides import DIRECT, SHIM
from benchmarks.shown import Json


def conditions(rounds: int, megabytes: int, seconds: float, spare_core: bool, settings: Sequence[str]) -> Json:
    """When, where and with what was measured."""
    here = shown.conditions(rounds, seconds, settings)
    return {**here, "proxy": RELEASE, "megabytes": megabytes, "spare_core": spare_core}


def headline(here: Json) -> str:
    """The conditions in one sentence."""
    settings = " ".join(here["shim_settings"]) or "default settings"
    shared = "one of them the proxy's alone" if here["spare_core"] else "shared by all"
    return (
        f"{here['date']}, {here['python']}, {here['kafka']}, {here['proxy']}, {here['system']}, {here['cores']} cores, "
        f"{shared}, load average {here['load_average']:g}; the shim with {settings}; medians of "
        f"{here['rounds']} rounds of {here['megabytes']} MB or {here['seconds']:g} s a side, taking turns"
    )


def as_json(results: Sequence[Result], here: Json) -> Json:
    return {
        **here,
        "cpu_goal": CPU_GOAL,
        "added_goal_us": ADDED_GOAL_US,
        "lines": [
            {
                "line": result.line.name,
                "at_least": _goal(result, here["spare_core"]),
                "sides": {numbers.side: _rounded(numbers) for numbers in result.sides},
            }
            for result in results
        ],
    }


def _goal(result: Result, spare_core: bool) -> float | None:
    return result.line.at_least_spared if spare_core else result.line.at_least


def _rounded(numbers: Numbers) -> Json:
    values = numbers._asdict()
    del values["side"]
    return {name: value if value is None else round(value, 3) for name, value in values.items()}


def as_table(results: Sequence[Result], here: Json) -> Table:
    """A row for each side of a line; `ratio` is of the rate to that of the direct way."""
    table = shown.results(
        *("", "", "rate", "ratio", "goal", "p50, µs", "p99, µs", "CPU s for a GB, or 1M round trips"),
    )
    for result in results:
        for numbers in result.sides:
            goal = _goal(result, here["spare_core"]) if numbers.side == SHIM else None
            trips = numbers.p50_us is not None
            table.add_row(
                result.line.name if numbers.side == DIRECT else "",
                numbers.side,
                f"{numbers.rate:,.0f}/s" if trips else f"{numbers.rate / 1e6:,.0f} MB/s",
                "" if numbers.side == DIRECT else f"{numbers.ratio:.2f}",
                "" if goal is None else f"{goal:g}",
                _microseconds(numbers.p50_us),
                _microseconds(numbers.p99_us),
                "" if numbers.side == DIRECT else f"{numbers.cpu:.2f}",
            )
    return table


def _microseconds(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"
