"""The shim's own questions to a broker: an answer that is not the one asked for is never taken."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from functools import partial

import pytest

from protocol.messages import metadata
from shim.config import HostPort, Settings, parse_host_port
from shim.demo.parts import Broker
from shim.upstream.connection import MAX_RESPONSE_BYTES, BrokerConnection
from shim.upstream.errors import UpstreamError, reason_of
from tests.upstream.scripted_broker import scripted_broker

SETTINGS = Settings(request_timeout_ms=3000)
ASKED = metadata.MetadataRequest(topics=())


def of_size(size: int) -> Callable[[bytes], bytes]:
    return lambda frame: struct.pack(">i", size) + frame[4:]


async def test_what_the_broker_answers() -> None:
    async with scripted_broker() as broker:
        connection = BrokerConnection(broker.address, SETTINGS)
        await connection.open()
        answer = await connection.ask(metadata.API, ASKED)
        connection.close()
    assert [(b.node_id, HostPort(b.host, b.port)) for b in answer.brokers] == [(1, broker.address)]


async def test_who_gives_up_while_it_opens_leaves_nothing_open() -> None:
    asked, closed = asyncio.Event(), asyncio.Event()

    async def hangs(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(4)
        asked.set()
        await reader.read(-1)  # to the end
        closed.set()
        writer.close()

    server = await asyncio.start_server(hangs, "127.0.0.1", 0)
    connection = BrokerConnection(HostPort("127.0.0.1", server.sockets[0].getsockname()[1]), SETTINGS)
    opening = asyncio.create_task(connection.open())
    try:
        await asked.wait()
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        async with asyncio.timeout(10.0):
            await closed.wait()
    finally:
        connection.close()
        server.close()


async def test_a_connection_to_itself_is_a_refused_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody listens at the port of a broker that was stopped, and the system gives that port to who connects."""
    with socket.create_server(("127.0.0.1", 0)) as stopped:
        address = HostPort(*stopped.getsockname())
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "create_connection", partial(loop.create_connection, local_addr=address))
    connection = BrokerConnection(address, SETTINGS)
    for _ in range(2):  # it has left nothing at that port
        with pytest.raises(UpstreamError) as refused:
            await connection.open()
        assert str(refused.value) == f"{address}: Connection refused"


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        pytest.param(lambda f: f[:4] + struct.pack(">i", -7) + f[8:], r"answered -7 instead of \d", id="another's"),
        pytest.param(of_size(MAX_RESPONSE_BYTES + 1), "a response of 268435457 bytes to Metadata", id="too large"),
        pytest.param(of_size(3), "a response of 3 bytes to Metadata", id="too small"),
        pytest.param(of_size(-1), "a response of -1 bytes to Metadata", id="negative"),
        pytest.param(lambda _: struct.pack(">iih", 6, 2, 0), "Metadata response: .* at byte", id="not the schema"),
        pytest.param(lambda f: f[:-1], "Metadata: timed out", id="cut off"),
    ],
)
async def test_an_answer_that_cannot_be_right_is_an_error(spoil: Callable[[bytes], bytes], words: str) -> None:
    settings = Settings(request_timeout_ms=1_000 if "timed out" in words else 30_000)
    async with scripted_broker() as broker:
        broker.spoil = spoil
        connection = BrokerConnection(broker.address, settings)
        await connection.open()
        try:
            with pytest.raises(UpstreamError, match=words):
                await connection.ask(metadata.API, ASKED)
        finally:
            connection.close()


async def test_an_http_server_is_named() -> None:
    async def refuses(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(4)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(refuses, "127.0.0.1", 0) as server:
        address = HostPort(*server.sockets[0].getsockname())
        with pytest.raises(UpstreamError) as refused:
            await BrokerConnection(address, SETTINGS).open()
    assert str(refused.value) == f"{address}: it speaks HTTP there, so it is no broker's port"


async def test_a_controllers_port_is_guessed(broker: Broker) -> None:
    connection = BrokerConnection(parse_host_port(broker.quorum.controller), SETTINGS)
    await connection.open()
    try:
        with pytest.raises(UpstreamError, match="no common version of Metadata: it may be a KRaft controller's port"):
            await connection.ask(metadata.API, ASKED)
    finally:
        connection.close()


@pytest.mark.parametrize(
    "address",
    [
        pytest.param(HostPort("a..b", 9092), id="empty label"),
        pytest.param(HostPort("x" * 70, 9092), id="long label"),
        pytest.param(HostPort("a\0b", 9092), id="NUL"),
        pytest.param(HostPort("127.0.0.1", 70_000), id="no port"),
    ],
)
async def test_an_address_that_cannot_be_one_is_a_broker_that_cannot_be_reached(address: HostPort) -> None:
    with pytest.raises(UpstreamError, match="not an address that can be connected to"):
        await BrokerConnection(address, SETTINGS).open()


def test_reasons_are_the_systems_words() -> None:
    assert reason_of(ConnectionRefusedError(111, "Connect call failed ('127.0.0.1', 1)")) == "Connection refused"
    assert reason_of(TimeoutError()) == "timed out"
    unknown = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    assert reason_of(unknown) == "Name or service not known"
    assert reason_of(OSError("Multiple exceptions: …")) == "Multiple exceptions: …"


async def test_what_was_lost_can_be_broken_off() -> None:
    async with scripted_broker() as broker:
        connection = BrokerConnection(broker.address, SETTINGS)
        await connection.open()
        assert connection._writer is not None
        connection._writer.transport.abort()  # as where the network has reset it
        for _ in range(10):  # the loop closes the socket when it comes round
            await asyncio.sleep(0)
        connection.break_off()
