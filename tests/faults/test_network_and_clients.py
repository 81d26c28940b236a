"""Unmodified clients produce, consume and commit through every fault of the network, on both sides of the shim: they
recover by themselves, what was acknowledged is there, and no committed offset is behind an acknowledged one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from tests.clients.client_table import CLIENTS, Client
from tests.clients.group_view import GroupView
from tests.clients.programs import Program, Programs
from tests.conftest import TopicFactory
from tests.faults.census import Census, wait_settled
from tests.faults.committing import COMMITTERS
from tests.faults.conftest import Relayed
from tests.faults.every_record import every_record
from tests.faults.relay import Ending, Fault, Relay, Way

PARTITIONS: Final = 3
RECORDS: Final = 60
"""Of each producer, during each fault."""
LIMIT_S: Final = 50.0
COMMITS: Final = 5
"""Acknowledged during each fault, of those that begin with it."""

# Shorter than theirs, so that what is lost is noticed within seconds.
SETTINGS: Final = {
    "confluent-kafka": ("socket.timeout.ms=3000",),
    "kafka-python": ("request_timeout_ms=3000",),
    "aiokafka": ("request_timeout_ms=3000",),
}
GIVES_UP: Final = frozenset({("aiokafka", "half-open")})
"""Producers whose records would fail, with any broker: aiokafka gives a batch no more time than a request that is not
answered. So they are not there meanwhile."""


def end_now(ending: Ending, relay: Relay) -> None:
    relay.end_all(ending)


def cut(relay: Relay) -> None:
    """Some connections in the middle of something, wherever that is."""
    relay.end_all(Ending.CLOSED)
    ends = [(way, at) for at in (1_009, 2_503) for way in Way]
    relay.put(*(Fault(way, end=Ending.CLOSED, after_bytes=at, times=2) for way, at in ends))


FAULTS: Final[Mapping[str, Callable[[Relay], object]]] = {
    "latency": lambda relay: relay.put(*(Fault(way, delay_seconds=0.05) for way in Way)),
    "slow drip": lambda relay: relay.put(*(Fault(way, piece_bytes=100, pause_seconds=0.001) for way in Way)),
    "reset": partial(end_now, Ending.RESET),
    "cut": cut,
    "half-open": partial(end_now, Ending.LOST),
}


@pytest.fixture
def programs(relayed: Relayed, tmp_path: Path) -> Iterator[Programs]:
    with Programs(tmp_path, LIMIT_S, relayed.shim.log) as running:
        yield running


class Pair:
    """A producer and a consumer of one library."""

    def __init__(self, relayed: Relayed, programs: Programs, client: Client, topic: str, group: str) -> None:
        self.name, self.topic, self.left = client.name, topic, client.left
        self.group = group
        further = SETTINGS[client.name]
        self.consumer = programs.start(
            f"{client.name}-consumer", [*client.consume(relayed.bootstrap, topic, group), *further]
        )
        self._new_producer = partial(
            programs.start, f"{client.name}-producer", [*client.produce(relayed.bootstrap, topic), *further]
        )
        self._programs = programs
        self._producer: Program | None = None
        self.values: list[str] = []

    def produce(self) -> None:
        more = [str(number) for number in range(len(self.values), len(self.values) + RECORDS)]
        self.values += more
        if self._producer is None:
            self._producer = self._new_producer()
        self._producer.write(f"key-{value}\t{value}" for value in more)

    def end_producer(self) -> None:
        """All that it was given has been acknowledged."""
        if self._producer is not None:
            self._producer.end_input()
            assert self._programs.wait_end(self._producer) == 0, self._producer.report()
            self._producer = None

    def all_consumed(self) -> bool:
        return {record.value for record in self.consumer.records} >= set(self.values)


@pytest.mark.parametrize("side", [pytest.param(each, marks=pytest.mark.soak) for each in ("front", "behind")])
def test_clients_recover_from_the_network(
    relayed: Relayed, before: Census, programs: Programs, make_topic: TopicFactory, group: str, side: str
) -> None:
    clients = [client for client in CLIENTS if client.name in SETTINGS]
    topics = {client.name: make_topic(PARTITIONS, on=relayed.broker) for client in clients}
    pairs = [Pair(relayed, programs, client, topics[client.name], f"{group}-{client.name}") for client in clients]
    committers = [make(relayed.bootstrap, topics[name], f"{group}-commits-{name}") for name, make in COMMITTERS.items()]

    def a_phase(during: str) -> None:
        for pair in pairs:
            if (pair.name, during) not in GIVES_UP:
                pair.produce()
        for pair in pairs:
            programs.wait(f"{pair.name} has consumed all that was produced: {during}", pair.all_consumed)
        for committer in committers:
            committer.wait_acknowledged(COMMITS)

    with ExitStack() as committing:
        for committer in committers:
            committing.enter_context(committer)
        a_phase("before")
        for name, begin in FAULTS.items():
            for pair in pairs:
                if (pair.name, name) in GIVES_UP:
                    pair.end_producer()
            begin(relayed.front if side == "front" else relayed.behind)
            a_phase(name)
            relayed.heal()
        a_phase("after")

    for pair in pairs:
        pair.end_producer()
        written = every_record(relayed.broker, pair.topic, PARTITIONS)
        assert {record.value for record in written} >= set(pair.values), "acknowledged, and lost"
        programs.wait("every record read", lambda p=pair, w=written: {*p.consumer.records} >= {*w})  # type: ignore
        assert {*pair.consumer.records} == {*written}, "a record at an offset where it does not stand"
        pair.consumer.terminate()
        assert programs.wait_end(pair.consumer) == pair.left, pair.consumer.report()
        ends = {p: 1 + max(r.offset for r in written if r.partition == p) for p in range(PARTITIONS)}
        assert GroupView(relayed.shim.bootstrap, pair.group).committed() == ends
    for committer in committers:
        (committed,) = GroupView(relayed.shim.bootstrap, committer.group).committed().values()
        assert committer.acknowledged <= committed <= committer.attempted, type(committer).__name__
    wait_settled(relayed.shim, relayed.folder, before)
    assert "Traceback" not in relayed.shim.log()
