"""Nothing of a connection that has ended waits for Python's collector, which a server has look seldom (shim.main): one
that is flooded would hold all of them until then.
"""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from tests.certificates import Authority
from tests.net.bench import Bench, Client, bench, fetch, heartbeat, settle
from tests.net.test_sasl_side import SASL, TOKEN, Talk, authenticate, authenticated, handshake, shaken
from tests.net.tls_bench import tls_bench
from tests.waiting import until

ROOMS = ("shim.net", "shim.tls", "shim.upstream.link", "shim.api.call")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


async def silent(shim: Bench, client: Client) -> None:
    """It has not asked for anything."""


async def answered(shim: Bench, client: Client) -> None:
    client.writer.write(fetch(1))
    await client.receive(1)


async def in_the_middle(shim: Bench, client: Client) -> None:
    """Of a request that is passed on, and of its answer."""
    client.writer.write(fetch(1) + fetch(2, 1_000)[:500])
    await client.receive(1)
    await until(lambda: shim.broker.connections[-1].received > 500)


async def collected(shim: Bench, client: Client) -> None:
    """In the middle of one that the shim answers."""
    client.writer.write(heartbeat(1)[:-1])
    await until(lambda: shim.made[-1]._requests.mid_request)


async def parked(shim: Bench, client: Client) -> None:
    """Its request has not been decided, and a stream waits behind it."""
    client.writer.write(heartbeat(1) + fetch(2))
    await shim.broker.requests(1)
    await until(lambda: len(shim.runtime.parked) == 1)


async def unconnected(shim: Bench, client: Client) -> None:
    """Nobody answers at the broker's address."""
    shim.addresses.clear()
    client.writer.write(fetch(1))
    assert await client.ended() == b""


async def logged_in(shim: Bench, client: Client) -> None:
    shim.broker.answers = False
    await Talk(shim, client).log_in(lifetime_ms=60_000)


async def draining(shim: Bench, client: Client) -> None:
    """The answer that logs it in is the last one that it is owed."""
    shim.broker.answers = False
    await Talk(shim, client).say(handshake(1), shaken(1))
    client.writer.write(authenticate(2))
    await shim.broker.requests(2)
    shim.made[-1].drain()
    shim.broker.connections[-1].transport.write(authenticated(2, 60_000))
    assert await client.ended() == authenticated(2, 60_000)


async def in_tokens(shim: Bench, client: Client) -> None:
    """Without headers."""
    shim.broker.answers = False
    talk = Talk(shim, client)
    await talk.say(handshake(1, version=0), shaken(1))
    await talk.say(len(TOKEN).to_bytes(4, "big") + TOKEN, bytes(4))


State = Callable[[Bench, Client], Awaitable[None]]
PLAIN: tuple[State, ...] = (silent, answered, in_the_middle, collected, parked, unconnected)


async def freed(shim: Bench, connect: Callable[[], Awaitable[Client]], state: State) -> Counter[str]:
    """What is left, of each kind, of three connections that came into a state and ended."""
    addresses = list(shim.addresses)

    async def come_and_go() -> None:
        client = await connect()
        await state(shim, client)
        client.writer.transport.abort()
        await until(lambda: not len(shim.sessions) and all(c.lost for c in shim.broker.connections))
        shim.addresses[:] = addresses
        for kept in (shim.made, shim._clients, shim.runtime.parked, shim.broker.connections):
            kept.clear()

    await come_and_go()  # what is made once is made now
    gc.collect()
    before = _kinds()
    gc.disable()
    try:
        for _ in range(3):
            await come_and_go()
        await settle(lambda: len(asyncio.all_tasks()))
        return _kinds() - before
    finally:
        gc.enable()


def _kinds() -> Counter[str]:
    kinds = map(type, gc.get_objects())
    return Counter(kind.__qualname__ for kind in kinds if str(kind.__module__).startswith(ROOMS))


@pytest.mark.parametrize("state", PLAIN)
async def test_of_a_plain_connection(state: State) -> None:
    async with bench() as shim:
        assert await freed(shim, shim.client, state) == Counter()


async def test_of_one_that_is_gone_before_it_is_accepted() -> None:
    """Its socket has no other end any more."""

    class Gone(asyncio.Transport):
        def get_extra_info(self, name: str, default: object = None) -> None:
            return None

        def abort(self) -> None:
            asyncio.get_running_loop().call_soon(shim.made.pop().connection_lost, None)

    async with bench() as shim:
        gc.collect()
        before = _kinds()
        gc.disable()
        try:
            shim.session().connection_made(Gone())
            await until(lambda: not shim.made)
            await settle(lambda: len(asyncio.all_tasks()))
            assert _kinds() - before == Counter()
        finally:
            gc.enable()


@pytest.mark.parametrize("state", [logged_in, draining, in_tokens])
async def test_of_one_that_authenticates(state: State) -> None:
    async with bench() as shim:
        shim.settings = SASL
        assert await freed(shim, shim.client, state) == Counter()


@pytest.mark.parametrize("state", [silent, answered, in_the_middle, parked])
async def test_of_one_behind_tls(authority: Authority, state: State) -> None:
    async with tls_bench(authority) as shim:
        assert await freed(shim, shim.tls_client, state) == Counter()
