"""Beside connections that have bytes for one another all the time, who asks for little is answered. On both loops.

What is counted is bytes, not time: how much is passed on between a request and its answer.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Self

import pytest

from shim.net.session import ClientSession
from shim.upstream import BrokerLink, turns_of_loop
from shim.upstream.read_buffer import READ_BYTES
from shim.upstream.turns import HURRIED_BYTES, SHARE_BYTES, SHORT_BYTES
from tests.net.bench import HOST, WAIT_SECONDS, Bench, Client, bench, fetch, heartbeat, produce, response
from tests.net.test_session import with_a_frame
from tests.waiting import until

BUSY = 100
EACH = 2_000_000
OF_A_TURN = SHARE_BYTES + 2 * READ_BYTES + BUSY * SHORT_BYTES
"""What is passed on in one turn at most."""
TURNS = 3
"""In which a request is answered that the shim decides at once: read in the first, it is sent at the end of it or of
the second, and the test hears of it in the next."""


class Asker:
    """A connection of its own, whose bytes leave when they are written and not when the loop comes round."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection((HOST, port))
        self._socket.setblocking(False)

    async def answered(self, count: Callable[[], int]) -> tuple[int, int]:
        """What had been counted when a request was sent, and when its answer was there."""
        before = count()
        self._socket.sendall(heartbeat(1))
        wanted = response(1)
        async with asyncio.timeout(WAIT_SECONDS):
            assert await asyncio.get_running_loop().sock_recv(self._socket, 1 << 16) == wanted
        return before, count()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()


class Idle:
    """One that has nothing to pass on."""

    def wait(self) -> None:
        raise AssertionError

    def go_on(self) -> bool:
        raise AssertionError


def counted(monkeypatch: pytest.MonkeyPatch, cls: type[BrokerLink] | type[ClientSession]) -> list[int]:
    """The sizes of what its connections read."""
    sizes: list[int] = []
    received = cls.data_received

    def count(self: BrokerLink | ClientSession, data: bytes | memoryview) -> None:
        sizes.append(len(data))
        received(self, data)  # type: ignore[arg-type]

    monkeypatch.setattr(cls, "data_received", count)
    return sizes


async def connected(shim: Bench, first: Callable[[int], bytes]) -> list[Client]:
    """So many that each have sent the first of a request, and have their ways to the broker."""
    clients = [await shim.client() for _ in range(BUSY)]
    for client in clients:
        client.writer.write(first(1))
    await until(lambda: sum(bool(each.received) for each in shim.broker.connections) == BUSY)
    return clients


async def ends(client: Client, size: int) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        got = await client.reader.readexactly(8 + size)
    assert got == response(1, size)


async def test_beside_fetches_an_answer_waits_for_a_few_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench() as shim:
        shim.broker.answers = False
        sizes = counted(monkeypatch, BrokerLink)
        when_decided: list[int] = []

        def decide(call: object) -> None:
            when_decided.append(sum(sizes))
            with_a_frame(call)

        shim.runtime.decide = decide
        with Asker(shim.port) as asker:
            await asker.answered(lambda: 0)
            clients = await connected(shim, fetch)
            for connection in shim.broker.connections:
                connection.respond(1, EACH)
            before, after = await asker.answered(lambda: sum(sizes))
            assert 0 < when_decided[-1] - before <= OF_A_TURN
            assert after - before <= TURNS * OF_A_TURN
            # Nobody is forgotten.
            await asyncio.gather(*(ends(client, EACH) for client in clients))


async def test_beside_produces_an_answer_waits_for_a_few_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    def beginning(correlation_id: int) -> bytes:
        return produce(correlation_id, 1, size=EACH)[:100]

    async with bench() as shim:
        sizes = counted(monkeypatch, ClientSession)
        shim.runtime.decide = with_a_frame
        with Asker(shim.port) as asker:
            await asker.answered(lambda: 0)
            clients = await connected(shim, beginning)
            for client in clients:
                client.writer.write(produce(1, 1, size=EACH)[100:])
            before, after = await asker.answered(lambda: sum(sizes))
            assert after - before <= TURNS * OF_A_TURN
            await asyncio.gather(*(client.receive(1) for client in clients))
            assert all(each.requests == [produce(1, 1, size=EACH)] for each in shim.broker.connections)


async def up_to(reader: asyncio.StreamReader, size: int) -> bytes:
    """So many bytes, or those that come until the end."""
    came = bytearray()
    while len(came) < size and (more := await reader.read(size - len(came))):
        came += more
    return bytes(came)


async def test_those_who_leave_while_they_wait_hold_nobody_up() -> None:
    async with bench() as shim:
        shim.broker.answers = False
        clients = await connected(shim, fetch)
        for connection in shim.broker.connections:
            connection.respond(1, EACH)
        turns = turns_of_loop()
        await until(lambda: len(turns) > BUSY // 2)
        for client in clients[::2]:
            client.writer.transport.abort()
        for connection in shim.broker.connections[: BUSY // 4]:
            connection.transport.abort()
        async with asyncio.timeout(WAIT_SECONDS):
            came = [await up_to(client.reader, 8 + EACH) for client in clients[1::2]]
        assert all(response(1, EACH).startswith(each) for each in came)
        assert came.count(response(1, EACH)) >= BUSY // 4
        await until(lambda: len(turns) == 0)


async def test_turns_are_short_after_a_request_that_is_not_answered_at_once() -> None:
    async with bench() as shim:
        turns = turns_of_loop()
        client = await shim.client()
        with Asker(shim.port) as asker:
            shim.runtime.decide = with_a_frame
            await asker.answered(lambda: 0)
            assert turns.room(Idle()) == READ_BYTES
            shim.runtime.decide = lambda call: None
            before = len(shim.runtime.parked)
            client.writer.write(heartbeat(1))
            await until(lambda: len(shim.runtime.parked) > before)
            assert turns.room(Idle()) == HURRIED_BYTES
