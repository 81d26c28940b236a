"""Shims in front of one broker: all off, twice; the history alone; and the history and everybody looking."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Final, NamedTuple

import psutil
from confluent_kafka.cimpl import NewTopic

from benchmarks.commit.generator import TOPIC_PARTITIONS, Load
from benchmarks.commit.sides import Generator
from benchmarks.commit.wire import TOPIC as COMMITTED
from benchmarks.connections.__main__ import fetching, prepare
from benchmarks.overhead.looking import Lookers, until_ready
from benchmarks.servers import cpu_seconds, full_size, make_topics
from shim.demo.parts import Broker
from shim.demo.parts.ports import free_port
from shim.demo.processes import HOST, ShimProcess
from tests.hands_on_disk import hands_on_disk, passed_through

OFF, TWIN, HISTORY, ON = "all off", "all off, another", "history", "all on"
_ASKED: Final = "asked"
_READY_S: Final = 60.0
_NO_CLEANER: Final = ("log.cleaner.enable=false",)
"""It comes to each of them now and then, for seconds, as often to one as to another; and whoever it came to while he
was measured would seem to be slow."""


class Measured(NamedTuple):
    """``done``: requests, or bytes, in so many seconds; ``cpu_seconds``: of the shim meanwhile."""

    done: float
    seconds: float
    cpu_seconds: float

    @property
    def rate(self) -> float:
        """A second."""
        return self.done / self.seconds

    @property
    def cpu(self) -> float:
        """Processor seconds for one of them."""
        return self.cpu_seconds / self.done


def together(all_measured: Iterable[Measured]) -> Measured:
    """As if it had been measured at once."""
    return Measured(*map(sum, zip(*all_measured, strict=True)))


class Side:
    """A shim, and who drives it. ``admin``: the address of its port; None where nobody looks."""

    def __init__(self, name: str, shim: ShimProcess, connections: int, admin: str | None) -> None:
        self.name = name
        self._port = shim.broker_port
        self._process = psutil.Process(shim.pid)
        self._lookers = Lookers(admin, f"billing-invoices-{self._port}-0") if admin is not None else None
        self._commits = Generator(self._port, connections)
        self._round_trips = Generator(self._port, connections, _ASKED, module="benchmarks.proxy.round_trips")

    def carry(self, load: Load) -> Measured:
        """Commits, offset fetches, or small requests that are passed on."""
        generator = self._round_trips if load.work == "ask" else self._commits
        before = cpu_seconds(self._process)
        with self._looked_at():
            carried = generator.carry(load)
        return Measured(carried.done, carried.seconds, cpu_seconds(self._process) - before)

    def fetch(self, connections: int, seconds: float) -> Measured:
        """So many connections fetch 1 MiB at a time, as fast as they can."""
        rates: list[float] = []
        with self._looked_at(), fetching(self._port, connections, rates):
            before = cpu_seconds(self._process)
            time.sleep(seconds)  # others work
            cpu = cpu_seconds(self._process) - before
        return Measured(rates[0] * 1e6 * seconds, seconds, cpu)

    def close(self) -> None:
        for each in (self._commits, self._round_trips):
            each.__exit__(None, None, None)

    def _looked_at(self) -> AbstractContextManager[None]:
        return nullcontext() if self._lookers is None else self._lookers.looking()


@contextmanager
def a_broker(folder: Path) -> Iterator[Broker]:
    """With the topics of all that is measured."""
    with full_size(folder) as broker:
        prepare(broker)
        make_topics(broker.bootstrap_servers, NewTopic(COMMITTED, TOPIC_PARTITIONS, 1), NewTopic(_ASKED, 1, 1))
        yield broker


@contextmanager
def all_sides(broker: Broker, folder: Path, connections: int, first: int) -> Iterator[list[Side]]:
    """Each a process that has just begun, that of number ``first`` before the others: which one does may tell."""
    folder.mkdir()
    with ExitStack() as running:
        # Nobody reads these datagrams, and nobody closes the port under them.
        nobody = running.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        nobody.bind((HOST, 0))
        address = f"{HOST}:{free_port()}"
        pushed = f"metrics.statsd.address={HOST}:{nobody.getsockname()[1]}"
        none = ("offsets.history.retention.minutes=0",)
        found: list[Side] = []
        all_of_them: list[tuple[str, tuple[str, ...], str | None]] = [
            (OFF, none, None),
            (TWIN, none, None),
            (HISTORY, (), None),
            (ON, (f"admin.listen={address}", pushed), address),
        ]
        first %= len(all_of_them)
        for name, settings, looked in all_of_them[first:] + all_of_them[:first]:
            where = folder / name.replace(" ", "-").replace(",", "")
            settings = (*_NO_CLEANER, *settings)
            shim = running.enter_context(ShimProcess(where, broker.bootstrap_servers, broker.node_id, settings))
            if looked is not None:
                until_ready(looked, _READY_S)
            side = Side(name, shim, connections, looked)
            running.callback(side.close)
            if passed := passed_through(hands_on_disk(shim.data)):
                raise RuntimeError(f"the broker would be measured: the shim does not serve {sorted(passed)}")
            found.append(side)
        yield found[-first:] + found[:-first]
