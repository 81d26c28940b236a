"""A client that authenticates at a broker that does what it is told: what no real broker can be made to do."""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from protocol.errors import ErrorCode
from protocol.messages import sasl_authenticate, sasl_handshake
from shim.config import Settings
from shim.net import sasl_side
from shim.security.rights import CLUSTER
from tests.net.bench import WAIT_SECONDS, Bench, Client, bench, fetch, heartbeat, request, response, settle
from tests.waiting import until

SASL = Settings(
    upstream_security_protocol="SASL_PLAINTEXT", upstream_sasl_username="shim", upstream_sasl_password="secret"
)
TOKEN = b"\0alice\0secret"


def handshake(correlation_id: int, mechanism: str = "PLAIN", version: int = 1) -> bytes:
    asked = sasl_handshake.SaslHandshakeRequest(mechanism)
    return sasl_handshake.API.request_frame(version, correlation_id, None, asked)


def shaken(correlation_id: int, error: int = 0, *mechanisms: str) -> bytes:
    answer = sasl_handshake.SaslHandshakeResponse(error, mechanisms or ("PLAIN",))
    return sasl_handshake.API.response_frame(1, correlation_id, answer)


def authenticate(correlation_id: int, token: bytes = TOKEN) -> bytes:
    asked = sasl_authenticate.SaslAuthenticateRequest(token)
    return sasl_authenticate.API.request_frame(2, correlation_id, None, asked)


def authenticated(correlation_id: int, lifetime_ms: int = 0, error: int = 0) -> bytes:
    answer = sasl_authenticate.SaslAuthenticateResponse(error, None, b"", lifetime_ms)
    return sasl_authenticate.API.response_frame(2, correlation_id, answer)


class Talk:
    """A client and its broker, in turn."""

    def __init__(self, shim: Bench, client: Client) -> None:
        self.shim = shim
        self.client = client
        self.asked = 0

    async def say(self, frame: bytes, answer: bytes) -> None:
        """The broker gets the frame as it is, and the client what it answers."""
        self.client.writer.write(frame)
        self.asked += 1
        assert (await self.shim.broker.requests(self.asked))[-1] == frame
        self.shim.broker.connections[-1].transport.write(answer)
        await self.hears(answer)

    async def hears(self, answer: bytes) -> None:
        async with asyncio.timeout(WAIT_SECONDS):
            assert await self.client.reader.readexactly(len(answer)) == answer

    async def log_in(self, lifetime_ms: int = 0) -> None:
        await self.say(handshake(1), shaken(1))
        await self.say(authenticate(2), authenticated(2, lifetime_ms))


@asynccontextmanager
async def talk(settings: Settings = SASL) -> AsyncIterator[Talk]:
    async with bench() as shim:
        shim.settings = settings
        shim.broker.answers = False
        yield Talk(shim, await shim.client())


async def test_the_link_is_never_opened_again(caplog: pytest.LogCaptureFixture) -> None:
    """On a new one the broker would know nobody, and the shim would go on as if it did."""
    async with talk() as it:
        await it.log_in()
        it.shim.broker.connections[0].transport.close()
        assert await it.client.ended() == b""
        assert len(it.shim.broker.connections) == 1


