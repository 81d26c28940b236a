"""`python -m benchmarks.scale.shims [--json] [--rounds N] [--seconds S]`."""

from __future__ import annotations

import json
import socket
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import click
import psutil
from confluent_kafka.cimpl import NewTopic

from benchmarks import shown
from benchmarks.commit.generator import TOPIC_PARTITIONS, Load
from benchmarks.commit.sides import Generator
from benchmarks.commit.wire import TOPIC, ask
from benchmarks.servers import BROKER_PROPERTIES, cpu_seconds, make_topics
from protocol.messages import metadata
from shim.demo.parts import Cluster
from tests.shim_process import Shim

BROKERS: Final = 3
PARTITIONS: Final = 50  # of offsets, of the shims' and of the cluster's own
LOADS: Final = {"8x8": (8, 8), "64x16": (64, 16)}
"""Connections, of each of which so many commits are always unanswered."""
_HEAP_MB: Final = 512
_METADATA_VERSION: Final = 5
_MODULE: Final = "benchmarks.scale.members"
_TOGETHER_WITHIN_S: Final = 180.0
_ANSWER_S: Final = 60.0
_AGAIN_S: Final = 0.2


class Arrangement(NamedTuple):
    """So many shims with their log there; with none the cluster's own coordinators are asked."""

    log: str
    shims: int

    @property
    def name(self) -> str:
        return f"{self.shims} shim{'s' * (self.shims > 1)}, {self.log}" if self.shims else "the cluster's coordinators"


ARRANGEMENTS: Final = (
    Arrangement("local", 1),
    *(Arrangement("kafka", shims) for shims in (1, 2, 3)),
    Arrangement("kafka", 0),
)


class Carried(NamedTuple):
    """A load's rate, and µs of processor time a commit: of all shims, of all brokers."""

    per_second: float
    p50_ms: float
    p99_ms: float
    shims_us: float
    brokers_us: float


@contextmanager
def arranged(arrangement: Arrangement, cluster: Cluster, folder: Path, number: int) -> Iterator[list[Shim]]:
    """They share the cluster's brokers among them when it begins."""
    settings: dict[str, str | int] = {"offsets.mirror.upstream": "false", "offsets.topic.num.partitions": PARTITIONS}
    if arrangement.log == "kafka":
        settings |= {"offsets.log": "kafka", "offsets.log.topics.prefix": f"__scale_{number}"}
    with ExitStack() as running:
        shims = [
            running.enter_context(
                Shim(
                    cluster.bootstrap_servers,
                    folder / f"{number}-{place}",
                    settings=settings,
                    offsets_log="local",  # not one for each
                    passes_groups=True,
                    start_timeout=_TOGETHER_WITHIN_S,
                )
            )
            for place in range(arrangement.shims)
        ]
        _wait_together(shims)
        yield shims


def _wait_together(shims: Sequence[Shim]) -> None:
    until = time.monotonic() + _TOGETHER_WITHIN_S
    while {len(_ports(shim)) for shim in shims} - {len(shims)}:
        if time.monotonic() > until:
            raise RuntimeError(f"the shims do not share the brokers: {[_ports(shim) for shim in shims]}")
        time.sleep(_AGAIN_S)  # they tell nobody when it is shared out anew


def _ports(shim: Shim) -> set[int]:
    """Of bootstrap, of the shims at which it says that brokers are."""
    with socket.create_connection(("127.0.0.1", shim.port), _ANSWER_S) as asked:
        told = ask(asked, metadata.API, _METADATA_VERSION, metadata.MetadataRequest(()))
    return {broker.port - 1 - broker.node_id for broker in told.brokers}


def measured(
    arrangement: Arrangement, cluster: Cluster, folder: Path, number: int, seconds: float, warm_up: float
) -> dict[str, Carried]:
    """By the name of the load."""
    found = {}
    with arranged(arrangement, cluster, folder, number) as shims:
        servers = [psutil.Process(each.pid) for each in shims], [psutil.Process(each.pid) for each in cluster.brokers]
        port = shims[0].port if shims else cluster.brokers[0].port
        connections = max(each for each, _ in LOADS.values())
        with Generator(port, connections, module=_MODULE) as generator:
            for name, (carrying, pipelined) in LOADS.items():
                generator.carry(Load("commit", carrying, pipelined, 1, warm_up))
                before = [cpu_seconds(*each) for each in servers]
                carried = generator.carry(Load("commit", carrying, pipelined, 1, seconds))
                spent = [cpu_seconds(*each) - had for each, had in zip(servers, before, strict=True)]
                shims_us, brokers_us = (each / carried.done * 1e6 for each in spent)
                found[name] = Carried(
                    carried.done / carried.seconds,
                    carried.p50_us / 1000,
                    carried.p99_us / 1000,
                    shims_us,
                    brokers_us,
                )
    return found


def medians(of: Sequence[Carried]) -> Carried:
    return Carried(*(statistics.median(each) for each in zip(*of, strict=True)))


@click.command()
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(1), help="Of each arrangement.")
@click.option("--seconds", default=5.0, show_default=True, help="Of each load in each round.")
@click.option("--warm-up", default=3.0, show_default=True, help="Seconds of each load before that.")
@click.option("--json", "as_json", is_flag=True)
def main(rounds: int, seconds: float, warm_up: float, as_json: bool) -> None:
    """Commits a second at one shim, two and three in front of three brokers, on one machine, which all share."""
    taken: dict[tuple[str, str], list[Carried]] = {}
    properties = {**BROKER_PROPERTIES, "offsets.topic.num.partitions": PARTITIONS}
    with (
        tempfile.TemporaryDirectory(prefix="benchmarks-scale-") as folder,
        Cluster(Path(folder) / "cluster", brokers=BROKERS, properties=properties, heap_mb=_HEAP_MB) as cluster,
        shown.progress() as progress,
    ):
        make_topics(cluster.bootstrap_servers, NewTopic(TOPIC, TOPIC_PARTITIONS, 1))
        steps = [(number, each) for number in range(rounds) for each in ARRANGEMENTS]
        for number, arrangement in progress.track(steps):
            # In each round on topics of its own, which are as empty as the last time.
            place = number * len(ARRANGEMENTS) + ARRANGEMENTS.index(arrangement)
            for load, carried in measured(arrangement, cluster, Path(folder), place, seconds, warm_up).items():
                taken.setdefault((arrangement.name, load), []).append(carried)
    here = shown.conditions(rounds, seconds)
    lines = {key: medians(its) for key, its in taken.items()}
    if as_json:
        told = [{"arrangement": name, "load": load, **its._asdict()} for (name, load), its in lines.items()]
        click.echo(json.dumps({**here, "lines": told}, indent=2))
        return
    table = shown.results(
        *("arrangement", "connections x pipelined", "commits a second", "p50 ms", "p99 ms"),
        *("µs of shims' CPU each", "µs of brokers' CPU each"),
    )
    for (name, load), its in lines.items():
        table.add_row(
            *(name, load, f"{its.per_second:,.0f}", f"{its.p50_ms:.1f}", f"{its.p99_ms:.1f}"),
            *(f"{its.shims_us:.0f}", f"{its.brokers_us:.0f}"),
        )
    shown.show(
        table,
        f"{here['date']}, {here['kafka']}, {here['cores']} cores shared by all of it, load average "
        f"{here['load_average']:g}; medians of {rounds} rounds of {seconds:g} s",
    )


if __name__ == "__main__":
    main()
