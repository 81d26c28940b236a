"""Brokers and a topic, written to a ZooKeeper as a broker of 0.8.2 does: for clients that look there, of a cluster that
has none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kazoo.client import KazooClient

_TIMEOUT_S = 20.0


def register(zookeeper: str, brokers: Mapping[int, tuple[str, int]], topic: str, leaders: Mapping[int, int]) -> None:
    """``zookeeper``: a connect string with a root, ``host:port/root``. ``leaders``: the node id of each partition's.
    What is there already, of the brokers, is written anew.

    A broker's own entry goes when its session ends; these stay, and nobody needs to hold one for them.
    """
    servers, _, root = zookeeper.partition("/")
    client = KazooClient(servers)  # it warns of a root that is not there, and the first time it is not
    client.start(timeout=_TIMEOUT_S)
    try:

        def write(path: str, value: Mapping[str, Any]) -> None:
            client.ensure_path(f"/{root}{path}")
            client.set(f"/{root}{path}", json.dumps(value).encode())

        for node_id, (host, port) in brokers.items():
            write(
                f"/brokers/ids/{node_id}",
                {"version": 1, "host": host, "port": port, "jmx_port": -1, "timestamp": "1400000000000"},
            )
        replicas = {str(partition): [leader] for partition, leader in leaders.items()}
        for partition, leader in leaders.items():
            state = {"controller_epoch": 1, "leader": leader, "version": 1, "leader_epoch": 0, "isr": [leader]}
            write(f"/brokers/topics/{topic}/partitions/{partition}/state", state)
        # Last: where a consumer sees the topic, its partitions are there.
        write(f"/brokers/topics/{topic}", {"version": 1, "partitions": replicas})
    finally:
        client.stop()
        client.close()
