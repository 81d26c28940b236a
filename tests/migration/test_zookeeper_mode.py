"""In front of a cluster that keeps its metadata in ZooKeeper: there the brokers register themselves, and what they tell
clients has to be the shim's address (docs/registrar.md)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shim.demo.parts import free_port, free_port_range
from tests.legacy.parts import KAFKA_0_8, KAFKA_0_10, KAFKA_1, KAFKA_3, LegacyBroker
from tests.migration.ensemble_view import looking_at
from tests.migration.modern_clients import NO_OFFSET, committed, values, write
from tests.migration.old_consumer import OldConsumer
from tests.old_clients.places import make_topics
from tests.shim_process import Shim

_HOST = "127.0.0.1"
_NODE_ID = 1


@pytest.mark.soak
def test_consumers_come_to_the_shim(tmp_path: Path) -> None:
    shim_port, client_port, internal_port = free_port_range(8, _HOST), free_port(_HOST), free_port(_HOST)
    told = shim_port + 1 + _NODE_ID
    listeners = {
        "listeners": f"PLAINTEXT://{_HOST}:{client_port},INTERNAL://{_HOST}:{internal_port}",
        # The first one with the security protocol PLAINTEXT is what a broker's host and port are in ZooKeeper.
        "advertised.listeners": f"PLAINTEXT://{_HOST}:{told},INTERNAL://{_HOST}:{internal_port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT",
        "inter.broker.listener.name": "INTERNAL",
    }
    with (
        LegacyBroker(tmp_path / "legacy", KAFKA_3, node_id=_NODE_ID, properties=listeners) as legacy,
        Shim(f"{_HOST}:{internal_port}", tmp_path / "data", listen_port=shim_port) as shim,
        looking_at(legacy.zookeeper.connect_string) as view,
    ):
        assert view.ids() == {_NODE_ID: (_HOST, told)}
        assert json.loads(view.values("/brokers/ids")[str(_NODE_ID)])["version"] > 1
        make_topics(internal_port, ["orders"])
        write(shim.bootstrap, "orders", 0, range(10))
        for release in (KAFKA_0_8, KAFKA_0_10, KAFKA_1):
            with OldConsumer(release, legacy.zookeeper.connect_string, "orders", release, "kafka+dual") as consumer:
                assert [each.value for each in consumer.read(10)] == values(range(10))
                consumer.commit()
            # It was at the shim, which has what it committed; the broker does not know the group.
            assert committed(shim.bootstrap, release, "orders") == 10
            assert committed(f"{_HOST}:{internal_port}", release, "orders") == NO_OFFSET
