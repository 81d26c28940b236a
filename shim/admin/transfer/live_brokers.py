"""Connections to the brokers of a live cluster, for as long as a command takes."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

from protocol.api import Api
from protocol.messages import api_versions, metadata
from shim.config import HostPort, Settings
from shim.upstream.connection import BrokerConnection
from shim.upstream.errors import UpstreamError

Request = TypeVar("Request", bound=tuple[Any, ...])
Response = TypeVar("Response", bound=tuple[Any, ...])


class _Connected(NamedTuple):
    """``newest``: the newest version of each API."""

    connection: BrokerConnection
    newest: dict[int, int]


class LiveBrokers:
    """One connection to each broker that is asked, one request at a time. Everything raises UpstreamError."""

    def __init__(self, bootstrap: Sequence[HostPort], settings: Settings) -> None:
        self.cluster_id: str | None = None
        self.addresses: dict[int, HostPort] = {}
        """By node id."""
        self._bootstrap = bootstrap
        self._settings = settings
        self._connections: dict[HostPort, asyncio.Task[_Connected]] = {}
        """Those that are being opened among them: whoever gives up leaves that to the next one."""
        self._turns: defaultdict[HostPort, asyncio.Lock] = defaultdict(asyncio.Lock)

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
        for opening in self._connections.values():
            if not opening.done():
                opening.cancel()
            elif not opening.cancelled() and not opening.exception():
                opening.result().connection.close()

    async def ask(
        self, node_id: int, api: Api[Request, Response], request: Request, *, version: int | None = None
    ) -> Response:
        """By default in the newest version that both sides have."""
        return await self._ask_at(self._address(node_id), api, request, version)

    async def offers(self, node_id: int, api: Api[Any, Any]) -> bool:
        """Whether the broker has any version of it."""
        return api.key in await self._versions(self._address(node_id))

    async def newest(self, node_id: int, api: Api[Any, Any], *, at_least: int, at_most: int) -> int:
        """The newest version of these that the broker has."""
        address = self._address(node_id)
        found = min(at_most, (await self._versions(address)).get(api.key, -1))
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
        async with self._turns[address]:
            connection, _ = await self._connected(address)
            try:
                return await connection.ask(api, request, version=version)
            except BaseException:  # given up, too: what is read next would be the answer to this one
                connection.close()
                del self._connections[address]
                raise

    async def _versions(self, address: HostPort) -> dict[int, int]:
        """The newest of each API."""
        async with self._turns[address]:
            return (await self._connected(address)).newest

    async def _connected(self, address: HostPort) -> _Connected:
        opening = self._connections.get(address)
        if opening is None or (opening.done() and opening.exception()):
            opening = self._connections[address] = asyncio.create_task(self._open(address))
        await asyncio.wait([opening])
        return opening.result()

    async def _open(self, address: HostPort) -> _Connected:
        connection = BrokerConnection(address, self._settings)
        await connection.open()
        try:
            answer = await connection.ask(api_versions.API, api_versions.ApiVersionsRequest(), version=0)
        except BaseException:
            connection.close()
            raise
        return _Connected(connection, {key.api_key: key.max_version for key in answer.api_keys})
