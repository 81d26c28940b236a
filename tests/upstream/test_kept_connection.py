"""On which connection a request goes that must not be sent twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from protocol.messages import metadata
from shim.config import HostPort, Settings
from shim.upstream.errors import UpstreamError
from shim.upstream.kept_connection import KeptConnection, KeptConnections
from tests.upstream.scripted_broker import METADATA_VERSION, ScriptedBroker
from tests.waiting import until

REQUEST = metadata.MetadataRequest(topics=None)
WAIT_SECONDS = 60.0


class Counting(ScriptedBroker):
    """Who connects is not heard until ``hears``."""

    def __init__(self) -> None:
        super().__init__()
        self.hears = asyncio.Event()
        self.hears.set()
        self.open: list[asyncio.StreamWriter] = []
        self.closed = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open.append(writer)
        await self.hears.wait()
        await super().serve(reader, writer)
        self.closed += 1


@asynccontextmanager
async def counting() -> AsyncIterator[tuple[Counting, KeptConnection]]:
    broker = Counting()
    server = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
    broker.address = HostPort("127.0.0.1", server.sockets[0].getsockname()[1])
    kept = KeptConnection(broker.address, Settings())
    try:
        yield broker, kept
    finally:
        kept.close()
        server.close()


async def ask(kept: KeptConnection, *, once: bool, may_send: Callable[[], None] = lambda: None) -> None:
    versions = {"at_least": METADATA_VERSION, "at_most": METADATA_VERSION}
    await kept.ask(metadata.API, REQUEST, **versions, once=once, may_send=may_send)


async def test_it_goes_on_one_that_has_answered_lately() -> None:
    async with counting() as (broker, kept):
        for once in (False, True, True):
            await ask(kept, once=once)
        assert (len(broker.open), broker.asked.qsize()) == (1, 3)


async def test_it_does_not_go_on_one_that_was_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shim.upstream.kept_connection._FRESH_SECONDS", 0.0)
    async with counting() as (broker, kept):
        for once in (False, True):
            await ask(kept, once=once)
        assert (len(broker.open), broker.asked.qsize()) == (2, 2)


async def test_it_does_not_go_on_one_that_the_broker_has_closed() -> None:
    async with counting() as (broker, kept):
        await ask(kept, once=True)
        connection = kept._connection
        assert connection is not None
        broker.open[0].close()
        await until(lambda: connection.is_lost)
        await ask(kept, once=True)
        assert (len(broker.open), broker.asked.qsize()) == (2, 2)


@pytest.mark.parametrize("once", [True, False])
async def test_it_is_not_sent_again(once: bool) -> None:
    async with counting() as (broker, kept):
        await ask(kept, once=False)

        def lost(_: bytes) -> bytes:
            broker.open[0].close()
            broker.spoil = lambda frame: frame
            return b""

        broker.spoil = lost
        if once:
            with pytest.raises(UpstreamError):
                await ask(kept, once=True)
        else:
            await ask(kept, once=False)
        assert broker.asked.qsize() == (2 if once else 3)


async def given_up(broker: Counting, kept: KeptConnection, *, once: bool) -> None:
    """By somebody who has less patience than the connection takes to be open."""
    asking = asyncio.create_task(ask(kept, once=once))
    await until(lambda: broker.open)
    asking.cancel()
    await asyncio.wait([asking])


@pytest.mark.parametrize("once", [True, False])
async def test_one_that_takes_long_to_open_is_opened_for_who_asks_next(once: bool) -> None:
    async with counting() as (broker, kept):
        broker.hears.clear()
        for _ in range(3):
            await given_up(broker, kept, once=once)
        broker.hears.set()
        await until(lambda: kept._connection is not None)
        assert await kept.versions(metadata.API) == (0, METADATA_VERSION)
        await ask(kept, once=once)
        assert (len(broker.open), broker.asked.qsize()) == (1, 1)


async def test_one_that_nobody_waits_for_any_more_fails_for_nobody(caplog: pytest.LogCaptureFixture) -> None:
    async with counting() as (broker, kept):
        broker.hears.clear()
        await given_up(broker, kept, once=False)
        broker.open[0].close()
        await until(lambda: kept._opening is not None and kept._opening.done())
        broker.hears.set()
        await ask(kept, once=False)
        assert (len(broker.open), broker.asked.qsize()) == (2, 1)
    assert not caplog.messages


async def test_one_that_is_closed_is_opened_no_further() -> None:
    async with counting() as (broker, kept):
        broker.hears.clear()
        asking = asyncio.create_task(ask(kept, once=False))
        await until(lambda: broker.open)
        kept.close()
        with pytest.raises(UpstreamError, match="the shim has closed the connection"):
            await asking
        broker.hears.set()
        await until(lambda: broker.closed == 1)
        assert broker.asked.empty()


async def test_one_that_is_ended_is_opened_for_nobody() -> None:
    """Not for whoever had asked before, and waits for it to be open: nobody would close it."""
    async with counting() as (broker, _):
        connections = KeptConnections(Settings())
        asking = asyncio.create_task(ask(connections.to(broker.address), once=False))
        await asyncio.sleep(0)
        connections.close_others([])
        with pytest.raises(UpstreamError, match="the shim has closed the connection"):
            await asking
        assert broker.asked.empty()
        await ask(connections.to(broker.address), once=False)
        assert broker.asked.qsize() == 1
        connections.close()


class _Lost(Exception):
    pass


async def test_whether_it_may_be_sent_is_asked_when_the_connection_is_open_and_nobody_elses() -> None:
    is_ours = True

    def may_send() -> None:
        if not is_ours:
            raise _Lost

    async with counting() as (broker, kept):
        broker.hears.clear()
        first = asyncio.create_task(ask(kept, once=False))
        await until(lambda: broker.open)
        behind = asyncio.create_task(ask(kept, once=True, may_send=may_send))
        await until(lambda: kept._turn._waiters)  # for the first
        is_ours = False
        broker.hears.set()
        await first
        with pytest.raises(_Lost):
            await behind
        assert broker.asked.qsize() == 1
        await ask(kept, once=True)


@pytest.mark.parametrize("once", [True, False])
async def test_so_it_is_where_it_is_opened_for_it(once: bool) -> None:
    is_ours = True

    def may_send() -> None:
        if not is_ours:
            raise _Lost

    async with counting() as (broker, kept):
        broker.hears.clear()
        asking = asyncio.create_task(ask(kept, once=once, may_send=may_send))
        await until(lambda: broker.open)
        is_ours = False
        broker.hears.set()
        with pytest.raises(_Lost):
            await asking
        assert broker.asked.empty()
