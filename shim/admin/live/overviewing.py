"""What the admin interface asks for of the shim as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class BrokerAt(NamedTuple):
    """``port_here``: where clients of the first listener reach it through the shim."""

    node_id: int
    host: str
    port: int
    port_here: int


class ListenerAt(NamedTuple):
    """``listen`` and ``advertised``: ``host:port``."""

    name: str
    security_protocol: str
    listen: str
    advertised: str


class Overview(NamedTuple):
    """``cluster_id``: None from a cluster that does not tell. ``reachable``: whether the newest look at the cluster
    succeeded. ``loaded``: of the ``partitions`` of the offsets log, how many are served. ``zookeeper``: its connect
    string, or None. ``started_ms``: ms since the epoch."""

    version: str
    started_ms: int
    cluster_id: str | None
    reachable: bool
    brokers: Sequence[BrokerAt]
    listeners: Sequence[ListenerAt]
    partitions: int
    loaded: int
    zookeeper: str | None

    @property
    def ready(self) -> bool:
        return self.reachable and self.loaded == self.partitions
