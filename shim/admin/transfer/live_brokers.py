"""Connections to the brokers of a live cluster, for as long as a command takes."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from protocol.api import Api
from protocol.messages import metadata
from shim.config import HostPort, Settings
from shim.upstream.errors import UpstreamError
from shim.upstream.kept_connection import KeptConnection, KeptConnections

Request = TypeVar("Request", bound=tuple[Any, ...])
Response = TypeVar("Response", bound=tuple[Any, ...])


class LiveBrokers:
    """One connection to each broker that is asked, one request at a time, and none of them twice. Everything raises
    UpstreamError."""

    def __init__(self, bootstrap: Sequence[HostPort], settings: Settings) -> None:
        self.cluster_id: str | None = None
        self.addresses: dict[int, HostPort] = {}
        """By node id."""
        self._bootstrap = bootstrap
        self._connections = KeptConnections(settings)

    async def __aenter__(self) -> Self:
        failures = []
        for address in self._bootstrap:
            try:
                answer = await self._connections.to(address).ask(metadata.API, metadata.MetadataRequest(topics=()))
            except UpstreamError as error:
                failures.append(str(error))
                continue
            self.addresses = {broker.node_id: HostPort(broker.host, broker.port) for broker in answer.brokers}
            self.cluster_id = answer.cluster_id
            return self
        self._connections.close()
        raise UpstreamError("; ".join(failures))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connections.close()

    async def ask(
        self, node_id: int, api: Api[Request, Response], request: Request, *, version: int | None = None
    ) -> Response:
        """By default in the newest version that both sides have."""
        return await self._to(node_id).ask(api, request, at_least=version or 0, at_most=version, once=True)

    async def offers(self, node_id: int, api: Api[Any, Any]) -> bool:
        """Whether the broker has any version of it."""
        return await self._to(node_id).versions(api) is not None

    async def newest(self, node_id: int, api: Api[Any, Any], *, at_least: int, at_most: int) -> int:
        """The newest version of these that the broker has."""
        asked = self._to(node_id)
        _, newest = await asked.versions(api) or (0, -1)
        if min(at_most, newest) < at_least:
            raise UpstreamError(f"{asked.address}: too old, it has no version {at_least} of {api.name}")
        return min(at_most, newest)

    def _to(self, node_id: int) -> KeptConnection:
        if node_id not in self.addresses:
            raise UpstreamError(f"broker {node_id} is not in the cluster's metadata")
        return self._connections.to(self.addresses[node_id])