@pytest.mark.parametrize("late", [heartbeat(3), fetch(3)], ids=["served", "passed on"])
async def test_nothing_is_taken_from_a_stranger(late: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async with talk() as it:
        it.client.writer.write(late)
        assert await it.client.ended() == b""
        assert (it.shim.runtime.parked, it.shim.broker.connections) == ([], [])
    (line,) = (record.message for record in caplog.records)
    assert line.endswith("before the client has authenticated")


async def test_nothing_is_served_while_the_broker_thinks() -> None:
    async with talk() as it:
        await it.say(handshake(1), shaken(1))
        it.client.writer.write(authenticate(2) + heartbeat(3) + fetch(4))
        await it.shim.broker.requests(2)
        assert await settle(lambda: len(it.shim.runtime.parked)) == 0
        assert len(await it.shim.broker.requests(2)) == 2
        it.shim.broker.connections[-1].transport.write(authenticated(2))
        await it.hears(authenticated(2))
        await until(lambda: len(it.shim.runtime.parked) == 1)
        assert it.shim.runtime.parked[0].connection.principal == "User:alice"


async def test_the_answer_of_a_broker_that_closes_behind_it_arrives() -> None:
    async with talk() as it:
        await it.say(handshake(1), shaken(1))
        it.client.writer.write(authenticate(2) + heartbeat(3))
        await it.shim.broker.requests(2)
        refused = authenticated(2, error=ErrorCode.SASL_AUTHENTICATION_FAILED)
        it.shim.broker.connections[-1].transport.write(refused)
        it.shim.broker.connections[-1].transport.close()
        assert await it.client.ended() == refused
        assert it.shim.runtime.parked == []


async def test_a_client_that_is_refused_is_sent_away_though_the_broker_does_not() -> None:
    async with talk() as it:
        await it.say(handshake(1), shaken(1))
        refused = authenticated(2, error=ErrorCode.SASL_AUTHENTICATION_FAILED)
        it.client.writer.write(authenticate(2) + heartbeat(3))
        await it.shim.broker.requests(2)
        it.shim.broker.connections[-1].transport.write(refused)
        assert await it.client.ended() == refused
        assert it.shim.runtime.parked == []


async def test_what_the_broker_answers_must_be_an_answer(caplog: pytest.LogCaptureFixture) -> None:
    async with talk() as it:
        it.client.writer.write(handshake(1))
        await it.shim.broker.requests(1)
        it.shim.broker.connections[-1].transport.write(response(1, 1))
        assert await it.client.ended() == b""
    assert "the broker's response cannot be followed" in caplog.text


async def test_a_session_ends_with_what_is_half_there(caplog: pytest.LogCaptureFixture) -> None:
    async with talk() as it:
        await it.log_in(lifetime_ms=60_000)
        session = it.shim.made[0]
        it.client.writer.write(heartbeat(3)[:-1])
        await until(lambda: session._requests.mid_request)
        session._sasl._expire()  # type: ignore[union-attr]  # as its timer does, which might be quicker than the client
        assert not session._requests._routes.get(12 << 16)
        it.client.writer.write(heartbeat(3)[-1:])
        assert await it.client.ended() == b""
        assert it.shim.runtime.parked == []
    assert "(User:alice): connection closed" in caplog.text
    assert "after the end of the session that the broker had granted" in caplog.text


async def test_a_session_begins_anew_and_what_was_known_of_its_rights_is_forgotten() -> None:
    async with talk() as it:
        await it.log_in(lifetime_ms=50)
        session = it.shim.made[0]
        session.rights.learn({CLUSTER: True}, asked_at=0.0)
        assert session.rights.has_all([CLUSTER], now=0.0)
        await until(lambda: not session._requests._routes.get(12 << 16))
        await it.log_in(lifetime_ms=60_000)
        assert not session.rights.known([CLUSTER], now=0.0)
        it.client.writer.write(heartbeat(3))
        await until(lambda: len(it.shim.runtime.parked) == 1)


async def test_the_link_is_kept_alive_for_a_client_that_only_the_shim_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sasl_side, "KEPT_ALIVE_SECONDS", 0.02)
    async with talk() as it:
        await it.log_in()
        broker = it.shim.broker.connections[0]
        await until(lambda: len(broker.requests) == 3)  # the client was active
        assert broker.requests[2] == request(18, 0, 0)
        it.client.writer.write(heartbeat(3))
        assert await settle(lambda: len(broker.requests)) == 3  # one at a time
        broker.transport.write(response(0))
        it.client.writer.write(heartbeat(4))
        await until(lambda: len(broker.requests) == 4)
        broker.transport.write(response(0))
        assert await settle(lambda: len(broker.requests)) == 4  # an idle client's link is the broker's to end
        it.client.writer.write(fetch(5, 100)[:50])
        assert await settle(lambda: broker.received) == sum(map(len, broker.requests)) + 50  # nothing within a request
        it.client.writer.write(fetch(5, 100)[50:])
        await until(lambda: len(broker.requests) >= 5)
        assert broker.requests[4] == fetch(5, 100)


