"""Who is accepted, who waits, who is turned away; and that it goes on after a lack of descriptors."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from shim.config import HostPort, Settings
from shim.net import accepting
from shim.net.accepting import Acceptor, addresses_of, listen
from shim.net.quotas import ConnectionQuotas, PerAddress
from tests.net.bench import HOST, settle
from tests.waiting import until


class Talk(asyncio.Protocol):
    """Says its number."""

    def __init__(self, place: Callable[[], None], number: int) -> None:
        self.place = place
        self.number = number
        self.transport: asyncio.Transport | None = None

    def connection_made(self, made: asyncio.BaseTransport) -> None:
        self.transport = transport = cast(asyncio.Transport, made)
        transport.write(bytes([self.number]))

    def connection_lost(self, exc: Exception | None) -> None:
        self.place()


class Port:
    def __init__(self, settings: Settings, overrides: dict[str, int]) -> None:
        self.everywhere = ConnectionQuotas(settings)
        self.quotas = self.everywhere.listener(settings, PerAddress(settings.max_connections_per_ip, overrides))
        self.made: list[Talk] = []
        self.acceptor: Acceptor

    def make(self, place: Callable[[], None]) -> Talk:
        self.made.append(Talk(place, len(self.made)))
        return self.made[-1]

    @property
    def number(self) -> int:
        return int(self.acceptor._sockets[0].getsockname()[1])


@asynccontextmanager
async def port(settings: Settings | None = None, **overrides: int) -> AsyncIterator[Port]:
    opened = Port(settings or Settings(), {name.replace("_", "."): most for name, most in overrides.items()})
    opened.acceptor = await listen(HostPort(HOST, 0), opened.make, opened.quotas)
    try:
        yield opened
    finally:
        opened.acceptor.close()
        for talk in opened.made:
            if talk.transport is not None:
                talk.transport.abort()
        await until(lambda: not opened.everywhere.whole.count)
        assert opened.everywhere.by_address == {}


class Client:
    def __init__(self, number: int, source: str = HOST) -> None:
        self.socket = socket.socket()
        self.socket.bind((source, 0))
        self.socket.setblocking(False)
        self._port = number

    async def connect(self) -> Client:
        await asyncio.get_running_loop().sock_connect(self.socket, (HOST, self._port))
        return self

    async def hears(self) -> bytes | None:
        """None: it is cut off."""
        try:
            async with asyncio.timeout(30):
                return await asyncio.get_running_loop().sock_recv(self.socket, 10) or None
        except ConnectionResetError:
            return None


async def test_clients_beyond_max_connections_wait_and_get_in_when_others_have_left(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with port(Settings(max_connections=2)) as opened:
        clients = [await Client(opened.number).connect() for _ in range(5)]
        assert [await client.hears() for client in clients[:2]] == [b"\0", b"\1"]
        assert await settle(lambda: len(opened.made)) == 2
        clients[0].socket.close()
        assert await clients[2].hears() == b"\2"
        assert await settle(lambda: len(opened.made)) == 3
        clients[3].socket.close()  # one that gives up while it waits
        clients[1].socket.close()
        clients[2].socket.close()
        assert await clients[4].hears() in (b"\3", b"\4")
        clients[4].socket.close()
    assert [r.levelno for r in caplog.records] == [logging.WARNING]
    assert caplog.messages[0].endswith("as there may be (max.connections, open files): new ones wait")


async def test_connections_are_as_a_brokers() -> None:
    async with port() as opened:
        client = await Client(opened.number).connect()
        assert await client.hears() == b"\0"
        transport = opened.made[0].transport
        assert transport is not None
        taken = transport.get_extra_info("socket")
        assert taken.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        client.socket.close()


async def test_an_address_that_has_its_maximum_is_cut_off_and_others_are_not(caplog: pytest.LogCaptureFixture) -> None:
    async with port(Settings(max_connections_per_ip=1), **{"127_0_0_5": 2}) as opened:
        heard = []
        clients = []
        for source in (HOST, HOST, HOST, "127.0.0.5", "127.0.0.5", "127.0.0.5"):
            clients.append(await Client(opened.number, source).connect())
            heard.append(await clients[-1].hears())
        assert heard == [b"\0", None, None, b"\1", b"\2", None]
        clients[0].socket.close()
        await until(lambda: opened.everywhere.whole.count == 2)
        clients.append(await Client(opened.number).connect())
        assert await clients[-1].hears() == b"\3"
        for client in clients:
            client.socket.close()
    refused = "client {}: connection refused: this address has max.connections.per.ip ({}) connections"
    assert caplog.messages == [refused.format(HOST, 1), refused.format("127.0.0.5", 2)]


async def test_no_more_are_accepted_in_a_second_than_the_rate_says() -> None:
    async with port(Settings(max_connection_creation_rate=20)) as opened:
        begun = asyncio.get_running_loop().time()
        clients = [await Client(opened.number).connect() for _ in range(40)]
        await until(lambda: len(opened.made) == 40)
        assert asyncio.get_running_loop().time() - begun >= 0.95
        for client in clients:
            client.socket.close()


class Short:
    """A listening socket of a system without descriptors."""

    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening
        self.tried = 0
        self.short = True

    def accept(self) -> Any:
        self.tried += 1
        if self.short:
            raise OSError(errno.EMFILE, "Too many open files")
        return self._listening.accept()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._listening, name)


async def test_without_descriptors_it_pauses_and_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(accepting, "RETRY_SECONDS", 0.05)
    async with port() as opened:
        opened.acceptor._stop()
        short = Short(opened.acceptor._sockets[0])
        opened.acceptor._sockets[0] = cast(socket.socket, short)
        opened.acceptor._go_on()
        client = await Client(opened.number).connect()
        await until(lambda: short.tried >= 2)
        short.short = False
        assert await client.hears() == b"\0"
        client.socket.close()
        number = opened.number
    assert caplog.messages == [f"port {number}: no connection can be accepted for now: Too many open files"]


async def test_without_descriptors_it_goes_on_as_soon_as_a_connection_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accepting, "RETRY_SECONDS", 3600.0)
    async with port() as opened:
        first = await Client(opened.number).connect()
        assert await first.hears() == b"\0"
        opened.acceptor._stop()
        short = Short(opened.acceptor._sockets[0])
        opened.acceptor._sockets[0] = cast(socket.socket, short)
        opened.acceptor._go_on()
        second = await Client(opened.number).connect()
        await until(lambda: short.tried == 1)
        for _ in range(100):
            await asyncio.sleep(0)
        assert short.tried == 1, "it spins"
        short.short = False
        first.socket.close()
        assert await second.hears() == b"\1"
        second.socket.close()


async def test_a_closed_port_leaves_no_socket_behind_in_whatever_it_was() -> None:
    opened = Port(Settings(), {})
    opened.acceptor = await listen(HostPort(HOST, 0), opened.make, opened.quotas)
    number = opened.number
    clients = [Client(number) for _ in range(3)]
    for client in clients:
        client.socket.connect_ex((HOST, number))
    opened.acceptor._accept(opened.acceptor._sockets[0])  # accepted, and not made: the loop has had no turn
    assert opened.everywhere.whole.count == 3
    opened.acceptor.close()
    await until(lambda: not opened.everywhere.whole.count)
    assert [await client.hears() for client in clients] == [None] * 3
    assert opened.made == []
    for client in clients:
        client.socket.close()
    with socket.socket() as late:
        assert late.connect_ex((HOST, number)) == errno.ECONNREFUSED


async def test_overrides_are_of_addresses_and_of_names() -> None:
    found = await addresses_of((("127.0.0.9", 3), ("localhost", 5)))
    assert found["127.0.0.9"] == 3
    assert found.get("127.0.0.1", found.get("::1")) == 5
