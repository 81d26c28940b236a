"""Connections to the brokers of one cluster, or to the shim's ports for them: one request at a time, over sockets.

A task has its own, and so has the driver.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from pipeline.audit.words import CannotRead
from protocol.api import Api
from protocol.errors import DecodeError
from protocol.messages import api_versions, metadata
from shim.config import HostPort

_TIMEOUT_SECONDS: Final = 30.0
_CONNECT_SECONDS: Final = 10.0
_LONGEST_ANSWER: Final = 1 << 30
_CLIENT_ID: Final = "offset-pipeline-audit"
_METADATA: Final = (4, 12)
"""Since 4 a topic that is asked for is not made; 13 has an error that is for clients that stay."""

Request = TypeVar("Request", bound=tuple[Any, ...])
Response = TypeVar("Response", bound=tuple[Any, ...])


class Connection:
    """Whatever :meth:`ask` raises, the connection is of no more use then."""

    def __init__(self, address: HostPort) -> None:
        """Raises :class:`CannotRead`."""
        self._address = address
        self._last = 0
        try:
            self._socket = socket.create_connection(address, _CONNECT_SECONDS)
        except OSError as error:
            raise CannotRead(f"no broker answers at {address}: {_reason(error)}") from error
        self._socket.settimeout(_TIMEOUT_SECONDS)
        try:
            answer = self.ask(api_versions.API, 0, api_versions.ApiVersionsRequest())
        except BaseException:
            self.close()
            raise
        self._versions = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}

    def newest(self, api: Api[Any, Any], between: tuple[int, int]) -> int:
        """The newest version of these that the broker has. Raises :class:`CannotRead`."""
        oldest, newest = self._versions.get(api.key, (0, -1))
        found = min(newest, between[1])
        if found < max(oldest, between[0]):
            raise CannotRead(f"{self._address}: it has none of the versions {between[0]} to {between[1]} of {api.name}")
        return found

    def ask(self, api: Api[Request, Response], version: int, request: Request) -> Response:
        """Raises :class:`CannotRead`."""
        self._last += 1
        try:
            self._socket.sendall(api.request_frame(version, self._last, _CLIENT_ID, request))
            size = int.from_bytes(self._read(4), "big", signed=True)
            if not 4 <= size <= _LONGEST_ANSWER:
                raise CannotRead(f"{self._address}: what answers there is no broker, or one that wants TLS")
            correlation_id, response = api.parse_response(version, self._read(size))
        except (OSError, DecodeError) as error:
            raise CannotRead(f"{self._address}: {api.name}: {_reason(error)}") from error
        if correlation_id != self._last:
            raise CannotRead(f"{self._address}: {api.name}: an answer to another request")
        return response

    def _read(self, size: int) -> memoryview:
        data = bytearray()
        while len(data) < size:
            piece = self._socket.recv(min(size - len(data), 1 << 20))
            if not piece:
                raise ConnectionError("the connection was closed")
            data += piece
        return memoryview(bytes(data))

    def close(self) -> None:
        self._socket.close()


class Brokers:
    """One connection to each broker that is asked. Everything raises :class:`CannotRead`, which names ``what``."""

    def __init__(self, what: str, bootstrap: Sequence[HostPort]) -> None:
        """``what``: "the shim", "the cluster"."""
        self._what = what
        self._bootstrap = bootstrap
        self._nodes: dict[int, HostPort] = {}
        self._connections: dict[HostPort, Connection] = {}

    def __enter__(self) -> Self:
        self.metadata(())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in self._connections.values():
            each.close()
        self._connections.clear()

    @property
    def nodes(self) -> Sequence[int]:
        return sorted(self._nodes)

    def metadata(self, topics: Sequence[str]) -> metadata.MetadataResponse:
        """Of these topics; a topic that there is not is not made."""
        wanted = tuple(metadata.MetadataRequestTopic(name=each) for each in topics)
        request = metadata.MetadataRequest(wanted, allow_auto_topic_creation=False)
        failures = []
        for address in self._bootstrap:
            try:
                answer = self._ask_at(address, metadata.API, _METADATA, request)
            except CannotRead as error:
                failures.append(str(error))
                continue
            self._nodes = {each.node_id: HostPort(each.host, each.port) for each in answer.brokers}
            return answer
        raise CannotRead(f"{self._what}: {'; '.join(failures)}")

    def newest(self, node_id: int, api: Api[Any, Any], between: tuple[int, int]) -> int:
        return self._connected(self._address(node_id)).newest(api, between)

    def ask(self, node_id: int, api: Api[Request, Response], between: tuple[int, int], request: Request) -> Response:
        """In the newest version of these that the broker has."""
        try:
            return self._ask_at(self._address(node_id), api, between, request)
        except CannotRead as error:
            raise CannotRead(f"{self._what}: {error}") from error

    def ask_any(self, api: Api[Request, Response], between: tuple[int, int], request: Request) -> Response:
        """Some broker: for what each of them knows."""
        return self.ask(self.nodes[0], api, between, request)

    def _address(self, node_id: int) -> HostPort:
        if node_id not in self._nodes:
            raise CannotRead(f"{self._what}: broker {node_id} is not in its metadata")
        return self._nodes[node_id]

    def _ask_at(
        self, address: HostPort, api: Api[Request, Response], between: tuple[int, int], request: Request
    ) -> Response:
        connection = self._connected(address)
        version = connection.newest(api, between)
        try:
            return connection.ask(api, version, request)
        except CannotRead:
            connection.close()
            del self._connections[address]
            raise

    def _connected(self, address: HostPort) -> Connection:
        found = self._connections.get(address)
        if found is None:
            found = self._connections[address] = Connection(address)
        return found


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return (error.strerror if isinstance(error, OSError) and error.strerror else str(error)) or type(error).__name__
