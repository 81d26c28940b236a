"""Connections between shims as they are made: over TCP, with TLS and without, cut, silent and hostile."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from protocol.errors import ErrorCode
from protocol.messages import api_versions, metadata
from protocol.own.between_shims import Answer, Begun, Forward, Hello, encode
from shim.config import HostPort, Settings
from shim.demo.parts import free_port
from shim.forwarding import ONE_BY_ONE, Entrusted, Peers, PeerServer, Request, Room, peers, serving
from shim.forwarding.home import HomeSide
from shim.forwarding.over_tcp import TcpPort, dial_over_tcp, named_by_certificate
from shim.metrics import NotForwarded
from shim.tls import TlsContext, context_for_clients
from shim.tls.contexts import context_for_shims
from tests.certificates import Authority
from tests.waiting import until

MOST = 1 << 20
HELLO = Hello("cluster/__offset_shim", "a shim", MOST)
REQUEST = Request(b"\0\0\0\x04abcd", "", "/127.0.0.1")


class Client:
    def __init__(self) -> None:
        self.end: asyncio.Future[bytes | ErrorCode] = asyncio.get_running_loop().create_future()

    def ask(self, question: int, frame: bytes, *, prompt: bool) -> None:
        raise AssertionError("nobody asks")

    def begun(self) -> None:
        """Not looked at."""

    def answered(self, frame: bytes) -> None:
        self.end.set_result(frame)

    def failed(self, error: ErrorCode) -> None:
        self.end.set_result(error)


def echo(entrusted: Entrusted) -> None:
    entrusted.begun()
    entrusted.answer(entrusted.request.frame)


@asynccontextmanager
async def serving_at(
    address: HostPort, accept: Callable[[Entrusted], None] = echo, tls: TlsContext | None = None, *names: str
) -> AsyncIterator[PeerServer]:
    admits = named_by_certificate(names) if names else serving.ANYBODY
    server = PeerServer(lambda: HELLO, accept, Room(0), admits)
    port = TcpPort(server, address, tls)
    await port.open()
    try:
        yield server
    finally:
        port.close()


@asynccontextmanager
async def asking(tls: TlsContext | None = None) -> AsyncIterator[Peers]:
    asked = Peers(lambda partition: None, dial_over_tcp(tls), lambda: HELLO)
    try:
        yield asked
    finally:
        asked.close()


async def asked_once(at: Peers, address: HostPort) -> bytes | ErrorCode:
    client = Client()
    at.forward(address, REQUEST, client)
    async with asyncio.timeout(30.0):
        return await client.end


def failures(at: Peers) -> dict[NotForwarded, int]:
    return {why: count for why, count in at.counts.failed.items() if count}


def somewhere() -> HostPort:
    return HostPort("127.0.0.1", free_port())


async def test_one_connection_carries_all() -> None:
    address = somewhere()
    async with serving_at(address), asking() as at:
        answers = await asyncio.gather(*(asked_once(at, address) for _ in range(100)))
        assert set(answers) == {REQUEST.frame}


async def test_nobody_is_there_and_then_somebody(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(peers, "time", SimpleNamespace(monotonic=lambda: now))
    address = somewhere()
    async with asking() as at:
        assert await asked_once(at, address) is ErrorCode.NOT_COORDINATOR
        async with serving_at(address):
            assert await asked_once(at, address) is ErrorCode.NOT_COORDINATOR, "it was tried a moment ago"
            assert failures(at) == {"unreachable": 2}
            now += peers.AGAIN_SECONDS
            assert await asked_once(at, address) == REQUEST.frame
        assert await asked_once(at, address) is ErrorCode.NOT_COORDINATOR
        assert failures(at).keys() <= {"unreachable", "lost"}, "it may be heard of before, or because of it"
        assert sum(failures(at).values()) == 3


async def test_an_owner_that_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It accepts, and no more: as a process that is stopped."""
    monkeypatch.setattr(peers, "SILENCE_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as hung:
        address = HostPort(*hung.getsockname())
        async with asking() as at:
            ends = await asyncio.gather(*(asked_once(at, address) for _ in range(3)))
            assert set(ends) == {ErrorCode.NOT_COORDINATOR}
            assert failures(at) == {"silent": 3}


async def test_an_owner_that_takes_its_time_is_not_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    looks, ping = 0, HomeSide.ping

    def counted(side: HomeSide) -> None:
        nonlocal looks
        looks += 1
        ping(side)

    monkeypatch.setattr(HomeSide, "ping", counted)
    monkeypatch.setattr(peers, "SILENCE_SECONDS", 0.1)
    address = somewhere()
    taken: list[Entrusted] = []
    async with serving_at(address, taken.append), asking() as at:
        waiting = asyncio.ensure_future(asked_once(at, address))
        await until(lambda: looks > 5 or waiting.done())
        assert not waiting.done()
        taken[0].answer(b"at last")
        assert await waiting == b"at last"


async def test_a_connection_cut_at_any_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "AGAIN_SECONDS", 0.0)
    said = b"".join(map(encode, (HELLO, Begun(1), Answer(1, b"answer"))))
    cut_at = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(MOST)
        writer.write(said[:cut_at])
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    address = HostPort(*server.sockets[0].getsockname())
    async with server, asking() as at:
        for cut_at in range(len(said)):  # noqa: B007 - the server looks at it
            assert await asked_once(at, address) is ErrorCode.NOT_COORDINATOR
        cut_at = len(said)
        assert await asked_once(at, address) == b"answer"
        assert failures(at) == {"lost": len(said)}


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\0\0\0\x10\0\x12\0\0\0\0\0\1\0\x06client",
        b"\x7f\xff\xff\xff" + b"x" * 8192,
        encode(HELLO._replace(log="another")),
        encode(HELLO) + b"\x7f\xff\xff\xff",
        encode(HELLO) + b"\0\0\0\x04\x01abc",
    ],
)
async def test_hostile_bytes_end_their_own_connection(sent: bytes) -> None:
    address = somewhere()
    async with serving_at(address), asking() as at:
        assert await asked_once(at, address) == REQUEST.frame
        reader, writer = await asyncio.open_connection(*address)
        writer.write(sent)
        async with asyncio.timeout(30.0):
            with suppress(ConnectionError):
                await reader.read()
        writer.close()
        assert await asked_once(at, address) == REQUEST.frame


