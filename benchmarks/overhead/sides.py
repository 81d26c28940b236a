"""Three shims in front of one broker: all off, the history alone, and the history and everybody looking."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Final, NamedTuple

import psutil
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.commit.generator import TOPIC_PARTITIONS, Load
from benchmarks.commit.sides import BROKER_PROPERTIES, HEAP_MB, JVM_OPTIONS, Generator
from benchmarks.commit.wire import TOPIC as COMMITTED
from benchmarks.connections.__main__ import fetching, prepare
from benchmarks.overhead.looking import looked_at, until_ready
from shim.demo.parts import Broker
from shim.demo.parts.ports import free_port
from shim.demo.processes import HOST, ShimProcess
from tests.hands_on_disk import hands_on_disk, passed_through

OFF, HISTORY, ON = "all off", "history", "all on"
_ASKED: Final = "asked"
_READY_S: Final = 60.0
_NO_CLEANER: Final = ("log.cleaner.enable=false",)
"""It comes to each of them now and then, for seconds, as often to one as to another; and whoever it came to while he
was measured would seem to be slow."""


class Measured(NamedTuple):
    """``rate``: requests a second, or bytes; ``cpu``: processor seconds of the shim for one of them."""

    rate: float
    cpu: float


class Side:
    """A shim, and who drives it. ``admin``: the address of its port; None where nobody looks."""

    def __init__(self, name: str, shim: ShimProcess, connections: int, admin: str | None) -> None:
        self.name = name
        self._port = shim.broker_port
        self._process = psutil.Process(shim.pid)
        self._admin = admin
        self._commits = Generator(self._port, connections)
        self._round_trips = Generator(self._port, connections, _ASKED, module="benchmarks.proxy.round_trips")

    def carry(self, load: Load) -> Measured:
        """Commits, offset fetches, or small requests that are forwarded."""
        generator = self._round_trips if load.work == "ask" else self._commits
        before = self._cpu_seconds()
        with self._looked_at():
            carried = generator.carry(load)
        return Measured(carried.done / carried.seconds, (self._cpu_seconds() - before) / carried.done)

    def fetch(self, connections: int, seconds: float) -> Measured:
        """So many connections fetch 1 MiB at a time, as fast as they can."""
        rates: list[float] = []
        with self._looked_at(), fetching(self._port, connections, rates):
            before = self._cpu_seconds()
            time.sleep(seconds)  # others work
            cpu = self._cpu_seconds() - before
        rate = rates[0] * 1e6
        return Measured(rate, cpu / (rate * seconds))

    def close(self) -> None:
        for each in (self._commits, self._round_trips):
            each.__exit__(None, None, None)

    def _looked_at(self) -> AbstractContextManager[None]:
        if self._admin is None:
            return nullcontext()
        return looked_at(self._admin, f"billing-invoices-{self._port}-0")

    def _cpu_seconds(self) -> float:
        times = self._process.cpu_times()
        return float(times.user + times.system)


@contextmanager
def all_sides(folder: Path, connections: int) -> Iterator[list[Side]]:
    with ExitStack() as running:
        broker = running.enter_context(
            Broker(folder / "kafka", heap_mb=HEAP_MB, properties=BROKER_PROPERTIES, jvm_options=JVM_OPTIONS)
        )
        prepare(broker)
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        for created in admin.create_topics([NewTopic(COMMITTED, TOPIC_PARTITIONS, 1), NewTopic(_ASKED, 1, 1)]).values():
            created.result(_READY_S)
        # Nobody reads these datagrams, and nobody closes the port under them.
        nobody = running.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        nobody.bind((HOST, 0))
        address = f"{HOST}:{free_port()}"
        pushed = f"metrics.statsd.address={HOST}:{nobody.getsockname()[1]}"
        found = []
        for name, settings, looked in (
            (OFF, ("offsets.history.retention.minutes=0",), None),
            (HISTORY, (), None),
            (ON, (f"admin.listen={address}", pushed, "metrics.statsd.interval.ms=1000"), address),
        ):
            where = folder / name.replace(" ", "-")
            settings = (*_NO_CLEANER, *settings)
            shim = running.enter_context(ShimProcess(where, broker.bootstrap_servers, broker.node_id, settings))
            if looked is not None:
                until_ready(looked, _READY_S)
            side = Side(name, shim, connections, looked)
            running.callback(side.close)
            if passed := passed_through(hands_on_disk(shim.data)):
                raise RuntimeError(f"the broker would be measured: the shim does not serve {sorted(passed)}")
            found.append(side)
        yield found
