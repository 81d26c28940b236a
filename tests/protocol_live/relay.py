"""A way to a broker on which every request is seen as the client wrote it, and responses can be changed.

Brokers write message sets anew before they keep them (offsets in them are absolute up to magic 0), so what a producer
wrote can be read on the way there only, and what a consumer is to read put in on the way back only.
"""

from __future__ import annotations

import socket
import socketserver
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from protocol.api import Api
from protocol.apis import APIS
from protocol.frames import FrameParser
from protocol.messages import find_coordinator, metadata, produce
from tests.wire import TIMEOUT_SECONDS, WireClient

HOST: Final = "127.0.0.1"
_LARGEST: Final = 1 << 24

Change = Callable[[Any], Any]
"""Of a response."""


class Produced(NamedTuple):
    """The records of one partition in one Produce request, as they came."""

    version: int
    records: bytes


class Relay:
    """One broker at a port of its own, in a `with` block. What tells clients where brokers are sends them here.

    `change` is applied to the responses of an API. Requests are passed on one by one, each after the answer to the one
    before; all of them are expected to have one.
    """

    def __init__(self, broker_port: int, change: tuple[Api[Any, Any], Change] | None = None) -> None:
        self.seen: list[bytes] = []
        self.failures: list[Exception] = []
        self._broker_port = broker_port
        self._clients: set[socket.socket] = set()
        self._changes: dict[int, Change] = {
            metadata.API.key: self._brokers_here,
            find_coordinator.API.key: self._coordinator_here,
        }
        if change is not None:
            api, function = change
            self._changes[api.key] = function
        relay = self

        class Connection(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                relay._clients.add(self.request)
                try:
                    relay._serve(self.request)
                except ConnectionError:
                    pass  # a client goes without a word
                except Exception as failure:
                    relay.failures.append(failure)
                finally:
                    relay._clients.discard(self.request)

        self._server = socketserver.ThreadingTCPServer((HOST, 0), Connection)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def produced(self) -> list[Produced]:
        """What clients produced so far, one partition each."""
        found = []
        for frame in list(self.seen):
            key, version = _key_and_version(frame)
            if key == produce.API.key:
                _, request = produce.API.parse_request(version, frame)
                (topic,) = request.topic_data
                (partition,) = topic.partition_data
                found.append(Produced(version, bytes(partition.records or b"")))
        return found

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends the connections that are left; then raises what went wrong in here."""
        self._server.shutdown()
        self._thread.join()
        for client in list(self._clients):
            with suppress(OSError):  # it has just gone
                client.shutdown(socket.SHUT_RDWR)
        self._server.server_close()
        if self.failures and error is None:
            raise self.failures[0]

    def _serve(self, client: socket.socket) -> None:
        parser = FrameParser(_LARGEST)
        client.settimeout(TIMEOUT_SECONDS)
        with WireClient(self._broker_port) as broker:
            while data := client.recv(1 << 16):
                for frame in parser.feed(data):
                    self.seen.append(frame)
                    broker.socket.sendall(struct.pack(">i", len(frame)) + frame)
                    client.sendall(self._answer(*_key_and_version(frame), broker.receive_frame()))

    def _answer(self, key: int, version: int, frame: bytes) -> bytes:
        change = self._changes.get(key)
        if change is None:
            return struct.pack(">i", len(frame)) + frame
        correlation_id, response = APIS[key].parse_response(version, frame)
        return APIS[key].response_frame(version, correlation_id, change(response))

    def _brokers_here(self, response: metadata.MetadataResponse) -> metadata.MetadataResponse:
        brokers = tuple(broker._replace(host=HOST, port=self.port) for broker in response.brokers)
        return response._replace(brokers=brokers)

    def _coordinator_here(self, response: find_coordinator.FindCoordinatorResponse) -> Any:
        return response if response.error_code else response._replace(host=HOST, port=self.port)


def _key_and_version(frame: bytes) -> tuple[int, int]:
    key, version = struct.unpack_from(">hh", frame)
    return key, version
