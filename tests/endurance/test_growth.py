"""A shim under commits at full rate, for as long as it takes to see whether anything grows without bound."""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from protocol.own.history_log import HISTORY_TOPIC
from shim.demo.parts import Broker
from tests.conftest import TopicFactory
from tests.crash.load import served
from tests.endurance.load import Connection, join_and_leave
from tests.shim_process import Shim

CONNECTIONS = 8
OFFSETS_PARTITIONS = 8
REBALANCING_GROUPS = 20
GROWING = ("memory_mib", "descriptors", "files")
HISTORY_SLACK = 0.2


class Run(NamedTuple):
    """`slack`: by how much a figure may be larger at the end than in the middle; of a short run little can be said."""

    seconds: int
    groups: int
    partitions: int
    segment_bytes: int
    history_minutes: int
    slack: float


LEAST_OF_A_COMMIT = 86  # bytes of one offset in the log, where many share a batch (docs/performance.md)

PATIENCE_SECONDS = 120

SHORT = Run(seconds=6, groups=50, partitions=20, segment_bytes=64 << 10, history_minutes=0, slack=0.5)
HOUR = Run(seconds=3_600, groups=1_000, partitions=100, segment_bytes=4 << 20, history_minutes=5, slack=0.1)


class Sample(NamedTuple):
    """`files` are those of the data directory but for the history's."""

    memory_mib: float
    descriptors: int
    offsets_log_mib: float
    files: int
    history_mib: float
    commits: int


def sample(shim: Shim, commits: int) -> Sample:
    """Of its process and its data directory, now."""
    status = Path(f"/proc/{shim.pid}/status").read_text()
    (memory,) = (int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))
    offsets_log = history = files = 0
    for path, size in _files(shim.data_dir):
        if path.parent.name.startswith(HISTORY_TOPIC):
            history += size
            continue
        files += 1
        if path.suffix in {".log", ".cleaned", ".swap", ".deleted"}:
            offsets_log += size
    descriptors = sum(1 for _ in Path(f"/proc/{shim.pid}/fd").iterdir())
    return Sample(memory / 1024, descriptors, offsets_log / 2**20, files, history / 2**20, commits)


def _files(data_dir: Path) -> Iterator[tuple[Path, int]]:
    for folder, _, names in os.walk(data_dir):
        for name in names:
            path = Path(folder) / name
            try:
                yield path, path.stat().st_size
            except FileNotFoundError:  # compaction or retention has removed it meanwhile
                continue


@pytest.mark.parametrize(
    "run", [pytest.param(SHORT, id="short"), pytest.param(HOUR, id="an hour", marks=pytest.mark.soak)]
)
async def test_nothing_grows_without_bound(
    broker: Broker, make_topic: TopicFactory, tmp_path: Path, fresh_name: Callable[[], str], run: Run
) -> None:
    topic = make_topic(run.partitions)
    groups = [fresh_name() for _ in range(run.groups)]
    settings = {
        "offsets.topic.num.partitions": OFFSETS_PARTITIONS,
        "offsets.topic.segment.bytes": run.segment_bytes,
        "offsets.history.retention.minutes": run.history_minutes,
        "log.cleaner.backoff.ms": 1_000,
    }
    with Shim(broker.bootstrap_servers, tmp_path / "data", settings=settings) as shim:
        connections = [
            Connection(shim.port, groups[number::CONNECTIONS], topic, run.partitions, number)
            for number in range(CONNECTIONS)
        ]
        samples = await under_load(shim, connections, [fresh_name() for _ in range(REBALANCING_GROUPS)], run.seconds)
        commits = sum(connection.acknowledged for connection in connections)
        assert commits > run.seconds * 100, "hardly any load"
        for connection in connections:
            found = served(shim.port, list(connection.expected), topic)
            assert {
                group: {partition: committed.offset for partition, committed in offsets.items()}
                for group, offsets in found.items()
            } == connection.expected
        if run is SHORT:
            await compacted(shim, run)
    # How many segments there are in a short run says how far the cleaner is: those of which nothing is left become one
    # when it comes by the next time.
    growing = GROWING if run is HOUR else ("memory_mib", "descriptors")
    figures = {name: [getattr(each, name) for each in samples] for name in growing}
    most = {name: thirds(each) for name, each in figures.items()}
    told = [f"{name} {after:.0f} (middle: {before:.0f})" for name, (before, after) in most.items()]
    print(f"{commits} commits in {run.seconds} s; the most in the last third: {', '.join(told)}")
    for name, (before, after) in most.items():
        assert after <= before * (1 + run.slack), f"{name} grows: {figures[name]}"
    if run is not SHORT:
        check_offsets_log(samples, run)
    check_history(samples, run)


