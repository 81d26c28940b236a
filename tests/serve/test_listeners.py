"""Several listeners: each tells its clients its own address, has its own limits, and serves the same groups."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from protocol.messages import describe_cluster, find_coordinator, metadata
from shim.config import HostPort
from shim.demo.parts import Broker, free_port_range
from tests.conftest import TopicFactory
from tests.serve.test_connections import commit, committed
from tests.serve.test_start import refused, serve
from tests.shim_process import Shim
from tests.wire import WireClient

INSIDE_HOST, OUTSIDE_HOST = "127.0.0.2", "127.0.0.3"
TOLD_OUTSIDE = HostPort("kafka.example.com", 9092)


class Listening(NamedTuple):
    shim: Shim
    inside: HostPort
    outside: HostPort

    def client(self, name: str) -> WireClient:
        host, port = self.listens(name)
        return WireClient(port, host)

    def listens(self, name: str) -> HostPort:
        return {
            "the first": HostPort("127.0.0.1", self.shim.port),
            "inside": self.inside,
            "outside": self.outside,
        }[name]

    def told(self, name: str) -> HostPort:
        return TOLD_OUTSIDE if name == "outside" else self.listens(name)


@pytest.fixture(scope="module")
def listening(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listening]:
    inside = HostPort(INSIDE_HOST, free_port_range(8, INSIDE_HOST))
    outside = HostPort(OUTSIDE_HOST, free_port_range(8, OUTSIDE_HOST))
    folder = tmp_path_factory.mktemp("shim")
    config = folder / "shim.toml"
    config.write_text(
        f'listeners = "INSIDE://{inside},OUTSIDE://{outside}"\n'
        f'advertised.listeners = "OUTSIDE://{TOLD_OUTSIDE}"\n'
        'listener.security.protocol.map = "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT"\n'
        "[listener.name.outside]\n"
        "socket.request.max.bytes = 2000\n"
    )
    with Shim(broker.bootstrap_servers, folder / "data", args=("--config", str(config))) as shim:
        yield Listening(shim, inside, outside)


NAMES = ("the first", "inside", "outside")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("at", ["bootstrap", "broker"])
def test_clients_are_told_addresses_of_their_own_listener(
    listening: Listening, broker: Broker, group: str, name: str, at: str
) -> None:
    host, port = listening.listens(name)
    told = listening.told(name)
    wanted = HostPort(told.host, told.port + 1 + broker.node_id)
    with WireClient(port if at == "bootstrap" else port + 1 + broker.node_id, host) as client:
        for version in (1, 12):
            brokers = client.ask(metadata.API, version, metadata.MetadataRequest(topics=())).brokers
            assert [(b.node_id, HostPort(b.host, b.port)) for b in brokers] == [(broker.node_id, wanted)]
        (found,) = client.ask(describe_cluster.API, 1, describe_cluster.DescribeClusterRequest(False)).brokers
        assert HostPort(found.host, found.port) == wanted
        one = client.ask(find_coordinator.API, 2, find_coordinator.FindCoordinatorRequest(group))
        assert HostPort(one.host, one.port) == wanted
        request = find_coordinator.FindCoordinatorRequest(coordinator_keys=(group,))
        (coordinator,) = client.ask(find_coordinator.API, 4, request).coordinators
        assert HostPort(coordinator.host, coordinator.port) == wanted


def test_a_commit_at_one_is_read_at_all(listening: Listening, topic_t: str, group: str) -> None:
    with listening.client("inside") as inside:
        commit(inside, group, 42)
    for name in NAMES:
        with listening.client(name) as client:
            assert committed(client, group) == 42


def test_a_limit_of_one_is_not_that_of_the_others(listening: Listening, topic_t: str, group: str) -> None:
    long = group + "x" * 2000
    for name in ("the first", "inside"):
        with listening.client(name) as client:
            commit(client, long, 1)
    with listening.client("outside") as client, pytest.raises(ConnectionError):
        commit(client, long, 1)
    assert "is larger than socket.request.max.bytes (2000)" in listening.shim.log()


def test_a_client_stays_at_the_listener_that_it_came_to(
    listening: Listening, make_topic: TopicFactory, group: str
) -> None:
    topic = make_topic()
    config: dict[str, str | int | float | bool] = {"bootstrap.servers": str(listening.inside)}
    brokers = AdminClient(config).list_topics(timeout=30).brokers.values()
    assert {b.host for b in brokers} == {INSIDE_HOST}
    producer = Producer(config)
    producer.produce(topic, b"value")
    assert producer.flush(30) == 0
    consumer = Consumer({**config, "group.id": group, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        message = consumer.poll(30)
        assert message is not None
        assert message.value() == b"value"
        consumer.commit(asynchronous=False)
        (partition,) = consumer.committed([TopicPartition(topic, 0)], timeout=30)
        assert partition.offset == 1
    finally:
        consumer.close()


def test_each_is_named_in_the_log(listening: Listening) -> None:
    log = listening.shim.log()
    assert f"listener PLAINTEXT (PLAINTEXT) at {listening.shim.bootstrap}\n" in log
    assert f"listener INSIDE (PLAINTEXT) at {listening.inside}\n" in log
    assert f"listener OUTSIDE (PLAINTEXT) at {listening.outside}, clients are told {TOLD_OUTSIDE}\n" in log


def test_ports_too_near_to_each_other_stop_the_start(broker: Broker, tmp_path: Path) -> None:
    port = free_port_range(8)
    near = port + 1 + broker.node_id
    error = refused(
        serve(
            tmp_path / "data",
            broker.bootstrap_servers,
            port,
            *("--set", f"listeners=NEAR://127.0.0.1:{near}"),
            *("--set", "listener.security.protocol.map=NEAR:PLAINTEXT"),
        )
    )
    assert error == (
        f"Error: the listeners' ports are too near to each other: port {near} would be broker {broker.node_id} of "
        "PLAINTEXT and bootstrap of NEAR"
    )


def test_the_standard_event_loop_where_uvloop_is_not_there(broker: Broker, topic_t: str, tmp_path: Path) -> None:
    patch = (
        "import asyncio, sys\n"
        "sys.modules['uvloop'] = None  # an import of it fails\n"
        "run = asyncio.run\n"
        "asyncio.run = lambda main: (print('the standard loop', file=sys.stderr), run(main))\n"
    )
    with Shim(broker.bootstrap_servers, tmp_path / "data", patch=patch) as shim:
        with WireClient(shim.broker_port(broker.node_id)) as client:
            commit(client, "group", 7)
            assert committed(client, "group") == 7
        assert shim.stop() == 0
        assert "the standard loop" in shim.log()
