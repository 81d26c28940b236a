"""The lines of the comparison, and their rounds: all sides take turns on every line."""

import statistics
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from benchmarks.commit.generator import Load
from benchmarks.proxy.perf_tools import Consume, Produce
from benchmarks.proxy.sides import DIRECT, Side

GB: Final = 1_000_000_000
CPU_GOAL: Final = 0.35
"""Processor seconds of the shim for a GB."""
ADDED_GOAL_US: Final = 40
"""What the shim may add to the median of a round trip."""
PRODUCE_LARGE, PRODUCE_SMALL = "produce 1 KB, 1 MB batches", "produce 100 B, 16 KB batches"
CONSUME: Final = "consume"


class Line(NamedTuple):
    """`at_least`: what the rate is to be beside the direct one's, on saturated cores and where a core is spared."""

    name: str
    load: Produce | Consume | Load
    at_least: float | None = None
    at_least_spared: float | None = None


def lines(megabytes: int, seconds: float) -> tuple[Line, ...]:
    """`megabytes`: to be produced or consumed by each side in each round; `seconds`: of round trips."""
    size = megabytes * 1_000_000
    return (
        Line(PRODUCE_LARGE, Produce(1_024, 1 << 20, size // 1_024), 0.85, 0.95),
        Line(PRODUCE_SMALL, Produce(100, 16_384, size // 4 // 100), 0.85, 0.95),
        Line(CONSUME, Consume(size // 1_024), 0.8, 0.95),
        Line("round trips 1x1", Load("ask", 1, 1, 1, seconds)),
        Line("round trips 8x8", Load("ask", 8, 8, 1, seconds)),
    )


class Measured(NamedTuple):
    """One side in one round. `rate`: payload bytes a second, or round trips. `cpu`: processor seconds of the proxy for
    a GB of payload, or for a million round trips. `p50_us`, `p99_us`: of a round trip."""

    rate: float
    cpu: float
    p50_us: float | None = None
    p99_us: float | None = None


class Numbers(NamedTuple):
    """One side of a line: medians of its rounds. `ratio`: the median of the rounds' ratios to the direct way."""

    side: str
    rate: float
    cpu: float
    ratio: float
    p50_us: float | None
    p99_us: float | None


class Result(NamedTuple):
    line: Line
    sides: list[Numbers]


def run(
    sides: Sequence[Side],
    chosen: Sequence[Line],
    *,
    rounds: int,
    warm_up: int,
    done: Callable[[], object] = lambda: None,
) -> list[Result]:
    """`warm_up` rounds are not counted. `done` is called after each line in a round."""
    taken: dict[str, list[dict[str, Measured]]] = {line.name: [] for line in chosen}
    for number in range(warm_up + rounds):
        turn = number % len(sides)
        for line in chosen:
            measured = {side.name: measure(side, line) for side in (*sides[turn:], *sides[:turn])}
            if number >= warm_up:
                taken[line.name].append(measured)
            done()
    return [Result(line, [_numbers(side.name, taken[line.name]) for side in sides]) for line in chosen]


def measure(side: Side, line: Line) -> Measured:
    if isinstance(line.load, Load):
        carried, cpu = side.ask(line.load)
        return Measured(carried.done / carried.seconds, cpu / carried.done * 1e6, carried.p50_us, carried.p99_us)
    moved, cpu = side.produce(line.load) if isinstance(line.load, Produce) else side.consume(line.load)
    return Measured(moved.bytes_per_second, cpu / moved.payload_bytes * GB)


def _numbers(side: str, rounds: list[dict[str, Measured]]) -> Numbers:
    own = [each[side] for each in rounds]
    return Numbers(
        side,
        rate=statistics.median(each.rate for each in own),
        cpu=statistics.median(each.cpu for each in own),
        ratio=statistics.median(each[side].rate / each[DIRECT].rate for each in rounds),
        p50_us=_median([each.p50_us for each in own]),
        p99_us=_median([each.p99_us for each in own]),
    )


def _median(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
