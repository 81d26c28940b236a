"""A broker joins a running cluster, is given partitions, dies, comes back at another port, and leaves for good: under
idempotent producers and a consumer group, by admin clients through the shim and beside it.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest
from kafka import KafkaAdminClient
from kafka.structs import TopicPartition

from protocol.apis import ApiKey
from protocol.messages import describe_cluster, fetch, metadata
from shim.demo.parts import Broker, Cluster, free_port_range
from tests.cluster.asking import leaders
from tests.cluster.rolling_load import RollingLoad, committed
from tests.cluster.test_rolling import PARTITIONS, REPORTED, assert_nothing_lost_or_doubled, ends, kinds, told
from tests.conftest import TopicFactory
from tests.shim_process import Shim
from tests.waiting import wait_until
from tests.wire import WireClient

RECORDS: Final = 50  # acknowledged and consumed after each step
TIME_LIMIT_S: Final = 60.0
JOINING: Final = 4
"""The node id of the broker that comes and goes."""

_PREFERRED: Final = 0


@pytest.fixture
def joining(cluster: Cluster, tmp_path: Path) -> Iterator[Broker]:
    """It does not run yet. In the end the cluster has never heard of it."""
    quorum = cluster.brokers[0].quorum
    broker = Broker(tmp_path / "joining", node_id=JOINING, host="127.0.0.8", quorum=quorum, heap_mb=96)
    yield broker
    broker.kill()
    if JOINING in registered(cluster.brokers[0].port, cluster.brokers[0].host):
        unregister(cluster.brokers[0].port, cluster.brokers[0].host)


def registered(port: int, host: str = "127.0.0.1") -> set[int]:
    """The node ids of all brokers, those that are away among them."""
    with WireClient(port, host) as client:
        request = describe_cluster.DescribeClusterRequest(False, include_fenced_brokers=True)
        return {broker.broker_id for broker in client.ask(describe_cluster.API, 2, request).brokers}


def until_registered(shim: Shim, node_ids: set[int]) -> None:
    wait_until(lambda: registered(shim.port) == node_ids, lambda: registered(shim.port))


def unregister(port: int, host: str = "127.0.0.1") -> None:
    """UnregisterBroker 0 (KIP-631), by hand: asked for until the controller has noticed that the broker is gone."""
    request = struct.pack(">hhihbib", ApiKey.UNREGISTER_BROKER, 0, 1, -1, 0, JOINING, 0)

    def error() -> int:
        with WireClient(port, host) as client:
            client.socket.sendall(struct.pack(">i", len(request)) + request)
            _, _, _, told = struct.unpack_from(">ibih", client.receive_frame())
        return int(told)

    wait_until(lambda: not error(), error)


def until_told(shim: Shim, topic: str, node_ids: set[int]) -> None:
    """Clients are told of these brokers, each at its port, and of no other; and that port is open."""
    wanted = {(node_id, "127.0.0.1", shim.broker_port(node_id)) for node_id in node_ids}
    wait_until(lambda: told(shim, topic) == wanted, lambda: told(shim, topic))
    for node_id in node_ids:
        WireClient(shim.broker_port(node_id)).close()


def move_partitions(bootstrap: str, topic: str, replicas: Mapping[int, Sequence[int]]) -> None:
    """Give each partition these replicas, and have the first of them lead it."""
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        asked = {TopicPartition(topic, partition): list(nodes) for partition, nodes in replicas.items()}
        assert set(admin.alter_partition_reassignments(asked).values()) == {None}
        wait_until(lambda: not admin.list_partition_reassignments(), "it is not done")
        admin.elect_leaders(_PREFERRED, {topic: list(replicas)})


def until_led(shim: Shim, topic: str, wanted: Mapping[int, int]) -> None:
    wait_until(lambda: leaders(shim.port, topic) == wanted, lambda: leaders(shim.port, topic))


def waits(port: int, topic: str, host: str = "127.0.0.1") -> WireClient:
    """A client that waits for records, as consumers do."""
    client = WireClient(port, host)
    partitions = (fetch.FetchPartition(0, fetch_offset=0),)
    request = fetch.FetchRequest(
        max_wait_ms=60_000, min_bytes=1 << 20, topics=(fetch.FetchTopic(topic, partitions=partitions),)
    )
    client.send(fetch.API, 4, request)
    return client


def test_a_broker_joins_dies_comes_back_elsewhere_and_leaves(
    shim: Shim, cluster: Cluster, joining: Broker, make_topic: TopicFactory, group: str
) -> None:
    topic, quiet = make_topic(PARTITIONS, on=cluster), make_topic(1, on=cluster)
    everyone = {broker.node_id for broker in cluster.brokers}
    first, second, third = sorted(everyone)
    port = shim.broker_port(JOINING)
    with pytest.raises(ConnectionRefusedError):
        WireClient(port)
    with RollingLoad(shim.bootstrap, topic, group) as load:
        load.go_on("start", RECORDS, TIME_LIMIT_S)

        load.enter("it joins")
        joining.start()
        until_told(shim, topic, everyone | {JOINING})
        load.go_on("it joins", RECORDS, TIME_LIMIT_S)

        load.enter("it leads")
        move_partitions(shim.bootstrap, quiet, {0: (JOINING, first)})
        moved = dict.fromkeys(range(PARTITIONS), (JOINING, first, second))
        move_partitions(shim.bootstrap, topic, moved)
        until_led(shim, topic, dict.fromkeys(range(PARTITIONS), JOINING))
        load.go_on("it leads", RECORDS, TIME_LIMIT_S)

        load.enter("it dies")
        with (
            waits(joining.port, quiet, joining.host) as direct,
            waits(port, quiet) as client,
            WireClient(port) as idle,
        ):
            idle.ask(metadata.API, 9, metadata.MetadataRequest(()))
            joining.kill()
            assert direct.ended()
            assert client.ended()
            with pytest.raises(ConnectionError):
                idle.ask(metadata.API, 9, metadata.MetadataRequest(()))
        load.go_on("it dies", RECORDS, TIME_LIMIT_S)
        until_told(shim, topic, everyone)

        load.enter("it is back, elsewhere")
        joining.port = free_port_range(1, joining.host)
        joining.start()
        until_told(shim, topic, everyone | {JOINING})
        with closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)) as beside:
            deadline = time.monotonic() + TIME_LIMIT_S
            while set(leaders(shim.port, topic).values()) != {JOINING}:  # until it is in sync
                assert time.monotonic() < deadline
                beside.elect_leaders(_PREFERRED, {topic: list(range(PARTITIONS))}, raise_errors=False)
        load.go_on("it is back, elsewhere", RECORDS, TIME_LIMIT_S)

        load.enter("it leaves")
        spread = dict.fromkeys(range(PARTITIONS), (second, third, first))
        move_partitions(cluster.bootstrap_servers, topic, spread)
        until_led(shim, topic, dict.fromkeys(range(PARTITIONS), second))
        joining.stop()
        until_told(shim, topic, everyone)
        assert registered(shim.port) == everyone | {JOINING}
        unregister(shim.port)
        until_registered(shim, everyone)
        with pytest.raises(ConnectionRefusedError):
            WireClient(port)
        load.go_on("it leaves", RECORDS, TIME_LIMIT_S)
        load.end(TIME_LIMIT_S)
    assert_nothing_lost_or_doubled(load, cluster, topic)
    assert committed(shim.bootstrap, group, topic, PARTITIONS) == ends(cluster, topic)
    assert kinds(load) <= REPORTED
