"""A client session behind TLS, and its broker, too: the other ends are Python's own TLS, or raw sockets."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from shim.tls import connection as tls_connection
from tests.certificates import Authority
from tests.net.bench import HOST, Client, fetch, response, settle
from tests.net.tls_bench import tls_bench, trusting
from tests.waiting import until

MIB = 1 << 20
PIECE = 1 << 16


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_requests_and_responses(authority: Authority, version: ssl.TLSVersion) -> None:
    async with tls_bench(authority) as shim:
        context = trusting(authority)
        context.minimum_version = context.maximum_version = version
        client = await shim.tls_client(context)
        for size in (4, 100_000, 3):
            client.writer.write(fetch(size, size))
            requests = await shim.broker.requests(1)
            await client.receive(size)
            assert requests[-1] == fetch(size, size)
        client.writer.write(b"".join(fetch(i) for i in range(200)))
        for i in range(200):
            await client.receive(i)


async def test_a_large_response_both_ways_to_one_who_reads_slowly(authority: Authority) -> None:
    """Nobody in between takes more of it than the client does."""
    async with tls_bench(authority) as shim:
        client = await shim.tls_client()
        shim.broker.answers = False
        client.writer.write(fetch(7))
        await shim.broker.requests(1)
        (behind,) = shim.broker.connections
        whole = response(7, 64 * MIB)
        sent = 0

        async def answer() -> None:
            nonlocal sent
            for start in range(0, len(whole), PIECE):
                behind.transport.write(whole[start : start + PIECE])
                sent += PIECE
                await until(lambda: not behind.full)

        answering = asyncio.create_task(answer())
        assert 0 < await settle(lambda: sent) < 16 * MIB
        assert behind.full
        assert 0 < shim.buffered < 2 * MIB
        async with asyncio.timeout(60):
            assert await client.reader.readexactly(len(whole)) == whole
        await answering
        client.writer.write(fetch(8))
        await shim.broker.requests(2)
        behind.respond(8)
        await client.receive(8)


async def test_a_large_request_both_ways_to_one_who_reads_slowly(authority: Authority) -> None:
    async with tls_bench(authority) as shim:
        shim.broker.reads = False
        client = await shim.tls_client()
        whole = fetch(7, 24 * MIB)
        sent = 0

        async def ask() -> None:
            nonlocal sent
            for start in range(0, len(whole), PIECE):
                client.writer.write(whole[start : start + PIECE])
                sent += PIECE
                await client.writer.drain()

        asking = asyncio.create_task(ask())
        await until(lambda: bool(shim.broker.connections))
        assert 0 < await settle(lambda: sent) < 16 * MIB
        (behind,) = shim.broker.connections
        behind.transport.resume_reading()
        async with asyncio.timeout(60):
            assert await client.reader.readexactly(12) == response(7)
        await asking
        assert behind.requests == [whole]


@pytest.mark.parametrize(
    ("first", "words"),
    [
        (fetch(1), "a plaintext request on a TLS port"),
        (b"GET / HTTP/1.1\r\n\r\n", "an HTTP request on a TLS port"),
        (b"\x16\x03\x01" + bytes(100), "TLS handshake: "),
    ],
)
async def test_what_is_no_tls_is_closed_with_one_line_and_no_other(
    authority: Authority, caplog: pytest.LogCaptureFixture, first: bytes, words: str
) -> None:
    async with tls_bench(authority) as shim:
        for _ in range(20):
            client = await shim.client()
            client.writer.write(first)
            with_alert = await client.ended()
            # Who speaks TLS is told in TLS.
            assert with_alert[:1] == (b"\x15" if first[:1] == b"\x16" else b"")
        await until(lambda: not len(shim.sessions))
        (line,) = lines(caplog)
        assert line.startswith(f"client {HOST}:")
        assert words in line
        assert "Traceback" not in caplog.text
        good = await shim.tls_client()
        good.writer.write(fetch(1))
        await good.receive(1)


async def test_a_tls_hello_on_a_plaintext_port(authority: Authority, caplog: pytest.LogCaptureFixture) -> None:
    async with tls_bench(authority) as shim:
        plain = await asyncio.get_running_loop().create_server(shim.session, HOST, 0)
        shim.port = plain.sockets[0].getsockname()[1]
        try:
            for _ in range(3):
                with pytest.raises((ConnectionError, ssl.SSLError)):
                    await shim.tls_client()
        finally:
            plain.close()
        (line,) = lines(caplog)
        assert line.endswith("connection closed: a TLS hello on a plaintext port")


async def test_a_handshake_that_does_not_come_counts_as_a_connection_and_is_bounded(
    authority: Authority, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with tls_bench(authority) as shim:
        hello = await a_hello(authority)
        waiting = [await shim.client() for _ in range(2)]
        waiting[1].writer.write(hello[:50])
        await until(lambda: len(shim.sessions) == 2)
        monkeypatch.setattr(tls_connection, "HANDSHAKE_SECONDS", 0.05)
        late = await shim.client()
        late.writer.write(hello[:50])
        assert await ended(late)
        await until(lambda: len(shim.sessions) == 2)  # those two have the time that was said when they came
        assert [line.partition("closed: ")[2] for line in lines(caplog)] == ["no TLS handshake within 0.05 s"]


async def a_hello(authority: Authority) -> bytes:
    outgoing = ssl.MemoryBIO()
    client = trusting(authority).wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=HOST)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


async def ended(client: Client) -> bool:
    try:
        return await client.ended() == b""
    except ConnectionResetError:
        return True


async def test_one_who_looks_whether_the_port_is_open_has_no_line(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    async with tls_bench(authority) as shim:
        client = await shim.client()
        await until(lambda: len(shim.sessions) == 1)
        client.writer.close()
        await until(lambda: not len(shim.sessions))
        assert lines(caplog) == []


async def test_a_client_that_goes_without_an_end_of_tls(authority: Authority, caplog: pytest.LogCaptureFixture) -> None:
    async with tls_bench(authority) as shim:

        def asks_and_goes() -> None:
            raw = socket.create_connection((HOST, shim.port))
            with trusting(authority).wrap_socket(raw, server_hostname=HOST) as client:
                client.sendall(fetch(1))
                assert client.recv(12) == response(1)
                client.shutdown(socket.SHUT_WR)  # of the socket alone: nothing is said in TLS

        await asyncio.to_thread(asks_and_goes)
        await until(lambda: not len(shim.sessions))
        assert lines(caplog) == []


async def test_the_end_of_a_bad_client_is_one_of_tls(authority: Authority, caplog: pytest.LogCaptureFixture) -> None:
    async with tls_bench(authority) as shim:
        client = await shim.tls_client()
        client.writer.write(b"\x7f\xff\xff\xff\0\0\0\0\0\0\0\0")
        assert await client.ended() == b""
        assert len(lines(caplog)) == 1


@pytest.mark.parametrize("shown", [True, False])
async def test_clients_that_have_to_show_a_certificate(
    authority: Authority, caplog: pytest.LogCaptureFixture, shown: bool
) -> None:
    trust = {"ssl_client_auth": "required", "ssl_truststore_location": str(authority.truststore)}
    async with tls_bench(authority, trust) as shim:
        keystore = authority.keystore("client.pem", "client") if shown else None
        client = await shim.tls_client(trusting(authority, keystore))
        client.writer.write(fetch(1))
        if shown:
            await client.receive(1)
            assert lines(caplog) == []
        else:
            with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
                await client.receive(1)
            assert shim.broker.connections == []
            (line,) = lines(caplog)
            assert line.endswith("connection closed: TLS handshake: it has shown no certificate")


async def test_a_client_that_does_not_trust_the_shim(
    authority: Authority, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    trusts_another = trusting(Authority(tmp_path))
    async with tls_bench(authority) as shim:

        def refuses() -> None:
            with socket.create_connection((HOST, shim.port)) as raw, pytest.raises(ssl.SSLCertVerificationError):
                trusts_another.wrap_socket(raw, server_hostname=HOST)

        await asyncio.to_thread(refuses)
        await until(lambda: len(lines(caplog)) == 1)
        assert lines(caplog)[0].endswith("TLS handshake: it refuses the shim's certificate: unknown CA")
        with pytest.raises(ssl.SSLCertVerificationError):
            await shim.tls_client(trusts_another)  # this one sends no alert
        await until(lambda: len(lines(caplog)) == 2)
        assert lines(caplog)[1].endswith("gone in the TLS handshake")


REFUSED: Mapping[str, tuple[dict[str, Any], str]] = {
    "another CA": ({}, "its certificate is refused: unable to get local issuer certificate"),
    "expired": ({"expired": True}, "its certificate is refused: certificate has expired"),
    "another host": (
        {"identities": ("kafka.example.com",)},
        "its certificate is refused: IP address mismatch, certificate is not valid for '127.0.0.1'.",
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
async def test_a_broker_whose_certificate_is_refused(
    authority: Authority, caplog: pytest.LogCaptureFixture, tmp_path: Path, kind: str
) -> None:
    caplog.set_level(logging.DEBUG, logger="shim")
    given, words = REFUSED[kind]
    issuer = Authority(tmp_path) if kind == "another CA" else authority
    keystore = issuer.keystore("bad.pem", *given.get("identities", ()), expired=given.get("expired", False))
    async with tls_bench(authority, broker_keystore=keystore) as shim:
        for _ in range(3):
            client = await shim.tls_client()
            client.writer.write(fetch(1))
            assert await ended(client)
        assert caplog.text.count(f"lost the broker: {shim.addresses[0]}: {words}") == 3
        assert lines(caplog) == [f"clients have no broker at {shim.addresses[0]} for now: {words}"]
        assert shim.broker.connections == []


async def test_a_host_name_need_not_fit_where_that_is_said(authority: Authority) -> None:
    keystore = authority.keystore("elsewhere.pem", "kafka.example.com")
    said = {"upstream_ssl_endpoint_identification_algorithm": ""}
    async with tls_bench(authority, said, broker_keystore=keystore) as shim:
        client = await shim.tls_client()
        client.writer.write(fetch(1))
        await client.receive(1)


@pytest.mark.parametrize("shown", [True, False])
async def test_a_broker_that_wants_a_certificate(
    authority: Authority, caplog: pytest.LogCaptureFixture, shown: bool
) -> None:
    caplog.set_level(logging.DEBUG, logger="shim")
    own = {"upstream_ssl_keystore_location": str(authority.keystore("own.pem", "shim"))} if shown else {}
    async with tls_bench(authority, own, broker_asks=True) as shim:
        client = await shim.tls_client()
        client.writer.write(fetch(1))
        if shown:
            await client.receive(1)
        else:
            assert await ended(client)
            assert "lost the broker: " in caplog.text


async def test_a_broker_that_speaks_no_tls(authority: Authority, caplog: pytest.LogCaptureFixture) -> None:
    """A real one reads the hello as the size of a request that is too large, and closes."""
    caplog.set_level(logging.DEBUG, logger="shim")
    async with tls_bench(authority) as shim:

        async def closes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readexactly(4)
            writer.close()

        server = await asyncio.start_server(closes, HOST, 0)
        shim.addresses[0] = shim.addresses[0]._replace(port=server.sockets[0].getsockname()[1])
        client = await shim.tls_client()
        client.writer.write(fetch(1))
        assert await ended(client)
        server.close()
        assert "lost the broker: " in caplog.text


async def test_new_connections_have_the_new_certificate_and_open_ones_go_on(authority: Authority) -> None:
    async with tls_bench(authority) as shim:
        before = await shim.tls_client()
        authority.keystore("shim.pem", "127.0.0.1", "renewed.example.com")
        shim.context.look()
        after = await shim.tls_client()
        for client, renewed in ((before, False), (after, True)):
            client.writer.write(fetch(1))
            await client.receive(1)
            names = client.writer.get_extra_info("peercert")["subjectAltName"]
            assert (("DNS", "renewed.example.com") in names) is renewed


async def test_the_broker_ends_tls_in_order_and_the_client_asks_again(authority: Authority) -> None:
    """An idle connection that the broker gave up is opened again, as without TLS."""
    async with tls_bench(authority) as shim:
        client = await shim.tls_client()
        client.writer.write(fetch(1))
        await client.receive(1)
        (first,) = shim.broker.connections
        first.transport.close()
        await until(lambda: first.lost)
        client.writer.write(fetch(2))
        await client.receive(2)
        assert len(shim.broker.connections) == 2
