"""A client session between two loop-local sockets: a scripted client, and a broker that does what it is told."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, cast

from shim.api import Services
from shim.config import HostPort, Settings
from shim.net.session import ClientSession
from shim.net.sessions import Sessions
from tests.following.believed import any_topic
from tests.migration.placed import EVERYTHING_SERVED, NOWHERE_ELSE
from tests.security.authorizers import NO_AUTHORIZER
from tests.waiting import until

HOST = "127.0.0.1"
WAIT_SECONDS = 30.0


def request(api_key: int, version: int, correlation_id: int, body: bytes = b"") -> bytes:
    """A request's frame without a client id."""
    return struct.pack(">ihhih", 10 + len(body), api_key, version, correlation_id, -1) + body


def fetch(correlation_id: int, size: int = 4) -> bytes:
    return request(1, 4, correlation_id, bytes(size))


def heartbeat(correlation_id: int) -> bytes:
    return request(12, 0, correlation_id, struct.pack(">h1sih1s", 1, b"g", 1, 1, b"m"))


def produce(correlation_id: int, acks: int, *, version: int = 3, size: int = 4) -> bytes:
    return request(0, version, correlation_id, struct.pack(">hh", -1, acks) + bytes(size))


def response(correlation_id: int, size: int = 4) -> bytes:
    return struct.pack(">ii", 4 + size, correlation_id) + bytes([correlation_id % 251]) * size


async def settle(number: Callable[[], int]) -> int:
    """The number when it has not changed for so many turns of the loop: for what must not go on by itself. All of it is
    in this process, and what is written to a socket is there at once."""
    same, last = 0, number()
    while same < 30:
        await asyncio.sleep(0.001)
        same, last = (same + 1 if number() == last else 0), number()
    return last


class BrokerConnection(asyncio.Protocol):
    """Cuts what comes into requests and, unless told not to, answers each with ``response(correlation id)``."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._bytes = bytearray()
        self.requests: list[bytes] = []
        self.received = 0
        self.full = False
        self.lost = False

    def connection_made(self, made: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, made)
        self._broker.connections.append(self)
        if not self._broker.reads:  # soon: uvloop does not hear it from here
            asyncio.get_running_loop().call_soon(self.transport.pause_reading)

    def data_received(self, data: bytes) -> None:
        self.received += len(data)
        self._bytes += data
        position = 0
        while len(self._bytes) - position >= 4:
            end = position + 4 + int.from_bytes(self._bytes[position : position + 4], "big")
            if end > len(self._bytes):
                break
            self.requests.append(bytes(self._bytes[position:end]))
            position = end
            if self._broker.answers:
                self.respond(int.from_bytes(self.requests[-1][8:12], "big", signed=True))
        del self._bytes[:position]

    def respond(self, correlation_id: int, size: int = 4) -> None:
        self.transport.write(response(correlation_id, size))

    def pause_writing(self) -> None:
        self.full = True

    def resume_writing(self) -> None:
        self.full = False

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True


class Broker:
    def __init__(self) -> None:
        self.answers = True
        self.reads = True
        self.connections: list[BrokerConnection] = []

    async def requests(self, count: int) -> list[bytes]:
        """The requests on the newest connection when there are ``count`` of them."""
        await until(lambda: bool(self.connections) and len(self.connections[-1].requests) >= count)
        return self.connections[-1].requests


class FakeRuntime:
    """Parks every request that is to be decided; ``decide`` is called with each."""

    def __init__(self) -> None:
        self.parked: list[Any] = []
        self.decide: Callable[[Any], None] = lambda call: None

    def partition_of(self, group_id: str) -> int:
        return 0

    def submit(self, partition: int, operation: object, call: Any, *, after_flight: bool = True) -> None:
        self.parked.append(call)
        self.decide(call)


class Unusable:
    """Whatever is asked of it, it fails with an error that is the shim's own."""

    def __getattr__(self, name: str) -> Any:
        raise ValueError("a bug")


class Client(NamedTuple):
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def receive(self, correlation_id: int, size: int = 4) -> None:
        """The next response is ``response(correlation_id, size)``."""
        wanted = response(correlation_id, size)
        async with asyncio.timeout(WAIT_SECONDS):
            assert await self.reader.readexactly(len(wanted)) == wanted

    async def ended(self) -> bytes:
        """What still comes before the connection is closed."""
        async with asyncio.timeout(WAIT_SECONDS):
            return await self.reader.read()


class Bench:
    def __init__(self, broker: Broker, addresses: list[HostPort]) -> None:
        self.broker = broker
        self.addresses = addresses
        self.runtime = FakeRuntime()
        self.sessions = Sessions()
        self.settings = Settings()
        self.made: list[ClientSession] = []
        unusable = cast(Any, Unusable())
        self.services = Services(
            cast(Any, self.runtime),
            unusable,
            unusable,
            {},
            unusable,
            any_topic(),
            NO_AUTHORIZER,
            unusable,
            EVERYTHING_SERVED,
            NOWHERE_ELSE,
        )
        self.port = 0
        self._clients: list[Client] = []

    def session(self) -> ClientSession:
        session = ClientSession(self.services, self.settings, None, lambda: self.addresses, self.sessions)
        self.made.append(session)
        return session

    async def client(self) -> Client:
        """One that holds little of what it has not read."""
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, (HOST, self.port))
        client = Client(*await asyncio.open_connection(sock=sock, limit=1 << 16))
        self._clients.append(client)
        return client

    @property
    def buffered(self) -> int:
        """Bytes that the shim holds for the newest client."""
        transport = self.made[-1]._transport
        return transport.get_write_buffer_size() if transport is not None else 0

    def close(self) -> None:
        self.sessions.abort()
        for client in self._clients:
            client.writer.transport.abort()
        for connection in self.broker.connections:
            connection.transport.abort()


@asynccontextmanager
async def bench() -> AsyncIterator[Bench]:
    loop = asyncio.get_running_loop()
    broker = Broker()
    behind = await loop.create_server(lambda: BrokerConnection(broker), HOST, 0)
    made = Bench(broker, [HostPort(HOST, behind.sockets[0].getsockname()[1])])
    front = await loop.create_server(made.session, HOST, 0)
    made.port = front.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        front.close()
        behind.close()
        made.close()
        await until(lambda: not len(made.sessions) and all(c.lost for c in broker.connections))
