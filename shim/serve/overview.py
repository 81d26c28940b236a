"""What there is to tell of the shim as a whole."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from importlib.metadata import version

from shim.admin.live.asked.overview import BrokerAt, ListenerAt, Overview
from shim.config import Settings
from shim.listener_config import Listener
from shim.runtime import Runtime
from shim.upstream import Cluster, PortMap


class Whole:
    """For the event loop."""

    def __init__(
        self,
        runtime: Runtime,
        cluster: Cluster,
        settings: Settings,
        listening: Sequence[Listener],
        zookeeper: str | None,
        others: Callable[[], Sequence[str]],
        *,
        log_moves: bool,
    ) -> None:
        """``others``: for people, the shims that have partitions of the log that are not this one's."""
        self._runtime = runtime
        self._cluster = cluster
        self._log = settings.offsets_log
        self._log_moves = log_moves
        self._listening = listening
        self._zookeeper = zookeeper
        self._others = others
        self._started_ms = int(time.time() * 1000)
        self._version = version("kafka-offset-shim")

    def overview(self) -> Overview:
        first = self._listening[0]
        ports = PortMap(first.advertised.host, first.advertised.port, first.listen.port)
        owned = len(self._runtime.owned or ())
        return Overview(
            self._version,
            self._started_ms,
            self._cluster.cluster_id,
            self._cluster.reachable,
            [
                BrokerAt(node_id, *address, ports.of(node_id).port)
                for node_id, address in sorted(self._cluster.brokers.items())
                if ports.has(node_id)
            ],
            [
                ListenerAt(each.name, each.security_protocol, str(each.listen), str(each.advertised))
                for each in self._listening
            ],
            self._runtime.num_partitions,
            owned,
            owned - self._runtime.unavailable.total(),
            self._others(),
            self._zookeeper,
            self._log,
            self._log_moves,
        )
