"""Clients keep a connection for as long as it lasts: where a broker stands at another shim now, it ends."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from protocol.errors import ErrorCode
from protocol.messages import heartbeat
from shim.demo.parts import Cluster
from tests.cluster.asking import cluster_metadata
from tests.conftest import TopicFactory
from tests.forwarding.shims import coordinator_port
from tests.ownership.registers import PATIENCE_S
from tests.ownership.test_shims_together import shims_of
from tests.serve.scraped import until
from tests.wire import WireClient


def test_connections_end_where_a_broker_moves_to_another_shim(
    cluster: Cluster, make_topic: TopicFactory, tmp_path: Path
) -> None:
    topic = make_topic()
    first, second, _ = shims_of(cluster, topic, tmp_path)
    with ExitStack() as running:
        for shim in (first, second):
            running.callback(lambda shim=shim: shim.kill() if shim.running else None)  # type: ignore[misc]
        first.start()
        open_ = {
            node_id: running.enter_context(
                socket.create_connection(("127.0.0.1", first.broker_port(node_id)), PATIENCE_S)
            )
            for node_id in (1, 2, 3)
        }
        second.start()

        def moved() -> set[int]:
            told = {broker.node_id: broker.port for broker in cluster_metadata(first.port, topic).brokers}
            return {node_id for node_id, port in told.items() if port == second.broker_port(node_id)}

        elsewhere = until(moved)  # the first one may hear of it a little later
        assert len(elsewhere) < 3
        for node_id in elsewhere:
            assert open_[node_id].recv(1) == b"", "it is closed, in good order"
        for node_id in open_.keys() - elsewhere:
            open_[node_id].setblocking(False)
            with pytest.raises(BlockingIOError):
                open_[node_id].recv(1)


def test_who_comes_to_the_old_place_later_is_led_away_when_its_group_is_not_there(
    cluster: Cluster, make_topic: TopicFactory, group: str, tmp_path: Path
) -> None:
    """By then nobody looks for those any more; one that was told of the old place by a shim that was held up."""
    topic = make_topic()
    first, second, _ = shims_of(cluster, topic, tmp_path)
    first.late_patch += "import shim.ownership.sharing\nshim.ownership.sharing._LATELY_SECONDS = 0.0\n"
    with ExitStack() as running:
        for shim in (first, second):
            running.callback(lambda shim=shim: shim.kill() if shim.running else None)  # type: ignore[misc]
        first.start()
        second.start()

        def at_second() -> tuple[int, str] | None:
            """A broker that stands there, and a group that it coordinates."""
            groups = {coordinator_port(first, name): name for name in (f"{group}-{number}" for number in range(64))}
            its = {node_id: second.broker_port(node_id) for node_id in (1, 2, 3)}
            return next(((node_id, groups[port]) for node_id, port in its.items() if port in groups), None)

        node_id, there = until(at_second)
        with WireClient(first.broker_port(node_id)) as client:
            told = client.ask(heartbeat.API, 3, heartbeat.HeartbeatRequest(there, 1, "nobody"))
            assert told.error_code == ErrorCode.NOT_COORDINATOR
            assert client.socket.recv(1) == b"", "it is closed, in good order"
        with WireClient(first.port) as client:  # no broker's port
            assert client.ask(heartbeat.API, 3, heartbeat.HeartbeatRequest(there, 1, "nobody")).error_code
            assert client.ask(heartbeat.API, 3, heartbeat.HeartbeatRequest(there, 1, "nobody")).error_code
