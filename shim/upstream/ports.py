"""Which node id stands at which of the shim's ports: bootstrap at P, the broker with node id i at P + 1 + i."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple, Protocol, Self, TypeVar

from shim.config import HostPort

LAST_PORT = 65535


class _Addressed(Protocol):
    """A broker as a response names it: a message with a host and a port."""

    def _replace(self, *, host: str, port: int) -> Self: ...


Broker = TypeVar("Broker", bound=_Addressed)


class CoordinatorsTold(Protocol):
    """A client's connection."""

    @property
    def coordinators(self) -> dict[int, HostPort]:
        """By offsets partition, where it was told to find the coordinator; for those who may change their mind."""


class ClientPorts(Protocol):
    """Where clients of one listener find the brokers, and the groups: at this shim alone (:class:`PortMap`), or at
    several."""

    def has(self, node_id: int) -> bool:
        """Whether a port can stand for the broker ``node_id``."""

    def of(self, node_id: int) -> HostPort:
        """Where clients find the broker ``node_id``. Raises :class:`ValueError` when no port can stand for it."""

    def listening_of(self, node_id: int) -> int:
        """The port to listen on for the broker ``node_id``. Raises :class:`ValueError` when none can stand for it."""

    def home_of(self, partition: int, node_ids: Collection[int]) -> int:
        """The node id, of these, at whose port groups of an offsets partition are shown; and which is named as their
        coordinator where the cluster names none. Raises :class:`ValueError` where there are none."""

    def coordinator_of(self, partition: int, node_id: int, client: CoordinatorsTold) -> HostPort | None:
        """Where the client finds the broker ``node_id`` as the coordinator of groups of an offsets partition; None
        where it is to ask once more. Raises :class:`ValueError` when no port can stand for it."""


class PortMap(NamedTuple):
    """One listener's ports as its clients see them: the host they are told, and the bootstrap port P.

    ``listen_port`` is what P is here, where the way to the shim changes ports; None: the same.
    """

    advertised_host: str
    bootstrap_port: int
    listen_port: int | None = None

    def of(self, node_id: int) -> HostPort:
        """Where clients find the broker ``node_id``. Raises :class:`ValueError` when no port can stand for it."""
        self._check(node_id)
        return HostPort(self.advertised_host, self.bootstrap_port + 1 + node_id)

    def listening_of(self, node_id: int) -> int:
        """The port to listen on for the broker ``node_id``. Raises :class:`ValueError` when none can stand for it."""
        self._check(node_id)
        return (self.bootstrap_port if self.listen_port is None else self.listen_port) + 1 + node_id

    def has(self, node_id: int) -> bool:
        """Whether a port can stand for the broker ``node_id``."""
        return 0 <= node_id <= LAST_PORT - self._highest - 1

    @property
    def _highest(self) -> int:
        return max(self.bootstrap_port, self.listen_port or 0)

    def _check(self, node_id: int) -> None:
        if not self.has(node_id):
            port = self._highest + 1 + node_id
            raise ValueError(f"node id {node_id} would need port {port}; choose a lower port to count from")

    def home_of(self, partition: int, node_ids: Collection[int]) -> int:
        """See :class:`ClientPorts`."""
        return stable_choice(partition, node_ids)

    def coordinator_of(self, partition: int, node_id: int, client: CoordinatorsTold) -> HostPort:
        """See :class:`ClientPorts`."""
        return self.of(node_id)


def readdressed(ports: ClientPorts, brokers: Iterable[Broker], node_id: Callable[[Broker], int]) -> tuple[Broker, ...]:
    """A response's brokers, each where clients find it. Those that no port can stand for are left out.

    Clients take a broker that is missing for one that is down; at its own address it would lead past the shim.
    """
    readdressed = []
    for broker in brokers:
        if ports.has(node_id(broker)):
            host, port = ports.of(node_id(broker))
            readdressed.append(broker._replace(host=host, port=port))
    return tuple(readdressed)


def stable_choice(partition: int, node_ids: Collection[int]) -> int:
    """The node id that stands for an offsets partition when the cluster itself does not name one.

    The same for every shim and every connection that sees the same brokers, so that a group shows on exactly one
    broker port. Raises :class:`ValueError` without a broker.
    """
    if not node_ids:
        raise ValueError("no broker is known")
    return sorted(node_ids)[partition % len(node_ids)]
