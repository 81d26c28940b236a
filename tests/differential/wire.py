"""Connections to a coordinator: requests of any client id, answers that may or may not be there yet."""

from __future__ import annotations

import select
import socket
from typing import Any, TypeVar

from protocol.api import Api
from protocol.frames import FrameParser
from protocol.messages import api_versions

Request = TypeVar("Request", bound=tuple[Any, ...])
Response = TypeVar("Response", bound=tuple[Any, ...])

ANSWER_TIMEOUT_S = 30.0
_LARGEST = 1 << 26
_READ = 1 << 16


class NoAnswer(Exception):
    """A request that is always answered at once was not."""


class Connection:
    """One connection with at most one request on its way: brokers take no second one before they have answered.

    It has been answered once when it is made: one that a server has still to accept may be read later than another on
    which something was sent after it.
    """

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port), timeout=ANSWER_TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._parser = FrameParser(_LARGEST)
        self._last = 0
        try:
            self.send(api_versions.API, 3, None, api_versions.ApiVersionsRequest("tests", "1"))
            self.receive(api_versions.API, 3)
        except (OSError, NoAnswer):
            self.close()
            raise

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, api: Api[Request, Any], version: int, client_id: str | None, request: Request) -> None:
        self._last += 1
        self._socket.sendall(api.request_frame(version, self._last, client_id, request))

    def receive(self, api: Api[Any, Response], version: int) -> Response:
        """The answer to the last request. Raises NoAnswer."""
        try:
            while not (frames := self._parser.feed(data := self._socket.recv(_READ))):
                if not data:
                    raise NoAnswer(f"{api.name} {version}: the connection was closed")
        except (TimeoutError, ConnectionError) as error:
            raise NoAnswer(f"{api.name} {version}: {error}") from error
        (frame,) = frames
        correlation_id, response = api.parse_response(version, frame)
        assert correlation_id == self._last
        return response

    def close(self) -> None:
        self._socket.close()


def ready(connections: list[Connection], timeout_s: float = 0.0) -> set[Connection]:
    """Those at which something can be read."""
    poll = select.poll()
    by_number = {connection.fileno(): connection for connection in connections}
    for number in by_number:
        poll.register(number, select.POLLIN)
    return {by_number[number] for number, _ in poll.poll(timeout_s * 1000)}
