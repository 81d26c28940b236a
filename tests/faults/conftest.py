"""The tests of this folder run on both event loops: the standard one, and the one that `serve` takes. Some have relays
in front of a real broker and of the shim.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
import uvloop
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from shim.demo.parts import Broker, free_port, free_port_range
from shim.demo.parts.metadata import cluster_view
from tests.faults import census
from tests.faults.conversation import TOPICS, Conversation, Subjects
from tests.faults.relay import Relay
from tests.shim_process import Shim
from tests.waiting import wait_until

ITS_OWN_CONNECTIONS = 4
"""Of the shim to a cluster of one: for its brokers, its topics, whether it has an authorizer, and its groups."""

_TOPIC_TIMEOUT_S = 30.0


@pytest.hookimpl(optionalhook=True)
def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.SelectorEventLoop, "uvloop": uvloop.new_event_loop}


class Relayed(NamedTuple):
    """``front`` is between clients and the shim, ``behind`` between the shim and the broker, which is told of as there.

    ``folder`` has what the shim's census writes. ``port``: the front's, of the broker; ``bootstrap``: of the shim.
    """

    broker: Broker
    behind: Relay
    shim: Shim
    front: Relay
    folder: Path
    bootstrap: str
    port: int

    def heal(self) -> None:
        self.front.put()
        self.behind.put()


@pytest.fixture(scope="package")
def relayed_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, Relay, int]]:
    """And the relay's port."""
    port = free_port()
    broker = Broker(
        tmp_path_factory.mktemp("relayed-broker"), properties={"advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}"}
    )
    with Relay({port: broker.port}) as behind, broker:
        yield broker, behind, port


@pytest.fixture(scope="package")
def relayed(relayed_broker: tuple[Broker, Relay, int], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Relayed]:
    """Clients that come to the front are told of the front. The shim waits for nobody longer than seconds."""
    broker, behind, behind_port = relayed_broker
    folder = tmp_path_factory.mktemp("relayed")
    front_port = free_port_range(2 + broker.node_id)
    with Shim(
        f"127.0.0.1:{behind_port}",
        folder / "data",
        settings={
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{front_port}",
            "connections.max.idle.ms": 2_000,
            "offsets.mirror.upstream": "false",  # its connections are not of use to anybody here
            "request.timeout.ms": 3_000,
            "topology.refresh.interval.ms": 500,
        },
        late_patch=census.patch(folder),
    ) as shim:
        at = 1 + broker.node_id
        with Relay({front_port: shim.port, front_port + at: shim.port + at}) as front:
            yield Relayed(broker, behind, shim, front, folder, f"127.0.0.1:{front_port}", front_port + at)


@pytest.fixture(scope="package")
def subjects(relayed: Relayed) -> Subjects:
    names = [f"subject-{number}" for number in range(TOPICS)]
    admin = AdminClient({"bootstrap.servers": relayed.broker.bootstrap_servers})
    for future in admin.create_topics([NewTopic(name, 1, 1) for name in names]).values():
        future.result(_TOPIC_TIMEOUT_S)
    at = (relayed.broker.host, relayed.broker.port)
    wait_until(lambda: len(cluster_view(*at, tuple(names)).leaders) == len(names), "not all topics have leaders")
    made = Subjects(names, [f"group-{number}" for number in range(TOPICS)])
    made.prepare(relayed.shim.broker_port(relayed.broker.node_id))
    return made


@pytest.fixture
def before(relayed: Relayed, subjects: Subjects) -> Iterator[census.Census]:
    """What there is without clients, once the shim has all connections of its own. All faults are over afterwards."""
    relayed.heal()
    with Conversation(subjects, relayed.port, "before", 1) as client:
        client.send()
        assert not client.take_answers()
    yield census.wait_quiet(relayed.shim, relayed.folder, ITS_OWN_CONNECTIONS)
    relayed.heal()
