"""The lines of the comparison, and their rounds: both sides take turns on every line."""

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.commit.generator import Load
from benchmarks.commit.sides import Measured, Sides, flush_times_us


class Line(NamedTuple):
    """`at_least`: what the ratio of both rates is to be; None where the disk decides."""

    name: str
    work: str
    connections: int
    pipelined: int
    partitions: int
    at_least: float | None

    def load(self, seconds: float) -> Load:
        return Load(self.work, self.connections, self.pipelined, self.partitions, seconds)


LINES: Final = (
    Line("commits 1x1", "commit", 1, 1, 1, None),
    Line("commits 8x8", "commit", 8, 8, 1, 2.0),
    Line("commits 64x16", "commit", 64, 16, 1, 2.0),
    Line("commits 8x8, 100 partitions", "commit", 8, 8, 100, 1.0),
    Line("fetches 8x8", "fetch", 8, 8, 1, 2.0),
    Line("fetches 64x16", "fetch", 64, 16, 1, 2.0),
)
OVER_THE_DISK_US: Final = 200
"""What a commit at 1x1 may take more than the disk's own flush."""


class Round(NamedTuple):
    """`flushes_us`: of the disk alone, between both sides; none but at 1x1."""

    shim: Measured
    kafka: Measured
    flushes_us: list[float]


class Numbers(NamedTuple):
    """One side of a line: medians of its rounds. `cpu_us`: of the server's processor time, a request.
    `generator_share`: of one core."""

    per_second: float
    p50_us: float
    p99_us: float
    cpu_us: float
    generator_share: float


class Result(NamedTuple):
    """`ratio`: the median of the rounds' ratios of rates, the shim's to Kafka's. `flush_us`: of the disk, None but at
    1x1."""

    line: Line
    shim: Numbers
    kafka: Numbers
    ratio: float
    flush_us: float | None


def run(
    sides: Sides,
    lines: Sequence[Line],
    folder: Path,
    *,
    rounds: int,
    seconds: float,
    warm_up: float,
    done: Callable[[], object] = lambda: None,
) -> list[Result]:
    """`done` is called after each line in a round."""
    for line in lines:
        for side in sides:
            side.measure(line.load(warm_up))
    taken: dict[Line, list[Round]] = {line: [] for line in lines}
    for number in range(rounds):
        for line in lines:
            taken[line].append(_round(sides, line, folder, seconds, kafka_first=bool(number % 2)))
            done()
    return [_result(line, taken[line]) for line in lines]


def _round(sides: Sides, line: Line, folder: Path, seconds: float, *, kafka_first: bool) -> Round:
    load = line.load(seconds)
    first, second = reversed(sides) if kafka_first else sides
    one = first.measure(load)
    flushes = flush_times_us(folder, seconds) if line.connections * line.pipelined == 1 else []
    other = second.measure(load)
    return Round(other, one, flushes) if kafka_first else Round(one, other, flushes)


def _result(line: Line, rounds: list[Round]) -> Result:
    shim = _numbers([each.shim for each in rounds])
    kafka = _numbers([each.kafka for each in rounds])
    ratio = statistics.median(rate(each.shim) / rate(each.kafka) for each in rounds)
    flushes = [statistics.median(each.flushes_us) for each in rounds if each.flushes_us]
    return Result(line, shim, kafka, ratio, statistics.median(flushes) if flushes else None)


def rate(measured: Measured) -> float:
    return measured.carried.done / measured.carried.seconds


def _numbers(measured: list[Measured]) -> Numbers:
    return Numbers(
        per_second=statistics.median(map(rate, measured)),
        p50_us=statistics.median(each.carried.p50_us for each in measured),
        p99_us=statistics.median(each.carried.p99_us for each in measured),
        cpu_us=statistics.median(each.server_cpu_seconds / each.carried.done * 1e6 for each in measured),
        generator_share=statistics.median(
            each.carried.generator_cpu_seconds / each.carried.seconds for each in measured
        ),
    )
