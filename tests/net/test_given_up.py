"""A connection to a broker that is given up while it is opened, at whichever turn of the loop: it is closed, and that
does not wait for a collector, which may never come (shim.main)."""

from __future__ import annotations

import asyncio
import gc
import itertools
import struct
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Final, cast

import pytest

from protocol.messages import metadata
from shim.config import HostPort, Settings
from shim.tls import TlsContext, context_for_brokers, context_for_clients, dial, tls_server
from shim.upstream import BrokerLink
from shim.upstream.connection import BrokerConnection
from shim.upstream.errors import UpstreamError
from shim.upstream.first_answer import first_answer
from shim.upstream.kept_connection import KeptConnection
from tests.certificates import Authority
from tests.upstream.scripted_broker import METADATA_VERSION, ScriptedBroker
from tests.waiting import until

MOST_TURNS: Final = 10_000  # some dozens open one


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("given-up"))


@pytest.fixture(autouse=True)
def nothing_is_collected() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


class Broker(ScriptedBroker):
    """Which connections have come to it, by their ports, and which of them are open."""

    def __init__(self, tls: TlsContext | None) -> None:
        super().__init__()
        self._tls = tls
        self.came: set[int] = set()
        self.open: set[int] = set()

    def connection(self) -> asyncio.Protocol:
        end = End(self)
        return end if self._tls is None else tls_server(self._tls, end, lambda *_: None)

    def settled(self, last: int) -> bool:
        """``last``: of the last one that has come; those before have, too."""
        return last in self.came and self.open <= {last}


class End(asyncio.Protocol):
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._data = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._port: int = transport.get_extra_info("peername")[1]
        self._broker.came.add(self._port)
        self._broker.open.add(self._port)

    def data_received(self, data: bytes) -> None:
        self._data += data
        while len(self._data) >= 4:
            end = 4 + int.from_bytes(self._data[:4])
            if len(self._data) < end:
                return
            key, _, correlation_id = struct.unpack_from(">hhi", self._data, 4)
            del self._data[:end]
            self._transport.write(self._broker._answer(key, correlation_id))

    def connection_lost(self, exc: Exception | None) -> None:
        self._broker.open.remove(self._port)


@asynccontextmanager
async def broker_of(authority: Authority | None) -> AsyncIterator[tuple[Broker, Settings]]:
    tls, settings = None, Settings()
    if authority is not None:
        tls = context_for_clients(
            "a broker", Settings(ssl_keystore_location=str(authority.keystore("broker.pem", "127.0.0.1")))
        )
        settings = Settings(
            upstream_security_protocol="SSL", upstream_ssl_truststore_location=str(authority.truststore)
        )
    broker = Broker(tls)
    server = await asyncio.get_running_loop().create_server(broker.connection, "127.0.0.1", 0)
    broker.address = HostPort("127.0.0.1", server.sockets[0].getsockname()[1])
    broker.brokers = {1: broker.address}
    try:
        yield broker, settings
    finally:
        server.close()


class Opening:
    """``task`` ends when it is open, and with it what it is for; ``end`` is for who has it then, or gives it up."""

    task: asyncio.Task[object]

    def __init__(self, address: HostPort, settings: Settings) -> None: ...

    def end(self) -> None: ...


class Asked(Opening):
    def __init__(self, address: HostPort, settings: Settings) -> None:
        self._connection = BrokerConnection(address, settings)
        self.task = asyncio.create_task(self._connection.open())

    def end(self) -> None:
        if not self.task.done():
            self.task.cancel()  # who gives it up need not close it
        else:
            self._connection.close()


class Kept(Opening):
    def __init__(self, address: HostPort, settings: Settings) -> None:
        self._kept = KeptConnection(address, settings)
        self.task = asyncio.create_task(self._ask())

    async def _ask(self) -> None:
        request = metadata.MetadataRequest(topics=None)
        with suppress(UpstreamError):  # it was ended
            await self._kept.ask(metadata.API, request, at_least=METADATA_VERSION, at_most=METADATA_VERSION)

    def end(self) -> None:
        self._kept.end()


class KeptGivenUp(Kept):
    """By who asks, and a moment later by who keeps it."""

    def end(self) -> None:
        self.task.cancel()
        asyncio.get_running_loop().call_soon(self._kept.end)


class OneOfTwo(Opening):
    """The other one answers first."""

    def __init__(self, address: HostPort, settings: Settings) -> None:
        self._settings = settings
        self._other = asyncio.get_running_loop().create_future()
        self.task = asyncio.create_task(first_answer([address, HostPort("127.0.0.1", 0)], self._ask, 0.0))

    async def _ask(self, address: HostPort) -> None:
        if not address.port:
            await self._other
            return
        connection = BrokerConnection(address, self._settings)
        try:
            await connection.open()
        finally:
            connection.close()

    def end(self) -> None:
        if not self._other.done():  # as it is where this one has answered
            self._other.set_result(None)


class Linked(Opening):
    def __init__(self, address: HostPort, settings: Settings) -> None:
        self._link = BrokerLink(self, context_for_brokers(settings))
        self._link.connect([address], 30.0)
        assert self._link._connecting is not None
        self.task = cast("asyncio.Task[object]", self._link._connecting)

    def link_received(self, data: bytes | memoryview) -> None:
        raise AssertionError(bytes(data))

    def link_writable(self, writable: bool) -> None: ...

    def link_lost(self, reason: str, *, orderly: bool) -> None:
        raise AssertionError(reason)

    def end(self) -> None:
        self._link.close()


class Dialled(Opening):
    """As whoever forwards to another shim."""

    def __init__(self, address: HostPort, settings: Settings) -> None:
        self._transport: asyncio.BaseTransport | None = None
        self.task = asyncio.create_task(dial(lambda: Dialling(self), address, context_for_brokers(settings)))

    def made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def end(self) -> None:
        if not self.task.done():
            self.task.cancel()
        else:
            assert self._transport is not None
            self._transport.close()


class Dialling(asyncio.Protocol):
    def __init__(self, opening: Dialled) -> None:
        self._opening = opening

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._opening.made(transport)


@pytest.mark.parametrize("secured", [False, True], ids=["plaintext", "tls"])
@pytest.mark.parametrize("kind", [Asked, Kept, KeptGivenUp, OneOfTwo, Linked, Dialled])
async def test_at_any_turn(authority: Authority, secured: bool, kind: Callable[[HostPort, Settings], Opening]) -> None:
    async with broker_of(authority if secured else None) as (broker, settings):
        for turns in itertools.count():
            assert turns < MOST_TURNS
            opening = kind(broker.address, settings)
            for _ in range(turns):
                await asyncio.sleep(0)
            was_open = opening.task.done()
            opening.end()
            await asyncio.wait([opening.task])
            if not opening.task.cancelled():
                opening.task.result()
            # Who comes after it is accepted after it.
            _, last = await asyncio.open_connection(*broker.address)
            await until(lambda: broker.settled(last.get_extra_info("sockname")[1]))  # noqa: B023
            last.close()
            await last.wait_closed()
            if was_open:
                break
        assert turns > 3
