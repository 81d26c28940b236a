"""Rules for faults, on a connection on which SASL tokens go without a header: none takes one for a request."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from protocol.apis import ApiKey
from protocol.errors import ErrorCode
from protocol.messages import heartbeat as heartbeats
from protocol.messages import sasl_handshake
from shim.config import Settings
from shim.faults import Faults, FaultySession
from shim.faults.rules import Rule
from tests.net.bench import HOST, Bench, Client, bench, fetch, heartbeat, response
from tests.waiting import until

SASL = Settings(
    upstream_security_protocol="SASL_PLAINTEXT", upstream_sasl_username="shim", upstream_sasl_password="secret"
)
HANDSHAKE = sasl_handshake.API.request_frame(0, 1, None, sasl_handshake.SaslHandshakeRequest("SCRAM-SHA-256"))
# As they may be: what stands where requests have their API and version is one that there is.
TOKENS = [struct.pack(">ihhih", 10, ApiKey.FETCH, 4, 99, -1), b"\0\0\0\4n,,x"]
ANSWERS = [struct.pack(">i", 4) + b"r=xy", struct.pack(">i", 3) + b"v=z"]


def shaken(error: int = 0) -> bytes:
    answer = sasl_handshake.SaslHandshakeResponse(error, ("SCRAM-SHA-256",))
    return sasl_handshake.API.response_frame(0, 1, answer)


def beat(correlation_id: int, error: ErrorCode = ErrorCode.NONE) -> bytes:
    return heartbeats.API.response_frame(0, correlation_id, heartbeats.HeartbeatResponse(error_code=error))


@asynccontextmanager
async def faulty(*rules: Rule) -> AsyncIterator[tuple[Bench, Client]]:
    async with bench() as shim:
        shim.settings = SASL
        shim.broker.answers = False
        shim.runtime.decide = lambda call: call.answer(heartbeats.HeartbeatResponse())
        faults = Faults(rules)
        front = await asyncio.get_running_loop().create_server(lambda: FaultySession(shim.session(), faults), HOST, 0)
        shim.port = front.sockets[0].getsockname()[1]
        try:
            yield shim, await shim.client()
        finally:
            front.close()


async def hears(client: Client, wanted: bytes) -> None:
    async with asyncio.timeout(30):
        assert await client.reader.readexactly(len(wanted)) == wanted


@pytest.mark.parametrize("at_once", [True, False], ids=["all at once", "in turn"])
async def test_rules_are_not_about_tokens(at_once: bool) -> None:
    rules = [
        Rule("drop", "request", ApiKey.FETCH, times=1),  # the first Fetch: a token is none
        Rule("error", "response", ApiKey.HEARTBEAT, error=ErrorCode.NOT_COORDINATOR, times=1),
        Rule("cut", "response", skip=3),  # any: the handshake, and two beats
    ]
    async with faulty(*rules) as (shim, client):
        said = [HANDSHAKE, *TOKENS, heartbeat(2) + heartbeat(3) + fetch(4)]
        if at_once:
            client.writer.write(b"".join(said))
        for number, answer in enumerate((shaken(), *ANSWERS)):
            if not at_once:
                client.writer.write(said[number])
            await until(lambda n=number: sum(map(len, said[: n + 1])) <= shim_received(shim))  # type: ignore[misc]
            shim.broker.connections[0].transport.write(answer)
            await hears(client, answer)
        if not at_once:
            client.writer.write(said[-1])
        await hears(client, beat(2, ErrorCode.NOT_COORDINATOR) + beat(3))
        assert shim_received(shim) == sum(map(len, said[:-1])), "the Fetch was dropped"


def shim_received(shim: Bench) -> int:
    return shim.broker.connections[0].received if shim.broker.connections else 0


async def test_after_a_handshake_that_was_refused_no_tokens_are_expected() -> None:
    async with faulty(Rule("drop", "request", ApiKey.FETCH)) as (shim, client):
        client.writer.write(HANDSHAKE + fetch(2))
        await shim.broker.requests(1)
        refused = shaken(ErrorCode.UNSUPPORTED_SASL_MECHANISM)
        shim.broker.connections[0].transport.write(refused)
        assert await client.ended() == refused
        assert len(shim.broker.connections[0].requests) == 1


async def test_an_answer_that_is_delayed_comes_before_the_end(caplog: pytest.LogCaptureFixture) -> None:
    async with faulty(Rule("delay", "response", delay_seconds=0.1)) as (shim, client):
        client.writer.write(HANDSHAKE)
        await shim.broker.requests(1)
        refused = shaken(ErrorCode.UNSUPPORTED_SASL_MECHANISM)
        shim.broker.connections[0].transport.write(refused)
        assert await client.ended() == refused


async def test_an_error_for_an_answer_that_nobody_asked_for_leaves_it_as_it_is() -> None:
    """That would be a bug of the shim's: it is to be seen."""
    async with faulty(Rule("error", "response", error=ErrorCode.NOT_COORDINATOR)) as (shim, client):
        await until(lambda: bool(shim.made))
        transport = shim.made[0]._transport
        assert transport is not None
        transport.write(response(5))
        await client.receive(5)
