"""Links to a broker that has answered none of many yet."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from shim.config import HostPort, Settings
from shim.upstream import BrokerLink, UnansweredLinks
from shim.upstream.unanswered_links import MOST
from tests.upstream.scripted_broker import ScriptedBroker, scripted_broker
from tests.upstream.test_link import Owner
from tests.waiting import until

METADATA = b"\x00\x00\x00\x08\x00\x03\x00\x01\x00\x00\x00\x07"
"""Of a request what the broker looks at."""


@asynccontextmanager
async def never_answering() -> AsyncIterator[HostPort]:
    """As an address that leads to other shims, of which each passes on what it is asked to the next one."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield HostPort(*server.sockets[0].getsockname())
    finally:
        server.close()


async def linked(unanswered: UnansweredLinks, address: HostPort) -> tuple[BrokerLink, Owner]:
    owner = Owner()
    link = BrokerLink(owner, unanswered=unanswered)
    link.connect([address], 3.0)
    await until(lambda: len(owner.told) > 1)
    return link, owner


async def test_no_more_where_nothing_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shim.upstream.unanswered_links._ANSWERED_WITHIN_SECONDS", 0.1)
    unanswered = UnansweredLinks(Settings())
    async with never_answering() as address:
        links = [await linked(unanswered, address) for _ in range(MOST)]
        assert all(owner.told == ["writable False", "writable True"] for _, owner in links)
        _, refused = await linked(unanswered, address)
        assert "it may lead back here" in refused.told[1]
        for link, _ in links:
            link.close()
        _, refused = await linked(unanswered, address)
        assert "it may lead back here" in refused.told[1], "before anything is answered there"


async def answered(unanswered: UnansweredLinks, broker: ScriptedBroker) -> None:
    link, owner = await linked(unanswered, broker.address)
    link.write(METADATA)
    await until(lambda: len(owner.told) > 2)
    link.close()


async def test_any_number_at_a_broker_that_answers() -> None:
    """As where all clients come back at once, and each has to wait for the others."""
    unanswered = UnansweredLinks(Settings())
    async with scripted_broker() as broker:
        links = [await linked(unanswered, broker.address) for _ in range(3 * MOST)]
        assert all(owner.told == ["writable False", "writable True"] for _, owner in links)
        asked = broker.asked.qsize()
        assert asked == 2 * MOST, "each beyond them is let through by an answer"
        for link, _ in links:
            link.close()
        for _ in range(2 * MOST):
            await answered(unanswered, broker)
        assert broker.asked.qsize() - asked == 2 * MOST, "nobody asks but clients"
