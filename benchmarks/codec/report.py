"""The results as a table for people, and as JSON."""

from collections.abc import Sequence
from importlib.metadata import version

from rich.table import Table

from benchmarks import shown
from benchmarks.codec.sides import Column
from benchmarks.codec.timing import Effort, Result, Timing
from benchmarks.shown import Json

PACKAGES = ("kafka-python", "aiokafka", "kio", "google-crc32c", "crc32c")


def conditions(effort: Effort) -> Json:
    """When, where and with what was measured."""
    here = shown.conditions(effort.rounds, 0.0)
    return {
        **{name: here[name] for name in ("date", "python", "system", "cores", "rounds")},
        "packages": {package: version(package) for package in PACKAGES},
        "sample_ms": effort.sample_ns / 1e6,
    }


def as_json(results: Sequence[Result], effort: Effort) -> Json:
    """`best_us` and `median_us`: microseconds a run; `ratio`: the best of a side / our best; `median_ratio`: the median
    of the ratios of each round."""
    return {**conditions(effort), "lines": [_line_as_json(result) for result in results]}


def _line_as_json(result: Result) -> Json:
    ours = result.timings[0]
    return {
        "line": result.line.label,
        "work": result.line.work,
        "sides": {
            timing.column.value: {
                "native": timing.native,
                "best_us": round(timing.best / 1000, 3),
                "median_us": round(timing.median / 1000, 3),
                "ratio": round(timing.best / ours.best, 3),
                "median_ratio": round(timing.median_ratio(ours), 3),
            }
            for timing in result.timings
        },
    }


def headline(effort: Effort) -> str:
    """The conditions in one sentence."""
    here = conditions(effort)
    packages = ", ".join(f"{name} {number}" for name, number in here["packages"].items())
    return (
        f"{here['date']}, {here['python']}, {here['system']}, {here['cores']} cores; {packages}; "
        f"best of {here['rounds']} interleaved rounds of {here['sample_ms']:g} ms of processor time"
    )


def as_table(results: Sequence[Result]) -> Table:
    """Our microseconds, and how many times as long each of the others took; * is compiled code, - is "has none"."""
    others = [column for column in Column if column is not Column.OURS]
    table = shown.results("message", "work", "ours, µs", *others)
    for result in results:
        found = {timing.column: timing for timing in result.timings}
        ours = found[Column.OURS]
        ratios = [_ratio(found.get(column), ours) for column in others]
        table.add_row(result.line.label, result.line.work, _microseconds(ours), *ratios)
    return table


def _microseconds(timing: Timing) -> str:
    us = timing.best / 1000
    return f"{us:,.0f}" if us >= 100 else f"{us:.3g}"


def _ratio(timing: Timing | None, ours: Timing) -> str:
    if timing is None:
        return "-"
    ratio = timing.best / ours.best
    text = f"{ratio:.2f}{'*' if timing.native else ''}"
    return f"[red]{text}[/red]" if ratio < 1 and not timing.native and timing.column is not Column.BY_HAND else text
