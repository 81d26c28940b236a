"""The results as a table for people, and as JSON."""

from collections.abc import Sequence

from rich.table import Table

from benchmarks import shown
from benchmarks.commit.rounds import OVER_THE_DISK_US, Numbers, Result
from benchmarks.shown import Json


def headline(here: Json) -> str:
    """The conditions in one sentence."""
    settings = " ".join(here["shim_settings"]) or "default settings"
    return (
        f"{here['date']}, {here['python']}, {here['kafka']}, {here['system']}, {here['cores']} cores shared with "
        f"the load generator, load average {here['load_average']:g}; the shim with {settings}; medians of "
        f"{here['rounds']} rounds of {here['seconds']:g} s a side, taking turns"
    )


def as_json(results: Sequence[Result], here: Json) -> Json:
    return {**here, "lines": [_line_as_json(result) for result in results]}


def _line_as_json(result: Result) -> Json:
    return {
        "line": result.line.name,
        "ratio": round(result.ratio, 3),
        "at_least": result.line.at_least,
        "flush_us": result.flush_us,
        "shim": _rounded(result.shim),
        "kafka": _rounded(result.kafka),
    }


def _rounded(numbers: Numbers) -> Json:
    return {name: round(value, 3) for name, value in numbers._asdict().items()}


def as_table(results: Sequence[Result]) -> Table:
    """Two rows a line; `ratio` is of the rates, the shim's to Kafka's."""
    table = shown.results(
        *("connections x pipelined", "", "a second", "p50, ms", "p99, ms", "CPU each, µs", "generator, cores"),
        *("ratio", "goal"),
    )
    for result in results:
        goal = f"{result.line.at_least:g}" if result.line.at_least is not None else "-"
        table.add_row(result.line.name, "shim", *_shown(result.shim), f"{result.ratio:.2f}", goal)
        table.add_row("", "Kafka", *_shown(result.kafka), "", "")
    return table


def _shown(numbers: Numbers) -> tuple[str, ...]:
    return (
        f"{numbers.per_second:,.0f}",
        f"{numbers.p50_us / 1e3:,.2f}",
        f"{numbers.p99_us / 1e3:,.2f}",
        f"{numbers.cpu_us:,.1f}",
        f"{numbers.generator_share:.2f}",
    )


def of_the_disk(results: Sequence[Result]) -> str:
    """What one commit alone takes beside the disk's own flush; "" where that was not measured."""
    return "\n".join(
        f"{result.line.name}: {result.shim.p50_us:,.0f} µs, the disk's own flush {result.flush_us:,.0f} µs: "
        f"{result.shim.p50_us - result.flush_us:,.0f} µs over it (goal: {OVER_THE_DISK_US} at most)"
        for result in results
        if result.flush_us is not None
    )
