"""Connections to the brokers of a live cluster, and patience with them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from protocol.api import Api
from protocol.errors import ErrorCode
from protocol.messages import api_versions, metadata
from shim.config import HostPort, Settings
from shim.upstream.connection import BrokerConnection
from shim.upstream.errors import UpstreamError

_PATIENCE_S: Final = 15.0
_RETRY_S: Final = 0.1

PASSES_BY_ITSELF: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
    }
)

Request = TypeVar("Request", bound=tuple[Any, ...])
Response = TypeVar("Response", bound=tuple[Any, ...])
Answer = TypeVar("Answer")


class BrokerRefused(UpstreamError):
    """An answer with an error code."""

    def __init__(self, code: int, what: str) -> None:
        self.code = code
        name = ErrorCode(code).name if code in ErrorCode._value2member_map_ else str(code)
        super().__init__(f"{what}: {name}")


def raise_for(code: int, what: str) -> None:
    """Raises BrokerRefused for any code but 0."""
    if code:
        raise BrokerRefused(code, what)


async def until_ready(ask: Callable[[], Awaitable[Answer]]) -> Answer:
    """Asks again for as long as what refuses it passes by itself, but not for ever. Raises UpstreamError."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return await ask()
        except BrokerRefused as refused:
            if refused.code not in PASSES_BY_ITSELF or time.monotonic() > deadline:
                raise
        await asyncio.sleep(_RETRY_S)  # a broker tells nobody when it is ready


class LiveBrokers:
    """One connection to each broker that is asked. Everything raises UpstreamError."""

    def __init__(self, bootstrap: Sequence[HostPort], settings: Settings) -> None:
        self.cluster_id: str | None = None
        self.addresses: dict[int, HostPort] = {}
        """By node id."""
        self._bootstrap = bootstrap
        self._settings = settings
        self._connections: dict[HostPort, tuple[BrokerConnection, dict[int, int]]] = {}

    async def __aenter__(self) -> Self:
        failures = []
        for address in self._bootstrap:
            try:
                answer = await self._ask_at(address, metadata.API, metadata.MetadataRequest(topics=()))
            except UpstreamError as error:
                failures.append(str(error))
                continue
            self.addresses = {broker.node_id: HostPort(broker.host, broker.port) for broker in answer.brokers}
            self.cluster_id = answer.cluster_id
            return self
        self._close()
        raise UpstreamError("; ".join(failures))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def _close(self) -> None:
        for connection, _ in self._connections.values():
            connection.close()

    async def ask(
        self, node_id: int, api: Api[Request, Response], request: Request, *, version: int | None = None
    ) -> Response:
        """By default in the newest version that both sides have."""
        return await self._ask_at(self._address(node_id), api, request, version)

    async def offers(self, node_id: int, api: Api[Any, Any]) -> bool:
        """Whether the broker has any version of it."""
        _, newest = await self._connected(self._address(node_id))
        return api.key in newest

    async def newest(self, node_id: int, api: Api[Any, Any], *, at_least: int, at_most: int) -> int:
        """The newest version of these that the broker has."""
        address = self._address(node_id)
        _, newest = await self._connected(address)
        found = min(at_most, newest.get(api.key, -1))
        if found < at_least:
            raise UpstreamError(f"{address}: too old, it has no version {at_least} of {api.name}")
        return found

    def _address(self, node_id: int) -> HostPort:
        if node_id not in self.addresses:
            raise UpstreamError(f"broker {node_id} is not in the cluster's metadata")
        return self.addresses[node_id]

    async def _ask_at(
        self, address: HostPort, api: Api[Request, Response], request: Request, version: int | None = None
    ) -> Response:
        connection, _ = await self._connected(address)
        return await connection.ask(api, request, version=version)

    async def _connected(self, address: HostPort) -> tuple[BrokerConnection, dict[int, int]]:
        if address not in self._connections:
            connection = BrokerConnection(address, self._settings)
            await connection.open()
            answer = await connection.ask(api_versions.API, api_versions.ApiVersionsRequest(), version=0)
            self._connections[address] = connection, {key.api_key: key.max_version for key in answer.api_keys}
        return self._connections[address]
