"""A client that is nothing but the wire: requests out, responses in, both by our own protocol package."""

from __future__ import annotations

import socket
import ssl
import struct
from types import TracebackType
from typing import Any, Self, TypeVar

from protocol.api import Api

Request = TypeVar("Request", bound=tuple[Any, ...])
Response = TypeVar("Response", bound=tuple[Any, ...])

TIMEOUT_SECONDS = 30.0


class WireClient:
    """One connection, of TLS with a `context`. Raises TimeoutError where an answer does not come, ConnectionError where
    the other side ends.
    """

    def __init__(
        self, port: int, host: str = "127.0.0.1", client_id: str = "wire", context: ssl.SSLContext | None = None
    ) -> None:
        self.socket = socket.create_connection((host, port), timeout=TIMEOUT_SECONDS)
        if context is not None:
            self.socket = context.wrap_socket(self.socket, server_hostname=host)
        self._client_id = client_id
        self._last = 0

    def send(self, api: Api[Request, Any], version: int, request: Request) -> int:
        """Gives the correlation id."""
        self._last += 1
        self.socket.sendall(api.request_frame(version, self._last, self._client_id, request))
        return self._last

    def receive(self, api: Api[Any, Response], version: int) -> tuple[int, Response]:
        """The next response, which must be to a request of this API and version: its correlation id and its body."""
        return api.parse_response(version, self.receive_frame())

    def ask(self, api: Api[Request, Response], version: int, request: Request) -> Response:
        sent = self.send(api, version, request)
        correlation_id, response = self.receive(api, version)
        assert correlation_id == sent
        return response

    def receive_frame(self) -> bytes:
        """The next response, without its size."""
        (size,) = struct.unpack(">i", self._read(4))
        return self._read(size)

    def ended(self) -> bool:
        """Wait for the other side to end the connection; False when it sends something instead."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                raise ConnectionError(f"ended after {len(data)} of {size} bytes")
            data += piece
        return bytes(data)

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
