"""How long the lines take on each side.

Samples are interleaved twice, so that neither a slow moment of the machine nor a slow minute hits one side or one line
alone: a round goes through all lines, and on each line every side is sampled, one after the other.
"""

import gc
import itertools
import statistics
from collections.abc import Callable, Sequence
from time import process_time_ns
from typing import NamedTuple

from benchmarks.codec.sides import Column, Line, Side


class Effort(NamedTuple):
    """`rounds` samples a side, each of as many runs as take `sample_ns` at least."""

    rounds: int
    sample_ns: int


FULL = Effort(rounds=15, sample_ns=20_000_000)
QUICK = Effort(rounds=2, sample_ns=1_000_000)


class Timing(NamedTuple):
    """Nanoseconds that one run took, a number a round."""

    column: Column
    native: bool
    samples: tuple[float, ...]

    @property
    def best(self) -> float:
        return min(self.samples)

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    def median_ratio(self, to: "Timing") -> float:
        return statistics.median(a / b for a, b in zip(self.samples, to.samples, strict=True))


class Result(NamedTuple):
    """The timings of one line, ours first."""

    line: Line
    timings: tuple[Timing, ...]


def time_lines(lines: Sequence[Line], effort: Effort, done: Callable[[], object] = lambda: None) -> list[Result]:
    """Times every side of every line, one sample of each in every round; calls `done` after a line in a round.

    Raises AssertionError before anything is timed, if the sides of a line do not agree.
    """
    for line in lines:
        for side in line.sides:
            side.agrees()
    runs = [[_runs(side, effort.sample_ns) for side in line.sides] for line in lines]
    samples: list[list[list[float]]] = [[[] for _ in line.sides] for line in lines]
    for _ in range(effort.rounds):
        for line, counts, taken in zip(lines, runs, samples, strict=True):
            for side, n, times in zip(line.sides, counts, taken, strict=True):
                times.append(_sample(side, n) / n)
            done()
    return [
        Result(line, tuple(Timing(s.column, s.native, tuple(t)) for s, t in zip(line.sides, taken, strict=True)))
        for line, taken in zip(lines, samples, strict=True)
    ]


def _runs(side: Side, sample_ns: int) -> int:
    """How many runs take `sample_ns`; warms the side up meanwhile."""
    n = 1
    while (taken := _sample(side, n)) < sample_ns:
        n = max(n + 1, min(n * 10, int(n * sample_ns / max(taken, 1) * 1.1) + 1))
    return n


def _sample(side: Side, n: int) -> int:
    """Nanoseconds of processor time that n runs take, without the cyclic garbage collector.

    Not of the clock on the wall: nobody waits for anything here, and other processes are not to count.
    """
    run = side.run
    gc.collect()
    gc.disable()
    try:
        begin = process_time_ns()
        for _ in itertools.repeat(None, n):
            run()
        return process_time_ns() - begin
    finally:
        gc.enable()
