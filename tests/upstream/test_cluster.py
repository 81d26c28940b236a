"""The shim's view of the cluster: what a client's response may change, and what only the shim's own look-up may."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from shim.config import HostPort, Settings
from shim.demo.parts import Broker
from shim.upstream import Cluster, PortMap, stable_choice
from shim.upstream.connection import BrokerConnection
from shim.upstream.errors import UpstreamError

A, B, C = HostPort("a", 1), HostPort("b", 2), HostPort("c", 3)


class Followed:
    """A cluster that is only told things, and the views that its watcher saw."""

    def __init__(self) -> None:
        self.cluster = Cluster([A], Settings())
        self.views: list[dict[int, HostPort]] = []
        self.cluster.watch(self._watch)

    async def _watch(self, brokers: Mapping[int, HostPort]) -> None:
        self.views.append(dict(brokers))


async def test_a_new_broker_is_followed_before_the_client_hears_of_it() -> None:
    followed = Followed()
    await followed.cluster.learn({1: A, 2: B}, whole=True)
    await followed.cluster.learn({1: A, 2: B, 3: C}, whole=True)
    assert followed.views == [{1: A, 2: B}, {1: A, 2: B, 3: C}]
    assert followed.cluster.address_of(3) == (C,)
    assert followed.cluster.address_of(4) == ()


async def test_a_stale_response_takes_nothing_away_and_moves_nothing() -> None:
    followed = Followed()
    await followed.cluster.learn({1: A, 2: B}, whole=True)
    await followed.cluster.learn({1: C}, whole=True)
    assert followed.cluster.brokers == {1: A, 2: B}
    assert followed.views == [{1: A, 2: B}]


async def test_bootstrap_tries_the_brokers_and_then_what_it_was_given() -> None:
    followed = Followed()
    assert followed.cluster.any_address() == (A,)
    await followed.cluster.learn({2: B}, whole=True)
    assert followed.cluster.any_address() == (B, A)


async def test_a_real_broker_answers_at_a_common_version(broker: Broker) -> None:
    from protocol.messages import metadata

    host, port = broker.bootstrap_servers.split(":")
    connection = BrokerConnection(HostPort(host, int(port)), Settings())
    await connection.open()
    try:
        answer = await connection.ask(metadata.API, metadata.MetadataRequest(topics=()))
    finally:
        connection.close()
    assert [(b.node_id, b.host, b.port) for b in answer.brokers] == [(broker.node_id, host, int(port))]


async def test_a_broker_that_is_not_there_is_named() -> None:
    with pytest.raises(UpstreamError, match=r"127\.0\.0\.1:1: Connection refused"):
        await BrokerConnection(HostPort("127.0.0.1", 1), Settings()).open()


def test_ports_follow_from_node_ids() -> None:
    ports = PortMap("shim.example.org", 19092)
    assert ports.of(0) == HostPort("shim.example.org", 19093)
    assert ports.of(7) == HostPort("shim.example.org", 19100)
    with pytest.raises(ValueError, match="node id 50000 would need port 69093"):
        ports.of(50_000)
    with pytest.raises(ValueError, match="node id -1"):
        ports.of(-1)


def test_the_stable_choice_needs_nothing_but_the_ids() -> None:
    assert [stable_choice(partition, {5, 1, 3}) for partition in range(4)] == [1, 3, 5, 1]
    with pytest.raises(ValueError, match="no broker is known"):
        stable_choice(0, ())