async def under_load(shim: Shim, connections: list[Connection], rebalancing: list[str], seconds: float) -> list[Sample]:
    """Samples over the whole time, 120 or one a second, whichever are fewer."""
    begun = time.monotonic()
    until = begun + seconds
    load = [asyncio.create_task(connection.run(until)) for connection in connections]
    load.append(asyncio.create_task(_rebalance(shim.port, rebalancing, until)))
    samples = []
    try:
        for number in range(count := min(120, int(seconds))):
            wait = begun + seconds * (number + 1) / count - time.monotonic()
            ended, _ = await asyncio.wait(load, timeout=max(0, wait), return_when=asyncio.FIRST_EXCEPTION)
            for task in ended:
                task.result()
            commits = sum(connection.acknowledged for connection in connections)
            samples.append(await asyncio.to_thread(sample, shim, commits))
        await asyncio.gather(*load)
    finally:
        for task in load:
            task.cancel()
    return samples


async def _rebalance(port: int, groups: list[str], until: float) -> None:
    for group in itertools.cycle(groups):
        await asyncio.to_thread(join_and_leave, port, group)
        if time.monotonic() > until:
            return


def thirds(figures: list[float]) -> tuple[float, float]:
    """The most in the middle third, and the most in the last. The first warms up."""
    third = len(figures) // 3
    return max(figures[third : 2 * third]), max(figures[2 * third :])


async def compacted(shim: Shim, run: Run) -> None:
    """In a short run one turn of the cleaner more or less decides how far the log falls while it is written. When all
    is written, little is to be left of it: the segments that are not full, as much again, and what is served."""
    most = 3 * run.segment_bytes * OFFSETS_PARTITIONS / 2**20
    sizes = [sample(shim, 0).offsets_log_mib]
    until = time.monotonic() + PATIENCE_SECONDS
    while sizes[-1] > most:
        assert time.monotonic() < until, f"the offsets log is not compacted: {sizes}, more than {most}"
        await asyncio.sleep(1)  # another process tells nobody of its files
        sizes.append(sample(shim, 0).offsets_log_mib)


def check_offsets_log(samples: list[Sample], run: Run) -> None:
    """It rises until it is compacted, and how far depends on when the cleaner gets its turn: so what counts is how far
    it falls. In each partition a segment is left that is not full yet, and not compacted: of a slow machine's few
    commits these hold a good part."""
    active = run.segment_bytes * OFFSETS_PARTITIONS / 2**20
    sizes = [each.offsets_log_mib for each in samples]
    third = len(sizes) // 3
    last = samples[2 * third :]
    written = [each.commits * LEAST_OF_A_COMMIT / 2**20 for each in last]
    assert min(written) > active, "hardly any load"
    assert any(each.offsets_log_mib < (so_far + active) / 2 for each, so_far in zip(last, written, strict=True)), (
        f"the offsets log is hardly compacted: {sizes}, {written} written"
    )
    before, after = min(sizes[third : 2 * third]), min(sizes[2 * third :])
    assert after <= before * (1 + run.slack) + active, f"the offsets log grows: {sizes}"


def check_history(samples: list[Sample], run: Run) -> None:
    """That there is no more of it than of the commits in its time, and what the segments hold back.

    How many commits come in a minute depends on what else the machine does. What one of them takes is told by the
    samples before anything of the history can have been dropped.
    """
    if not run.history_minutes:
        assert not any(each.history_mib for each in samples)
        return
    back = run.history_minutes * 60 * len(samples) // run.seconds
    of_a_commit = samples[back - 1].history_mib / samples[back - 1].commits
    held_back = 2 * run.segment_bytes * OFFSETS_PARTITIONS / 2**20
    for at in range(back, len(samples)):
        commits = samples[at].commits - samples[at - back].commits
        most = (1 + HISTORY_SLACK) * of_a_commit * commits + held_back
        assert samples[at].history_mib <= most, f"sample {at}: {samples[at]}, {most:.0f} MiB allowed: {samples}"
