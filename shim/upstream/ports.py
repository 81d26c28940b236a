"""Which node id stands at which of the shim's ports: bootstrap at P, the broker with node id i at P + 1 + i."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from shim.config import HostPort


class PortMap(NamedTuple):
    """One listener's ports as its clients see them: the host they are told, and the bootstrap port P."""

    advertised_host: str
    bootstrap_port: int

    def of(self, node_id: int) -> HostPort:
        """Where clients find the broker ``node_id``. Raises :class:`ValueError` when no port can stand for it."""
        port = self.bootstrap_port + 1 + node_id
        if node_id < 0 or port > 65535:
            raise ValueError(f"node id {node_id} would need port {port}; choose a lower --listen port")
        return HostPort(self.advertised_host, port)


def stable_choice(partition: int, node_ids: Collection[int]) -> int:
    """The node id that stands for an offsets partition when the cluster itself does not name one.

    The same for every shim and every connection that sees the same brokers, so that a group shows on exactly one
    broker port. Raises :class:`ValueError` without a broker.
    """
    if not node_ids:
        raise ValueError("no broker is known")
    return sorted(node_ids)[partition % len(node_ids)]
