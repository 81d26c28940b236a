"""Real clients from 0.8.2 on: at the last broker that takes all their versions, at a new one, and at the new one
through the shim."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import pytest

from shim.demo.parts import Broker, ZooKeeper
from shim.demo.parts.metadata import cluster_view
from tests.legacy.parts import KAFKA_3, LegacyBroker
from tests.old_clients import matrix, scenario
from tests.old_clients.client import OldClient
from tests.old_clients.go_and_python import GO_AND_PYTHON_CLIENTS
from tests.old_clients.java_clients import JAVA_CLIENTS
from tests.old_clients.registrar import register
from tests.old_clients.scenario import Target
from tests.shim_process import Shim

CLIENTS = (*JAVA_CLIENTS, *GO_AND_PYTHON_CLIENTS)

# In the short form each client has one codec, and each codec some client.
_SHORT = [(client, client.codecs[i % len(client.codecs)]) for i, client in enumerate(CLIENTS)]

_DROPPED = re.compile(r" 0\.(8|9|10)\b")
"""Releases whose versions of Produce, Fetch and ListOffsets brokers no longer have."""


@pytest.fixture(scope="module")
def old_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with LegacyBroker(tmp_path_factory.mktemp("old-broker"), KAFKA_3) as running:
        yield Target("3.9.2", running.bootstrap_servers, lambda _: running.zookeeper.connect_string)


@pytest.fixture(scope="module")
def new_broker(broker: Broker, request: pytest.FixtureRequest) -> Target:
    return Target("4.3.1", broker.bootstrap_servers, _registered(request, broker, "new-broker", broker.port))


@pytest.fixture(scope="module")
def shim(broker: Broker, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Target]:
    with Shim(broker.bootstrap_servers, tmp_path_factory.mktemp("shim") / "data") as running:
        port = running.broker_port(broker.node_id)
        yield Target("4.3.1 behind the shim", running.bootstrap, _registered(request, broker, "shim", port))


def _registered(request: pytest.FixtureRequest, broker: Broker, root: str, port: int) -> Callable[[str], str]:
    """Where a client finds this broker, at this port, in the session's ZooKeeper; the first that asks starts it."""

    def registered(topic: str) -> str:
        ensemble = request.getfixturevalue("zookeeper").start()
        assert isinstance(ensemble, ZooKeeper)
        address = f"{ensemble.connect_string}/{root}"
        leaders = cluster_view(broker.host, broker.port, (topic,)).leaders
        by_partition = {at.partition: leader for at, leader in leaders.items()}
        register(address, {broker.node_id: (broker.host, port)}, topic, by_partition)
        return address

    return registered


@pytest.mark.parametrize(("client", "codec"), _SHORT, ids=[client.name for client, _ in _SHORT])
def test_writes_and_comes_back_through_the_shim(
    client: OldClient, codec: str, shim: Target, fresh_name: Callable[[], str]
) -> None:
    assert not _failures(client, shim, [codec], fresh_name)


@pytest.mark.soak
@pytest.mark.parametrize("target", ["old_broker", "shim"])
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_writes_and_comes_back_with_each_codec(
    client: OldClient, target: str, request: pytest.FixtureRequest, fresh_name: Callable[[], str]
) -> None:
    assert not _failures(client, request.getfixturevalue(target), client.codecs, fresh_name)


@pytest.mark.soak
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_without_the_shim_the_oldest_fail(client: OldClient, new_broker: Target, fresh_name: Callable[[], str]) -> None:
    failures = _failures(client, new_broker, client.codecs, fresh_name)
    assert len(failures) == (len(client.codecs) if _DROPPED.search(client.name) else 0), failures


# One of each message format, and of each library.
_FEW = [client for client in CLIENTS if client.name in ("Scala producer 0.8.2.2", "Java client 0.10.2.2")] + [
    *GO_AND_PYTHON_CLIENTS[1:2],
    *GO_AND_PYTHON_CLIENTS[-1:],
]


def test_a_mixed_topic_is_read_by_all(shim: Target, fresh_name: Callable[[], str]) -> None:
    writers = [(client, client.codecs[i % 3]) for i, client in enumerate(_FEW)]
    scenario.mixed(writers, [each for each in _readers(writers) if each in _FEW], shim, fresh_name())


@pytest.mark.soak
@pytest.mark.parametrize("target", ["old_broker", "shim"])
@pytest.mark.parametrize("without", ["", "lz4"], ids=["all codecs", "without lz4"])
def test_a_topic_of_all_is_read_by_all(
    target: str, without: str, request: pytest.FixtureRequest, fresh_name: Callable[[], str]
) -> None:
    """A target that passes has given each of them the same as the other one that does."""
    writers = [(client, codec) for client in CLIENTS if client.produces for codec in client.codecs if codec != without]
    scenario.mixed(writers, _readers(writers), request.getfixturevalue(target), fresh_name())


def _readers(writers: Sequence[tuple[OldClient, str]]) -> list[OldClient]:
    """Those that know the codecs: before 0.10, sarama does not read what Kafka's clients took for lz4 then (KIP-57)."""
    codecs = {codec for _, codec in writers}
    return [client for client in CLIENTS if client.consumes and codecs <= {*client.codecs}]


def _failures(client: OldClient, target: Target, codecs: Sequence[str], fresh_name: Callable[[], str]) -> list[str]:
    """Each codec has its turn, whatever became of those before it."""
    failures = []
    for codec in codecs:
        failure = None
        try:
            scenario.run(client, target, codec, fresh_name())
        except scenario.Failed as error:
            failure = f"{codec}: {error}"
            failures.append(failure)
        matrix.record(client.name, target.name, codec, passed=failure is None)
    return failures
