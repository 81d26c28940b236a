"""The two sides: a real broker's coordinator, and the shim in front of that broker. Each has a load generator."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

import psutil
from confluent_kafka.cimpl import NewTopic

from benchmarks.commit.generator import TOPIC_PARTITIONS, Carried, Load
from benchmarks.commit.wire import TOPIC
from benchmarks.servers import cpu_seconds, full_size, make_topics
from shim.demo.processes import HOST, ShimProcess
from tests.hands_on_disk import hands_on_disk, passed_through

_GENERATOR: Final = "benchmarks.commit.generator"
_FLUSH_BYTES: Final = 200


class Generator:
    """`generator.py`, or another one, as a process of its own; loads one after the other."""

    def __init__(self, port: int, connections: int, *arguments: str, module: str = _GENERATOR) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, HOST, str(port), str(connections), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._hear()

    def carry(self, load: Load) -> Carried:
        """Raises RuntimeError when it breaks off; what it said is on standard error."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(load) + "\n")
        self._process.stdin.flush()
        return Carried(*json.loads(self._hear()))

    def _hear(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the load generator has broken off")
        return line

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()


class Measured(NamedTuple):
    """A load on one side. `server_cpu_seconds`: processor time of the server's process meanwhile, all its threads."""

    carried: Carried
    server_cpu_seconds: float


class Side:
    def __init__(self, name: str, pid: int, generator: Generator) -> None:
        """``pid``: of the server, which may have begun others to share its work."""
        self.name = name
        server = psutil.Process(pid)
        self._servers = [server, *server.children()]
        self._generator = generator

    def measure(self, load: Load) -> Measured:
        before = cpu_seconds(*self._servers)
        carried = self._generator.carry(load)
        return Measured(carried, cpu_seconds(*self._servers) - before)


class Sides(NamedTuple):
    shim: Side
    kafka: Side


@contextmanager
def both(folder: Path, connections: int, shim_settings: Sequence[str]) -> Iterator[Sides]:
    """Both, ready, with so many members each. What they write is in `folder`."""
    with ExitStack() as running:
        broker = running.enter_context(full_size(folder / "kafka"))
        make_topics(broker.bootstrap_servers, NewTopic(TOPIC, TOPIC_PARTITIONS, 1))
        shim = running.enter_context(
            ShimProcess(folder / "shim", broker.bootstrap_servers, broker.node_id, shim_settings)
        )
        kafka_generator = running.enter_context(Generator(broker.port, connections))
        shim_generator = running.enter_context(Generator(shim.broker_port, connections))
        if passed := passed_through(hands_on_disk(shim.data)):
            raise RuntimeError(f"the broker would be measured twice: the shim does not serve {sorted(passed)}")
        yield Sides(Side("shim", shim.pid, shim_generator), Side("Kafka", broker.pid, kafka_generator))


def flush_times_us(folder: Path, seconds: float) -> list[float]:
    """The disk's own time for one small commit: each time a write at the end of a file, and its `fdatasync`."""
    path = folder / "flushes"
    times: list[float] = []
    with path.open("wb", buffering=0) as file:
        end = time.perf_counter() + seconds
        while (begun := time.perf_counter()) < end:
            os.pwrite(file.fileno(), bytes(_FLUSH_BYTES), len(times) * _FLUSH_BYTES)
            os.fdatasync(file.fileno())
            times.append((time.perf_counter() - begun) * 1e6)
    path.unlink()
    return times
