"""`python -m benchmarks.compat [--rounds N] [--seconds S]`: old clients at the shim, and at the last broker they had.

A Kafka 3.9 broker converts on the way down; on the way up it validates what it takes and writes it into its log, and
the shim converts it, while the broker behind it does the rest. So the two columns that compare are MB of records for a
processor second of the process that converts; what the broker behind the shim takes besides is beside it.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import click
import psutil

from benchmarks import shown
from benchmarks.compat.load import Fetching, Producing, ask, batches, carry, produce_frame, produced
from benchmarks.servers import HEAP_MB, JVM_OPTIONS, cpu_seconds, full_size
from protocol.records.batches import Compression
from shim.demo.processes import ShimProcess
from tests.legacy.parts import KAFKA_3, LegacyBroker
from tests.old_clients.places import make_topics
from tests.wire import WireClient

CODECS: Final = (Compression.NONE, Compression.SNAPPY, Compression.LZ4)
CONNECTIONS: Final = 2
_MB: Final = 1e6
_BATCHES: Final = 3  # the Produce version that takes them
GOAL: Final = 0.5
_SETTINGS: Final = {"log.retention.bytes": 400_000_000, "log.segment.bytes": 100_000_000}


class Side(NamedTuple):
    """``converts``: the process that does; ``behind``: the broker behind it, if that is another one, alone."""

    name: str
    port: int
    converts: psutil.Process
    behind: tuple[psutil.Process, ...]


class Numbers(NamedTuple):
    """``mb_per_core``: MB of records for each processor second of who converts."""

    mb_per_second: float
    mb_per_core: float
    behind_seconds_per_gb: float


@contextmanager
def sides(folder: Path) -> Iterator[list[Side]]:
    with ExitStack() as running:
        broker = running.enter_context(full_size(folder / "kafka", _SETTINGS))
        old = running.enter_context(
            LegacyBroker(folder / "old", KAFKA_3, heap_mb=HEAP_MB, jvm_options=JVM_OPTIONS, properties=_SETTINGS)
        )
        shim = running.enter_context(ShimProcess(folder / "shim", broker.bootstrap_servers, broker.node_id, ()))
        for port in (broker.port, old.port):
            fill(port)
        yield [
            Side("shim", shim.broker_port, psutil.Process(shim.pid), (psutil.Process(broker.pid),)),
            Side(KAFKA_3, old.port, psutil.Process(old.pid), ()),
        ]


def fill(port: int) -> None:
    """A topic to write to for each codec, and one that has batches in it."""
    make_topics(port, [f"{kind}-{codec.name}" for codec in CODECS for kind in ("up", "down")])
    for codec in CODECS:
        with WireClient(port) as client:
            for data in batches(codec):
                frame = produce_frame(_BATCHES, f"down-{codec.name}", data)
                produced(_BATCHES, ask(client.socket, frame))


def measured(side: Side, work: Producing | Fetching, seconds: float) -> Numbers:
    before = cpu_seconds(side.converts), cpu_seconds(*side.behind)
    carried = carry(side.port, work, CONNECTIONS, seconds)
    after = cpu_seconds(side.converts), cpu_seconds(*side.behind)
    spent, behind = (now - then for now, then in zip(after, before, strict=True))
    megabytes = carried.bytes / _MB
    return Numbers(megabytes / carried.seconds, megabytes / spent, behind / megabytes * 1000)


@click.command()
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(1), help="Of each line.")
@click.option("--seconds", default=3.0, show_default=True, help="Of each side in each round.")
def main(rounds: int, seconds: float) -> None:
    """Records of 1 KB in sets of 1 MB, written by Produce v2, read by Fetch v2, on two connections, a request each."""
    table = shown.results(
        *("", "", "MB/s", "MB a processor second", "ratio", "goal", "processor s a GB of the broker behind"),
    )
    with tempfile.TemporaryDirectory(prefix="benchmarks-compat-") as folder, sides(Path(folder)) as both:
        for codec in CODECS:
            for name, work in (
                (f"up, {codec.name.lower()}", Producing(f"up-{codec.name}", codec)),
                (f"down, {codec.name.lower()}", Fetching(f"down-{codec.name}")),
            ):
                for side in both:
                    measured(side, work, seconds)
                found: list[list[Numbers]] = [[] for _ in both]
                for turn in range(rounds):
                    order = list(zip(both, found, strict=True))
                    for side, kept in order if turn % 2 else reversed(order):
                        kept.append(measured(side, work, seconds))
                medians = [Numbers(*map(statistics.median, zip(*kept, strict=True))) for kept in found]
                ratio = medians[0].mb_per_core / medians[1].mb_per_core
                for side, numbers in zip(both, medians, strict=True):
                    first = side is both[0]
                    table.add_row(
                        name if first else "",
                        side.name,
                        f"{numbers.mb_per_second:,.0f}",
                        f"{numbers.mb_per_core:,.0f}",
                        f"{ratio:.2f}" if first else "",
                        f"{GOAL}" if first else "",
                        f"{numbers.behind_seconds_per_gb:.2f}" if first else "",
                    )
    here = shown.conditions(rounds, seconds)
    shown.show(
        table,
        f"{here['date']}, {here['python']}, {here['kafka']} behind the shim, {here['cores']} cores shared with the "
        f"load, medians of {rounds} rounds of {seconds:g} s a side, taking turns",
    )


if __name__ == "__main__":
    main()
