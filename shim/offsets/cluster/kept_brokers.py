"""Connections to the brokers of a cluster: one each, opened when needed, and anew where it fails."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from protocol.api import Api
from protocol.apis import ApiKey
from shim.config import HostPort, Settings
from shim.upstream import Cluster
from shim.upstream.errors import UpstreamError
from shim.upstream.kept_connection import KeptConnection, KeptConnections

_CHANGES: Final = frozenset({ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_DELETE, ApiKey.LEAVE_GROUP, ApiKey.DELETE_GROUPS})
"""Executed late, after somebody else's, the first of two would undo that one."""

Request = TypeVar("Request", bound=tuple[Any, ...])
Response = TypeVar("Response", bound=tuple[Any, ...])


class ConnectedBrokers(ABC):
    """:class:`.brokers.Brokers`, wherever the addresses are from. What changes nothing may be sent twice, where the
    first is not answered."""

    def __init__(self, settings: Settings) -> None:
        self._connections = KeptConnections(settings)

    @property
    @abstractmethod
    def addresses(self) -> Mapping[int, HostPort]: ...

    def is_sent_once(self, api: Api[Any, Any]) -> bool:
        return api.key in _CHANGES

    async def ask(
        self,
        node_id: int,
        api: Api[Request, Response],
        request: Request,
        *,
        version: int | None = None,
        may_send: Callable[[], None] = lambda: None,
    ) -> Response:
        connection, once = self._connection(node_id), self.is_sent_once(api)
        return await connection.ask(api, request, at_least=version or 0, at_most=version, once=once, may_send=may_send)

    async def offers(self, node_id: int, api: Api[Any, Any]) -> bool:
        return await self._connection(node_id).versions(api) is not None

    async def newest(self, node_id: int, api: Api[Any, Any], *, at_least: int, at_most: int) -> int:
        connection = self._connection(node_id)
        versions = await connection.versions(api)
        found = min(at_most, versions[1]) if versions is not None else -1
        if found < at_least:
            raise UpstreamError(f"{connection.address}: too old, it has no version {at_least} of {api.name}")
        return found

    def _connection(self, node_id: int) -> KeptConnection:
        if node_id not in self.addresses:
            raise UpstreamError(f"broker {node_id} is not in the cluster")
        return self._connections.to(self.addresses[node_id])

    def close(self) -> None:
        self._connections.close()


class KeptBrokers(ConnectedBrokers):
    """Those that the cluster has, by its newest view; for as long as the shim runs."""

    def __init__(self, cluster: Cluster, settings: Settings) -> None:
        super().__init__(settings)
        self._cluster = cluster

    @property
    def addresses(self) -> Mapping[int, HostPort]:
        return self._cluster.brokers

    def _connection(self, node_id: int) -> KeptConnection:
        self._connections.close_others(self._cluster.any_address())
        return super()._connection(node_id)