@pytest.mark.parametrize(
    ("sent", "what"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "an HTTP request"),
        (b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03", "a TLS hello on a plaintext port"),
        (
            api_versions.API.request_frame(3, 1, "rdkafka", api_versions.ApiVersionsRequest("librdkafka", "2.16.0")),
            "a Kafka client's request; clients bootstrap at another port",
        ),
        (
            metadata.API.request_frame(1, 1, "kafka-python", metadata.MetadataRequest(())),
            "a Kafka client's request; clients bootstrap at another port",
        ),
        (encode(HELLO._replace(log="theirs/__offset_shim")), "a shim has another log: theirs/__offset_shim"),
        (b"\0\0\0\x01\x7f", "no message of this direction"),
    ],
)
async def test_strangers_are_named(sent: bytes, what: str, caplog: pytest.LogCaptureFixture) -> None:
    address = somewhere()
    async with serving_at(address):
        for _ in range(2):
            reader, writer = await asyncio.open_connection(*address)
            for at in range(len(sent)):  # in any pieces
                writer.write(sent[at : at + 1])
            writer.write_eof()
            async with asyncio.timeout(30.0):
                with suppress(ConnectionError):
                    await reader.read()
            writer.close()
    (line,) = caplog.messages
    assert line.startswith("a connection to shims.listener from 127.0.0.1 was closed: ")
    assert what in line


async def test_who_says_nothing_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "SILENCE_SECONDS", 0.1)
    address = somewhere()
    async with serving_at(address):
        reader, writer = await asyncio.open_connection(*address)
        async with asyncio.timeout(30.0):
            assert await reader.read() == b""
        writer.close()


async def test_more_connections_than_there_are_shims_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "MOST_CONNECTIONS", 1)
    address = somewhere()
    async with serving_at(address), asking() as at:
        assert await asked_once(at, address) == REQUEST.frame
        reader, writer = await asyncio.open_connection(*address)
        writer.write(encode(HELLO) + encode(Forward(1, *REQUEST[1:], REQUEST.frame)))
        async with asyncio.timeout(30.0):
            assert await reader.read() == encode(HELLO), "and nothing is done for it"
        writer.close()
        assert await asked_once(at, address) == REQUEST.frame


