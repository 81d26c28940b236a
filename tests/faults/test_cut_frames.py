"""Every API of the table, cut in the middle of its request and of its response: nothing is left behind, and what a
client gets is its own answer, whole, or the beginning of it and the end of the connection.
"""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import Callable

import pytest

from shim.api import AsIs, Route, Served
from shim.api.table import TABLE
from tests.net.bench import Bench, BrokerConnection, Client, bench, fetch, response
from tests.waiting import until

NAMES = [f"{route.key.name}-v{route.last}" for route in TABLE]
BROKERS_OWN = [route for route in TABLE if not isinstance(route.disposition, Served) and route.is_passed_on]
# Produce's, from that version on, and of the rewritten ones, cannot be told by pattern: they are decoded.
AS_IT_IS = [route for route in BROKERS_OWN if isinstance(route.disposition, AsIs)]


def frame(route: Route, correlation_id: int, size: int = 200) -> bytes:
    """Of a size that any request may have. In one that is not cut only what the shim reads of it is right."""
    body = bytes.fromhex("0001") + b"c"
    if route.last >= 9:
        body += b"\0"  # no tagged fields in the header
    body += (b"\0" if route.last >= 9 else b"\xff\xff") + b"\0\1" if route.key == 0 else b""
    return struct.pack(">ihhi", 8 + len(body) + size, route.key, route.last, correlation_id) + body + bytes(size)


def cuts(size: int) -> list[int]:
    return sorted({1, 3, 4, 6, 8, 11, 12, 13, size // 2, size - 1})


async def nothing_left(shim: Bench, tasks: int) -> None:
    await until(lambda: not len(shim.sessions) and all(each.lost for each in shim.broker.connections))
    await until(lambda: len(asyncio.all_tasks()) <= tasks)
    for session in shim.made:
        assert not session._background._tasks
    assert shim.sessions.budget.taken == 0


@pytest.mark.parametrize("route", TABLE, ids=NAMES)
async def test_a_request_that_is_cut(route: Route) -> None:
    async with bench() as shim:
        tasks = len(asyncio.all_tasks())
        for at in cuts(len(frame(route, 2))):
            client = await shim.client()
            client.writer.write(fetch(1) + frame(route, 2)[:at])
            await client.receive(1)
            client.writer.close()
            await nothing_left(shim, tasks)
        for connection in shim.broker.connections:
            assert [each[8:12] for each in connection.requests] == [b"\0\0\0\1"], "half a request was taken for one"


def ends(connection: BrokerConnection) -> list[Callable[[], None]]:
    return [connection.transport.close, connection.transport.abort]


@pytest.mark.parametrize("route", BROKERS_OWN, ids=[f"{r.key.name}-v{r.last}" for r in BROKERS_OWN])
async def test_a_response_that_is_cut(route: Route) -> None:
    """Three requests are under way: the first one's answer is whole, the second's is cut, the third's never begins."""
    whole = response(2, 300)
    async with bench() as shim:
        shim.broker.answers = False
        tasks = len(asyncio.all_tasks())
        for number, at in enumerate(cuts(len(whole))):
            client = await shim.client()
            client.writer.write(fetch(1) + frame(route, 2) + fetch(3))
            await until(lambda n=number: len(shim.broker.connections) > n)  # type: ignore[misc]
            assert len(await shim.broker.requests(3)) == 3
            broker = shim.broker.connections[-1]
            broker.transport.write(response(1) + whole[:at])
            ends(broker)[number % 2]()
            got = await ended(client)
            assert (response(1) + whole[:at]).startswith(got), "not its own answer"
            if number % 2 == 0:
                assert got.startswith(response(1))
            if route not in AS_IT_IS:
                assert len(got) <= len(response(1)), "half of what is to be rewritten was passed on"
            await nothing_left(shim, tasks)


async def ended(client: Client) -> bytes:
    try:
        return await client.ended()
    except ConnectionResetError:
        return b""


@pytest.mark.parametrize("route", AS_IT_IS, ids=[f"{r.key.name}-v{r.last}" for r in AS_IT_IS])
async def test_answers_that_drip_reach_whom_they_are_for(route: Route) -> None:
    """A few bytes at a time, in both directions, several requests in flight."""
    rng = random.Random(route.key)
    async with bench() as shim:
        client = await shim.client()
        requests = b"".join(frame(route, number, 60) for number in range(1, 6))
        at = 0
        while at < len(requests):
            step = rng.randint(1, 25)
            client.writer.write(requests[at : at + step])
            at += step
            await asyncio.sleep(0)
        for number in range(1, 6):
            await client.receive(number)
