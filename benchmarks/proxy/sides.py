"""The three ways to one broker: directly, through the shim, through Kroxylicious."""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import psutil
from confluent_kafka.cimpl import NewTopic

from benchmarks.commit.generator import Carried, Load
from benchmarks.commit.sides import Generator
from benchmarks.proxy.kroxylicious import KroxyliciousProcess
from benchmarks.proxy.perf_tools import Consume, Moved, Produce
from benchmarks.servers import BROKER_PROPERTIES, cpu_seconds, full_size, make_topics
from shim.demo.parts.metadata import cluster_view
from shim.demo.processes import HOST, ShimProcess

DIRECT, SHIM, KROXYLICIOUS = "direct", "shim", "Kroxylicious"

_PARTITIONS: Final = 3
_WRITTEN, _READ, _ASKED = "written", "read", "asked"
# What was produced is gone soon: a long run does not fill the disk.
_SHORT_LIVED: Final = {"retention.bytes": "100000000", "segment.bytes": "50000000", "file.delete.delay.ms": "0"}
_BROKER: Final = {"log.retention.check.interval.ms": 1_000, "log.initial.task.delay.ms": 1_000}


class Side:
    """`pid`: of the proxy; None for the direct way."""

    def __init__(self, name: str, folder: Path, bootstrap: str, pid: int | None, generator: Generator) -> None:
        self.name = name
        self._folder = folder
        self._bootstrap = bootstrap
        self._proxy = (psutil.Process(pid),) if pid is not None else ()
        self._generator = generator

    def produce(self, load: Produce) -> tuple[Moved, float]:
        """What was moved, and the processor seconds of the proxy meanwhile."""
        before = self._cpu_seconds()
        moved = load.run(self._folder, self._bootstrap, _WRITTEN)
        return moved, self._cpu_seconds() - before

    def consume(self, load: Consume) -> tuple[Moved, float]:
        before = self._cpu_seconds()
        moved = load.run(self._bootstrap, _READ)
        return moved, self._cpu_seconds() - before

    def ask(self, load: Load) -> tuple[Carried, float]:
        before = self._cpu_seconds()
        carried = self._generator.carry(load)
        return carried, self._cpu_seconds() - before

    def _cpu_seconds(self) -> float:
        return cpu_seconds(*self._proxy)


@contextmanager
def all_sides(
    folder: Path,
    *,
    connections: int,
    to_read: Produce | None,
    with_kroxylicious: bool,
    spare_core: bool,
    settings: Sequence[str],
) -> Iterator[list[Side]]:
    """All, ready. `to_read`: what is written for the consumers. `spare_core`: one core is the proxy's alone."""
    cores = sorted(os.sched_getaffinity(0))
    if spare_core:
        if len(cores) < 2:
            raise RuntimeError("there is no core to spare")
        # Before anything is started: processes run where their parents do.
        os.sched_setaffinity(0, cores[:-1])
    with ExitStack() as running:
        broker = running.enter_context(full_size(folder / "kafka", {**BROKER_PROPERTIES, **_BROKER}))
        make_topics(
            broker.bootstrap_servers,
            NewTopic(_WRITTEN, _PARTITIONS, 1, config=_SHORT_LIVED),
            NewTopic(_READ, _PARTITIONS, 1),
            NewTopic(_ASKED, 1, 1),
        )
        if to_read is not None:
            to_read.run(folder, broker.bootstrap_servers, _READ)
        behind = broker.bootstrap_servers
        shim = running.enter_context(ShimProcess(folder / "shim", behind, broker.node_id, settings))
        ways: list[tuple[str, str, int, int | None]] = [
            (DIRECT, behind, broker.port, None),
            (SHIM, shim.bootstrap, shim.broker_port, shim.pid),
        ]
        if with_kroxylicious:
            other = running.enter_context(KroxyliciousProcess(folder / "kroxylicious", behind, HOST, broker.node_id))
            ways.append((KROXYLICIOUS, other.bootstrap, other.broker_port, other.pid))
        sides = []
        for name, bootstrap, port, pid in ways:
            if spare_core and pid is not None:
                _move(pid, {cores[-1]})
            # As clients do. Kroxylicious learns from it which broker is at which of its ports.
            cluster_view(HOST, int(bootstrap.rpartition(":")[2]))
            generator = Generator(port, connections, _ASKED, module="benchmarks.proxy.round_trips")
            sides.append(Side(name, folder, bootstrap, pid, running.enter_context(generator)))
        yield sides


def _move(pid: int, cores: set[int]) -> None:
    """All its threads, and so those that they will start."""
    for thread in psutil.Process(pid).threads():
        os.sched_setaffinity(thread.id, cores)
