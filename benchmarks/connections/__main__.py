"""`python -m benchmarks.connections [--json] [--idle N] [--busy N] [--seconds S] [--realtime]`."""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import click
import psutil
from confluent_kafka import Producer
from confluent_kafka.cimpl import NewTopic

from benchmarks import shown
from benchmarks.servers import make_topics
from protocol.errors import ErrorCode
from protocol.messages import find_coordinator, heartbeat, metadata, offset_commit
from shim.demo.parts import Broker
from tests.shim_process import Shim
from tests.wire import WireClient

TOPIC = "fetched"
TOPIC_BYTES = 64_000_000
RECORD_BYTES = 1_000
FETCH_BYTES = 1 << 20
WARM_UP = 200
REALTIME = "shim, real time"


class Waits(NamedTuple):
    """Of commits, one after the other on one connection, in milliseconds."""

    p50: float
    p99: float
    commits: int


@contextmanager
def gets_a_core_at_once() -> Iterator[bool]:
    """This thread, meanwhile, so that what it measures is the server's wait for one, and not its own. False: it may not
    have that."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(2))
    except PermissionError:
        yield False
        return
    try:
        yield True
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def commits(port: int, seconds: float) -> Waits:
    partition = offset_commit.OffsetCommitRequestPartition(0, 1)
    topics = (offset_commit.OffsetCommitRequestTopic(TOPIC, partitions=(partition,)),)
    request = offset_commit.OffsetCommitRequest("measured", topics=topics)
    times: list[float] = []
    with gets_a_core_at_once(), WireClient(port) as client:
        until = time.monotonic() + seconds
        while time.monotonic() < until or len(times) < WARM_UP:
            begun = time.perf_counter()
            answer = client.ask(offset_commit.API, 8, request)
            times.append((time.perf_counter() - begun) * 1e3)
            if answer.topics[0].partitions[0].error_code != ErrorCode.NONE:
                raise RuntimeError("a commit was refused")
    return Waits(statistics.median(times), statistics.quantiles(times, n=100)[98], len(times))


@contextmanager
def fetching(port: int, count: int, rates: list[float]) -> Iterator[None]:
    """So many connections fetch all the time; MB a second are added to ``rates`` at the end."""
    command = [sys.executable, "-m", "benchmarks.connections.fetching", "127.0.0.1", str(port)]
    with subprocess.Popen(
        [*command, TOPIC, str(count), str(FETCH_BYTES)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise RuntimeError("the fetching connections have ended")
        begun = time.monotonic()
        yield
        process.stdin.close()
        rates.append(int(process.stdout.readline()) / 1e6 / (time.monotonic() - begun))


def resident_kib(pid: int) -> int:
    return int(psutil.Process(pid).memory_info().rss) >> 10


def idle_kib(shim: Shim, count: int) -> list[tuple[str, float]]:
    """Resident memory of the shim for each of so many connections that say nothing any more, by what they had said."""
    found = []
    with ExitStack() as open_ones:
        for _ in range(WARM_UP):  # what is made once is made now
            with WireClient(shim.port) as client:
                client.ask(metadata.API, 9, metadata.MetadataRequest(topics=()))
        before = resident_kib(shim.pid)
        clients = [open_ones.enter_context(WireClient(shim.port)) for _ in range(count)]
        steps: list[tuple[str, Callable[[WireClient], Any]]] = [
            ("one request", lambda each: each.ask(heartbeat.API, 4, heartbeat.HeartbeatRequest("g", 1, "m"))),
            ("with a way to its broker", lambda each: each.ask(metadata.API, 9, metadata.MetadataRequest(topics=()))),
        ]
        for name, step in steps:
            for client in clients:
                step(client)
            found.append((name, (resident_kib(shim.pid) - before) / count))
    return found


def in_real_time(pid: int) -> None:
    """All its threads, and so those that they will start, as `chrt --rr 1` has them."""
    for thread in psutil.Process(pid).threads():
        os.sched_setscheduler(thread.id, os.SCHED_RR, os.sched_param(1))


def prepare(broker: Broker) -> None:
    make_topics(broker.bootstrap_servers, NewTopic(TOPIC, 1, 1))
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 50})
    for number in range(TOPIC_BYTES // RECORD_BYTES):
        producer.produce(TOPIC, bytes(RECORD_BYTES))
        if not number % 1_000:
            producer.poll(0)
        while len(producer) > 50_000:
            producer.poll(0.1)
    producer.flush()
    # The coordinator of the real broker has to be there before it is measured.
    with WireClient(broker.port) as client:
        request = find_coordinator.FindCoordinatorRequest("measured")
        while client.ask(find_coordinator.API, 3, request).error_code:
            time.sleep(0.2)


@click.command()
@click.option("--json", "to_json", is_flag=True, help="JSON on standard output instead of tables.")
@click.option("--idle", default=2_000, show_default=True, type=click.IntRange(1), help="Connections.")
@click.option("--busy", default=200, show_default=True, type=click.IntRange(1), help="Connections that fetch.")
@click.option("--seconds", default=10.0, show_default=True, help="Of each measurement of commits.")
@click.option(
    "--realtime",
    is_flag=True,
    help="Besides with the shim in real time, as its systemd unit has it.",
)
def main(to_json: bool, idle: int, busy: int, seconds: float, realtime: bool) -> None:
    """Memory of idle connections, and how long commits take while many others fetch as fast as they can.

    The same is done beside it at the broker itself, with its own coordinator, which writes to the page cache alone. All
    share the machine: the load generator has a process of its own. Who commits and measures is in real time, before all
    others, where that is permitted: on a machine of its own it would not wait for them.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory(prefix="benchmarks-connections-") as temporary:
        folder = Path(temporary)
        with Broker(folder / "broker") as broker, Shim(broker.bootstrap_servers, folder / "data") as shim:
            prepare(broker)
            memory = idle_kib(shim, idle)
            lines = []
            to_shim = shim.broker_port(broker.node_id)
            for name, port in (("shim", to_shim), (REALTIME, to_shim), ("Kafka", broker.port)):
                if name == REALTIME:
                    if not realtime:
                        continue
                    in_real_time(shim.pid)
                commits(port, 1.0)
                quiet = commits(port, seconds)
                rates: list[float] = []
                with fetching(port, busy, rates):
                    loaded = commits(port, seconds)
                lines.append((name, quiet, loaded, rates[0]))
    here = shown.conditions(1, seconds)
    if to_json:
        told = {
            name: {"unloaded": quiet._asdict(), "loaded": loaded._asdict(), "fetched_mb_s": rate}
            for name, quiet, loaded, rate in lines
        }
        click.echo(
            json.dumps({**here, "idle": idle, "busy": busy, "kib_each": dict(memory), "commits": told}, indent=2)
        )
        return
    of_memory = shown.results(f"{idle:,} idle connections", "KiB each", words=1)
    for what, kib in memory:
        of_memory.add_row(what, f"{kib:.1f}")
    table = shown.results(
        f"commits beside {busy} that fetch",
        *("p50, ms", "p99, ms", "p50 loaded", "p99 loaded", "p99 ratio", "MB/s fetched"),
        words=1,
    )
    for name, quiet, loaded, rate in lines:
        waits = (quiet.p50, quiet.p99, loaded.p50, loaded.p99)
        table.add_row(name, *(f"{each:.2f}" for each in waits), f"{loaded.p99 / quiet.p99:.1f}", f"{rate:,.0f}")
    with gets_a_core_at_once() as at_once:
        client = "gets a core at once" if at_once else "waits for a core like all others"
    shown.show(
        of_memory,
        table,
        f"{here['date']}, {here['python']}, {here['kafka']}, {here['cores']} cores shared with the load generator; who "
        f"measures {client}",
    )


if __name__ == "__main__":
    main()