async def silent(address: HostPort, host: str = "127.0.0.1") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection on which nobody says who they are, from that address."""
    return await asyncio.open_connection(*address, local_addr=(host, 0))


@pytest.mark.parametrize("with_tls", [False, True])
async def test_strangers_keep_nobody_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_tls: bool) -> None:
    monkeypatch.setattr(serving, "MOST_CONNECTIONS", 2)
    monkeypatch.setattr(serving, "MOST_STRANGERS", 2)
    authority = Authority(tmp_path)
    listening, right = contexts(authority, authority.keystore("shim.pem", "127.0.0.1")) if with_tls else (None, None)
    address = somewhere()
    async with serving_at(address, echo, listening), asking(right) as one, asking(right) as another:
        strangers = [await silent(address) for _ in range(5)]
        assert await asked_once(one, address) == REQUEST.frame
        assert await asked_once(another, address) == REQUEST.frame
        strangers += [await silent(address) for _ in range(5)]
        assert await asked_once(one, address) == REQUEST.frame
        async with asyncio.timeout(30.0):
            for reader, _ in strangers[:8]:
                with suppress(ConnectionError):
                    assert await reader.read() == b"", "the oldest go"
        for _, writer in strangers:
            writer.close()


async def test_many_strangers_of_one_address_are_in_nobody_elses_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "MOST_STRANGERS", 4)
    address = somewhere()
    async with serving_at(address):
        reader, writer = await silent(address, "127.0.0.2")
        strangers = [await silent(address) for _ in range(20)]
        async with asyncio.timeout(30.0):
            for each, _ in strangers[:17]:
                with suppress(ConnectionError):
                    assert await each.read() == b""
            writer.write(encode(HELLO))
            assert await reader.readexactly(len(encode(HELLO))) == encode(HELLO)
            strangers[-1][1].write(encode(HELLO))
            assert await strangers[-1][0].readexactly(len(encode(HELLO))) == encode(HELLO)
        for _, its in strangers:
            its.close()
        writer.close()


async def test_that_strangers_are_closed_is_told_once_until_there_are_none(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(serving, "MOST_STRANGERS", 2)
    monkeypatch.setattr(serving, "SILENCE_SECONDS", 600.0)
    line = "connections on which nobody has said who it is are closed for now: there are more than 2"
    address = somewhere()

    async def goes(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            assert await reader.read() == b""

    async def says_who_it_is(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(encode(HELLO))
        assert await reader.readexactly(len(encode(HELLO))) == encode(HELLO)

    async with serving_at(address), asyncio.timeout(30.0):
        one, another, third = [await silent(address) for _ in range(3)]
        await goes(*one)
        assert caplog.messages == [line]
        await says_who_it_is(*another)
        fourth, fifth = [await silent(address) for _ in range(2)]
        await goes(*third)
        assert caplog.messages == [line], "there was one all the while"
        await says_who_it_is(*fourth)
        await says_who_it_is(*fifth)
        more = [await silent(address) for _ in range(3)]
        await goes(*more[0])
        assert caplog.messages == [line, line], "for a while there was none"
        for _, writer in (one, another, third, fourth, fifth, *more):
            writer.close()


async def test_an_owner_that_does_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "MOST_UNSENT_BYTES", 1 << 16)
    with socket.create_server(("127.0.0.1", 0)) as hung:
        address = HostPort(*hung.getsockname())
        async with asking() as at:
            first, second = Client(), Client()
            at.forward(address, REQUEST._replace(frame=b"x" * (1 << 20)), first)
            at.forward(address, REQUEST, second)
            assert second.end.result() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            assert not first.end.done()
            assert failures(at) == {"congested": 1}
        assert failures(at) == {"congested": 1}, "this side has ended it"


async def test_an_owner_that_refuses() -> None:
    """That it cannot take several at once is none."""
    errors = iter((ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ONE_BY_ONE, ErrorCode.NOT_COORDINATOR))
    address = somewhere()
    async with serving_at(address, lambda entrusted: entrusted.refuse(next(errors))), asking() as at:
        assert await asked_once(at, address) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert await asked_once(at, address) is ONE_BY_ONE
        assert await asked_once(at, address) is ErrorCode.NOT_COORDINATOR
        client = Client()
        at.forward(address, REQUEST._replace(frame=b"x" * (MOST + 1)), client)
        assert client.end.result() is ErrorCode.INVALID_REQUEST
        assert failures(at) == {"refused": 2, "unsendable": 1}


async def test_who_is_not_waited_for_any_more_has_not_failed() -> None:
    address = somewhere()
    async with serving_at(address, lambda _: None), asking() as at:
        forwarded = at.forward(address, REQUEST, Client())
        assert forwarded is not None
        forwarded.withdraw()
        at.close()
        assert failures(at) == {}


def contexts(authority: Authority, keystore: Path) -> tuple[TlsContext, TlsContext]:
    settings = Settings(
        ssl_keystore_location=str(keystore),
        ssl_truststore_location=str(authority.truststore),
        ssl_client_auth="required",
    )
    return context_for_clients("listener shims", settings), context_for_shims(settings)


async def test_certificates_say_who_is_believed(tmp_path: Path) -> None:
    own, foreign = Authority(tmp_path), Authority(tmp_path)
    shim = own.keystore("shim.pem", "127.0.0.1", common_name="shim-1")
    named = own.keystore("named.pem", "127.0.0.1", "shim-2.example.org")
    client = own.keystore("client.pem", "127.0.0.1", common_name="alice")
    stranger = foreign.keystore("stranger.pem", "127.0.0.1", common_name="shim-1")
    listening, right = contexts(own, shim)
    refused = [contexts(own, client)[1], contexts(foreign, stranger)[1], None]
    address = somewhere()
    async with serving_at(address, echo, listening, "shim-1", "shim-2.example.org"):
        for context in (right, contexts(own, named)[1]):
            async with asking(context) as at:
                assert await asked_once(at, address) == REQUEST.frame
        for each in refused:
            async with asking(each) as at:
                assert await asked_once(at, address) is ErrorCode.NOT_COORDINATOR
    # Nor is anything said to somebody else at its address.
    elsewhere = own.keystore("elsewhere.pem", "192.0.2.1", common_name="shim-1")
    taken: list[Entrusted] = []
    async with serving_at(address, taken.append, contexts(own, elsewhere)[0], "shim-1"), asking(right) as at:
        assert await asked_once(at, address) is ErrorCode.NOT_COORDINATOR
        assert not taken
