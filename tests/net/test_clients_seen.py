"""Which kind of client a connection counts for, from its first bytes to its end."""

from __future__ import annotations

import pytest

from protocol.messages import api_versions
from shim.metrics import ClientKind
from tests.net.bench import Bench, bench, fetch, settle
from tests.waiting import until

API_VERSIONS_V0 = api_versions.API.request_frame(0, 1, "app", api_versions.ApiVersionsRequest())
API_VERSIONS_V3 = api_versions.API.request_frame(3, 1, "app", api_versions.ApiVersionsRequest())


def kinds(shim: Bench) -> list[ClientKind]:
    (session, *_) = shim.made
    return list(session._traffic.clients.kinds())


async def test_from_the_first_bytes_to_the_end() -> None:
    async with bench() as shim:
        client = await shim.client()
        client.writer.write(fetch(1))
        await client.receive(1)
        (kind,) = kinds(shim)
        assert (kind.said.software, kind.open, kind.connections) == ("", 1, 1)
        assert (kind.host, sum(kind.requests.values())) == ("/127.0.0.1", 1)
        shim.made[0].is_now("User:alice", again=False)
        assert kind.principal == "User:alice"
        client.writer.close()
        await until(lambda: kind.open == 0)
        shim.made[0].abort()
        assert (kind.open, kind.connections) == (0, 1), "it ends once"


async def test_one_that_has_said_nothing_yet_is_none() -> None:
    async with bench() as shim:
        client = await shim.client()
        await until(lambda: bool(shim.made))
        assert kinds(shim) == []
        client.writer.write(b"\x00\x00\x00\x0a\x7f\xff")  # of an API that is not there
        await settle(lambda: len(shim.made))
        assert kinds(shim) == []


@pytest.mark.parametrize("late", [False, True])
async def test_one_that_says_what_it_is(late: bool) -> None:
    """Once: it cannot be another one after that."""
    async with bench() as shim:
        client = await shim.client()
        client.writer.write(API_VERSIONS_V0 if late else API_VERSIONS_V3)
        await until(lambda: bool(shim.made) and not shim.made[0]._which.is_beginning)
        assert len(kinds(shim)) == int(late)
        shim.made[0].is_now("User:alice", again=False)
        shim.made[0].is_software("librdkafka", "2.1.0")
        shim.made[0].is_software("made-up", "1")
        (kind,) = kinds(shim)
        assert kind.said == ("librdkafka", "2.1.0", "")
        assert (kind.open, kind.connections, kind.principal) == (1, 1, "User:alice")


@pytest.mark.parametrize("cut", [1, 4, 13])
async def test_one_whose_first_bytes_come_in_pieces(cut: int) -> None:
    """As of Java clients before 2.0 over TLS, which send the size by itself."""
    async with bench() as shim:
        client = await shim.client()
        frame = fetch(1)
        client.writer.write(frame[:cut])
        await until(lambda: bool(shim.made) and bool(shim.made[0]._which._beginning))
        assert kinds(shim) == []
        client.writer.write(frame[cut:])
        await client.receive(1)
        (kind,) = kinds(shim)
        assert (kind.open, kind.connections) == (1, 1)
        assert shim.made[0]._which._beginning == b""