async def test_tokens_without_a_header_are_cut_out_as_they_come() -> None:
    async with talk() as it:
        shaken_0 = shaken(1)
        await it.say(handshake(1, version=0), shaken_0)
        token = struct.pack(">i", len(TOKEN)) + TOKEN
        for position in range(len(token)):
            it.client.writer.write(token[position : position + 1])
            await asyncio.sleep(0)
        it.client.writer.write(heartbeat(3))
        broker = it.shim.broker.connections[0]
        await until(lambda: broker.received == len(handshake(1, version=0)) + len(token))
        assert await settle(lambda: len(it.shim.runtime.parked)) == 0
        broker.transport.write(bytes(4))
        await it.hears(bytes(4))
        await until(lambda: len(it.shim.runtime.parked) == 1)


async def test_a_token_that_comes_along_with_the_handshake_may_be_shorter_than_any_request() -> None:
    async with talk() as it:
        it.client.writer.write(handshake(1, version=0) + b"\0\0\0\1x")
        await it.shim.broker.requests(1)
        it.shim.broker.connections[0].transport.write(shaken(1))
        await it.hears(shaken(1))
        assert (await it.shim.broker.requests(2))[1] == b"\0\0\0\1x"


@pytest.mark.parametrize("size", [-1, 524_289])
async def test_a_token_that_cannot_be_ends_the_connection(size: int, caplog: pytest.LogCaptureFixture) -> None:
    async with talk() as it:
        await it.say(handshake(1, version=0), shaken(1))
        it.client.writer.write(struct.pack(">i", size))
        assert await it.client.ended() == b""
    assert f"a token of {size} bytes; sasl.server.max.receive.size is 524288" in caplog.text


async def test_gssapi_is_not_asked_for() -> None:
    async with talk() as it:
        it.client.writer.write(handshake(1, "GSSAPI"))
        (asked,) = await it.shim.broker.requests(1)
        assert b"GSSAPI" not in asked
        unknown = ErrorCode.UNSUPPORTED_SASL_MECHANISM
        it.shim.broker.connections[0].transport.write(shaken(1, unknown, "GSSAPI", "PLAIN"))
        it.shim.broker.connections[0].transport.close()
        assert await it.client.ended() == shaken(1, unknown, "PLAIN")


@pytest.mark.parametrize(
    ("error", "goes_on"), [(ErrorCode.ILLEGAL_SASL_STATE, True), (ErrorCode.NONE, False)], ids=["as said", "otherwise"]
)
async def test_where_brokers_are_said_to_want_no_sasl(
    error: ErrorCode, goes_on: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A broker that wants it all the same would serve nobody but whom it has accepted; so must the shim."""
    caplog.set_level(logging.INFO)
    async with talk(Settings()) as it:
        await it.say(handshake(1), shaken(1, error))
        it.client.writer.write(heartbeat(2))
        if goes_on:
            await until(lambda: len(it.shim.runtime.parked) == 1)
            refused = authenticated(3, error=ErrorCode.ILLEGAL_SASL_STATE)
            it.shim.runtime.decide = lambda call: call.answer_frame(response(call.correlation_id))
            it.shim.runtime.parked[0].answer_frame(response(2))
            await it.hears(response(2))
            await it.say(authenticate(3), refused)
        else:
            assert await it.client.ended() == b""
            assert it.shim.runtime.parked == []
            assert "upstream.security.protocol does not say so" in caplog.text


async def test_no_timer_outlives_the_connection() -> None:
    async with talk() as it:
        await it.log_in(lifetime_ms=60_000)
        side = it.shim.made[0]._sasl
        assert isinstance(side, sasl_side.SaslSide)
        timers = [side._expiry, side._look]
        it.client.writer.close()
        await until(lambda: not len(it.shim.sessions))
        assert [timer is not None and timer.cancelled() for timer in timers] == [True, True]
