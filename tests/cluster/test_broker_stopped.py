"""Unmodified clients on a cluster of three through the shim, while a broker is stopped and started again."""

from __future__ import annotations

import itertools
import socket
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from shim.demo.parts import Cluster
from tests.clients.client_table import CLIENTS, Client
from tests.clients.programs import Program, Programs
from tests.cluster.asking import committed_offsets, coordinator, leaders, listed_groups
from tests.conftest import TopicFactory
from tests.shim_process import Shim

PARTITIONS = 6
RECORDS = 100  # for each client, in each of the three phases
TIME_LIMIT_SECONDS = 120.0
CHOSEN = [
    client for client in CLIENTS if client.name in ("kafka-python", "aiokafka", "confluent-kafka", "java-console")
]


class Pair:
    """A producer and a consumer of one library, each a process of its own, on a topic and in a group of their own."""

    def __init__(self, programs: Programs, client: Client, bootstrap: str, topic: str, group: str) -> None:
        self.client = client
        self.topic = topic
        self.group = group
        self.values: list[str] = []
        self.consumer: Program = programs.start(f"{client.name}-consumer", client.consume(bootstrap, topic, group))
        self.producer: Program = programs.start(f"{client.name}-producer", client.produce(bootstrap, topic))

    def produce(self) -> None:
        """Give the producer the next records to send; spread over the partitions by their keys."""
        more = [str(number) for number in range(len(self.values), len(self.values) + RECORDS)]
        self.values += more
        self.producer.write(f"key-{value}\t{value}" for value in more)

    def all_consumed(self) -> bool:
        return {record.value for record in self.consumer.records} >= set(self.values)

    def all_committed(self, shim: Shim) -> bool:
        return committed_offsets(shim.port, self.group) == self.positions()

    def positions(self) -> dict[int, int]:
        """By partition, the offset after the last record consumed."""
        return {
            partition: max(r.offset for r in self.consumer.records if r.partition == partition) + 1
            for partition in self.consumer.partitions
        }


def open_ports(shim: Shim, cluster: Cluster) -> set[int]:
    """The node ids whose ports the shim has open."""
    found = set()
    for broker in cluster.brokers:
        with socket.socket() as probe:
            probe.settimeout(5)
            if probe.connect_ex(("127.0.0.1", shim.broker_port(broker.node_id))) == 0:
                found.add(broker.node_id)
    return found


def groups_named(shim: Shim, group_prefix: str, number: int, node_id: int) -> list[str]:
    """So many group ids whose coordinator is this node, in the cluster's own opinion."""
    names = (f"{group_prefix}-{i}" for i in itertools.count())
    chosen: list[str] = []
    deadline = time.monotonic() + TIME_LIMIT_SECONDS
    while len(chosen) < number:
        assert time.monotonic() < deadline, f"no group's coordinator is node {node_id}"
        name = next(names)
        if coordinator(shim.port, name) == (node_id, "127.0.0.1", shim.broker_port(node_id)):
            chosen.append(name)
    return chosen


def shown_at(shim: Shim, group: str, node_ids: set[int]) -> list[int]:
    """The brokers at whose ports ListGroups has the group."""
    return [node_id for node_id in sorted(node_ids) if group in listed_groups(shim.broker_port(node_id))]


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    with Programs(tmp_path, TIME_LIMIT_SECONDS) as running:
        yield running


@pytest.mark.parametrize(
    "coordinates",
    [
        pytest.param(True, id="the groups' coordinator"),
        pytest.param(False, id="another broker", marks=pytest.mark.soak),
    ],
)
def test_clients_go_on_while_a_broker_is_away(
    shim: Shim, cluster: Cluster, make_topic: TopicFactory, group: str, programs: Programs, coordinates: bool
) -> None:
    everyone = {broker.node_id for broker in cluster.brokers}
    _, stopped, other = cluster.brokers  # the first is the controller, too
    groups = groups_named(shim, group, len(CHOSEN), (stopped if coordinates else other).node_id)
    pairs = [
        Pair(programs, client, shim.bootstrap, make_topic(PARTITIONS), name)
        for client, name in zip(CHOSEN, groups, strict=True)
    ]

    def a_phase(during: str) -> None:
        for pair in pairs:
            pair.produce()
        for pair in pairs:
            name = pair.client.name
            programs.wait(f"{name} has consumed all that was produced {during}", pair.all_consumed)
            programs.wait(f"{name} has committed all that was produced {during}", partial(pair.all_committed, shim))
            assert len(shown_at(shim, pair.group, open_ports(shim, cluster))) == 1

    a_phase("before")
    led = {pair.topic: set(leaders(shim.port, pair.topic).values()) for pair in pairs}
    assert all(stopped.node_id in nodes for nodes in led.values()), led

    stopped.stop()
    programs.wait("the port is closed", lambda: open_ports(shim, cluster) == everyone - {stopped.node_id})
    a_phase("while it was away")

    stopped.start()
    programs.wait("the port is open again", lambda: open_ports(shim, cluster) == everyone)
    a_phase("after it had come back")

    for pair in pairs:
        pair.producer.end_input()
    for pair in pairs:
        assert programs.wait_end(pair.producer) == 0, "every record was acknowledged"
        at_end = pair.positions()
        pair.consumer.terminate()
        assert programs.wait_end(pair.consumer) == pair.client.left
        assert committed_offsets(shim.port, pair.group) == at_end
        assert len(shown_at(shim, pair.group, everyone)) == 1
    assert_only_at_the_shim(shim, cluster, programs)


def assert_only_at_the_shim(shim: Shim, cluster: Cluster, programs: Programs) -> None:
    ports = {shim.port, *(shim.broker_port(broker.node_id) for broker in cluster.brokers)}
    assert ports.isdisjoint(broker.port for broker in cluster.brokers)
    for program in programs.all:
        assert program.remote_ports, "it was never seen connected"
        assert program.remote_ports <= ports, program.report()
