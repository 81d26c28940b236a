"""One request and its response at a time, over a socket."""

from __future__ import annotations

import socket
from typing import Any, TypeVar

from protocol.api import Api

Request = TypeVar("Request", bound=tuple[Any, ...])
Response = TypeVar("Response", bound=tuple[Any, ...])


class Connection:
    """Whatever is raised, the connection is of no more use then."""

    def __init__(self, connected: socket.socket, client_id: str) -> None:
        self._socket = connected
        self._client_id = client_id
        self._last = 0

    def ask(self, api: Api[Request, Response], version: int, request: Request) -> Response:
        """Raises OSError (TimeoutError, ConnectionError) and :class:`protocol.errors.DecodeError`."""
        self._last += 1
        self._socket.sendall(api.request_frame(version, self._last, self._client_id, request))
        size = int.from_bytes(self._read(4), "big")
        correlation_id, response = api.parse_response(version, self._read(size))
        if correlation_id != self._last:
            raise ConnectionError(f"response {correlation_id} to request {self._last}")
        return response

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = self._socket.recv(size - len(data))
            if not piece:
                raise ConnectionError(f"the connection ended after {len(data)} of {size} bytes")
            data += piece
        return bytes(data)

    def close(self) -> None:
        self._socket.close()
