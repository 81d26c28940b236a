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
    succeeded. ``owned``: of the ``partitions`` of the offsets log, how many are this shim's; ``loaded``: how many are
    served. ``others``: the shims that have the rest, each by the address where its clients bootstrap. ``zookeeper``:
    its connect string, or None. ``started_ms``: ms since the epoch. ``log``: as ``offsets.log``;
    ``log_moves``: whether partitions of the log are, or were, moved from its one place to the other."""

    version: str
    started_ms: int
    cluster_id: str | None
    reachable: bool
    brokers: Sequence[BrokerAt]
    listeners: Sequence[ListenerAt]
    partitions: int
    owned: int
    loaded: int
    others: Sequence[str]
    zookeeper: str | None
    log: str
    log_moves: bool


class VersionUsed(NamedTuple):
    """``api``: as Kafka calls it. ``dropped``: whether Kafka 4 does not speak it any more."""

    api: str
    version: int
    dropped: bool


class ClientsOf(NamedTuple):
    """All connections of one kind of client since the shim began.

    ``software`` and ``software_version``: None of one that has not said what it is; these are told apart by their
    client ids. ``client_id``, ``client_host`` and ``principal`` ("" where nobody was asked): of one of its connections,
    the newest that has told. ``last_seen_ms``: when one began or ended last, ms since the epoch. ``speaks_as``: the
    last release of Kafka whose own clients used versions as low; None for one of 2.1 or newer, or where it has used too
    little to tell. ``lowest_versions``: of each API that it has used.
    """

    software: str | None
    software_version: str | None
    client_id: str
    client_host: str
    principal: str
    open_connections: int
    connections: int
    last_seen_ms: int
    speaks_as: str | None
    lowest_versions: Sequence[VersionUsed]

    @property
    def dropped(self) -> bool:
        return any(each.dropped for each in self.lowest_versions)
