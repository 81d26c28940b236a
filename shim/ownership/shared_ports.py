"""The ports of one listener, where several shims share the work."""

from __future__ import annotations

from collections.abc import Collection

from shim.config import HostPort
from shim.ownership.assignment import port_of
from shim.ownership.sharing import Sharing
from shim.upstream import PortMap, stable_choice
from shim.upstream.ports import CoordinatorsTold


class SharedPorts:
    """See :class:`shim.upstream.ports.ClientPorts`. Each broker stands at one shim, the same for all that know the same
    shares; at this one as long as it knows of none, as each has ports for all brokers."""

    def __init__(self, own: PortMap, listener: str, sharing: Sharing) -> None:
        """``listener``: its name, by which other shims have it, too."""
        self._own = own
        self._listener = listener
        self._sharing = sharing

    def has(self, node_id: int) -> bool:
        """See :class:`shim.upstream.ports.ClientPorts`."""
        return self._own.has(node_id)

    def listening_of(self, node_id: int) -> int:
        """See :class:`shim.upstream.ports.ClientPorts`."""
        return self._own.listening_of(node_id)

    def of(self, node_id: int) -> HostPort:
        """See :class:`shim.upstream.ports.ClientPorts`."""
        own, shares = self._own.of(node_id), self._sharing.shares
        return (shares and shares.address(node_id, self._listener)) or own

    def home_of(self, partition: int, node_ids: Collection[int]) -> int:
        """See :class:`shim.upstream.ports.ClientPorts`."""
        shares = self._sharing.shares
        home = shares.node_of(partition) if shares is not None else None
        return home if home is not None and home in node_ids else stable_choice(partition, node_ids)

    def coordinator_of(self, partition: int, node_id: int, client: CoordinatorsTold) -> HostPort | None:
        """The partition's owner, whichever shim the broker stands at otherwise.

        Where it has moved, and the node id is the same, the client is to unlearn it first, by an answer that there is
        none: librdkafka (2.16) goes on with the old address for as long as nobody says so. No Kafka cluster moves a
        coordinator without another node id.
        """
        own, shares = self._own.of(node_id), self._sharing.shares
        if shares is None:
            return own
        address = port_of(shares.owner_of(partition), node_id, self._listener) or own
        at = address._replace(port=address.port - node_id)
        told = client.coordinators.get(partition)
        client.coordinators[partition] = at
        if told is None:
            # Somebody else of us may have told it, on a connection that was lost with that one.
            return None if self._sharing.moved_lately(partition) else address
        return address if told == at else None
