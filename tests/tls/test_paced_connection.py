"""A server's connection whose handshake waits for its turn: nothing of what comes is lost, and who goes leaves."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable

import pytest

from shim.config import HostPort, Settings
from shim.tls import HandshakePace, TlsContext, context_for_clients, pace, tls_server
from tests.certificates import Authority
from tests.tls.test_stream import VERSIONS, client_context

PIECES = (b"with the end of the handshake", b"", bytes(range(256)) * 2_000)


class App(asyncio.Protocol):
    def __init__(self) -> None:
        self.made = asyncio.get_running_loop().create_future()
        self.lost = asyncio.get_running_loop().create_future()
        self.got = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.made.set_result(transport)

    def data_received(self, data: bytes) -> None:
        self.got += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set_result(exc)


class Watched(HandshakePace):
    def __init__(self) -> None:
        super().__init__()
        self.taken, self.left = asyncio.Event(), list[Callable[[], None]]()

    def take(self, step: Callable[[], None]) -> None:
        super().take(step)
        self.taken.set()

    def leave(self, step: Callable[[], None]) -> None:
        super().leave(step)
        self.left.append(step)


def refused(_: HostPort, reason: str) -> None:
    raise AssertionError(reason)


@pytest.fixture
def context(authority: Authority) -> TlsContext:
    return context_for_clients("a listener", Settings(ssl_keystore_location=str(authority.keystore("paced.pem"))))


async def hear(tls: TlsContext, app: App, paced: HandshakePace) -> tuple[asyncio.Server, int]:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: tls_server(tls, app, refused, paced), "127.0.0.1", 0)
    return server, server.sockets[0].getsockname()[1]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("most", [1, 100, 1 << 20])
async def test_what_comes_with_the_end_of_the_handshake_is_all_there(
    authority: Authority, context: TlsContext, version: str, most: int
) -> None:
    app, incoming, outgoing = App(), ssl.MemoryBIO(), ssl.MemoryBIO()
    server, port = await hear(context, app, HandshakePace())
    client = client_context(authority.truststore)
    client.minimum_version = client.maximum_version = VERSIONS[version]
    end = client.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    async with server, asyncio.timeout(30):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while True:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                hello = outgoing.read()
                for at in range(0, len(hello), most):
                    writer.write(hello[at : at + most])
                    await asyncio.sleep(0)
                incoming.write(await reader.read(1 << 16))
            else:
                break
        for piece in PIECES:
            for at in range(0, len(piece), 10_000):
                end.write(piece[at : at + 10_000])
        writer.write(outgoing.read())  # the end of the handshake is the first of it
        writer.write_eof()
        await app.lost
        writer.close()
    assert bytes(app.got) == b"".join(PIECES)


async def test_who_goes_while_it_waits_leaves_nothing_there(
    authority: Authority, context: TlsContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever begins handshakes without end is closed for the next one each time, and there would be one more each."""
    monkeypatch.setattr(pace, "_AT_ONCE_SECONDS", -1e6)  # nobody's turn comes
    app, paced = App(), Watched()
    server, port = await hear(context, app, paced)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        client_context(authority.truststore).wrap_bio(incoming, outgoing, server_hostname="127.0.0.1").do_handshake()
    async with server, asyncio.timeout(30):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(outgoing.read())
        await paced.taken.wait()
        (await app.made).abort()
        await app.lost
        writer.close()
    assert len(paced.left) == 1
