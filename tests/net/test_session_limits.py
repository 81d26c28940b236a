"""What one connection may hold of the budget, and when a silent one is closed."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from protocol.errors import ErrorCode
from protocol.messages import heartbeat, join_group, offset_commit
from shim.net.budget import SMALL, RequestBudget
from tests.net.bench import Bench, BrokerConnection, Client, bench, fetch, settle
from tests.net.bench import heartbeat as beat
from tests.net.test_sasl_side import SASL, authenticate, authenticated, handshake, shaken
from tests.waiting import until

LARGE = 90_000
ANSWER = heartbeat.API.response_frame(0, 7, heartbeat.HeartbeatResponse())


def commit(correlation_id: int, size: int = LARGE) -> bytes:
    """A request about many partitions, of ``size`` bytes and some."""
    partition = offset_commit.OffsetCommitRequestPartition(0, 1, committed_metadata="m" * 1000)
    topic = offset_commit.OffsetCommitRequestTopic("t", partitions=(partition,) * (size // 1000))
    request = offset_commit.OffsetCommitRequest("g", topics=(topic,))
    return offset_commit.API.request_frame(8, correlation_id, "c", request)


def join(size: int) -> bytes:
    protocols = (join_group.JoinGroupRequestProtocol("range", bytes(size)),)
    request = join_group.JoinGroupRequest("g", 10_000, 60_000, protocol_type="consumer", protocols=protocols)
    return join_group.API.request_frame(3, 1, "c", request)


def bounded(shim: Bench, most: int) -> RequestBudget:
    shim.sessions.budget = RequestBudget(most)
    return shim.sessions.budget


async def heard(client: Client) -> bytes:
    async with asyncio.timeout(30):
        return await client.reader.read(100)


async def test_a_large_request_waits_for_room_unread_and_small_ones_go_on() -> None:
    async with bench() as shim:
        budget = bounded(shim, 100_000)
        first, second, third = [await shim.client() for _ in range(3)]
        announced = commit(1, 90_000_000)
        first.writer.write(commit(1))
        await until(lambda: len(shim.runtime.parked) == 1)
        second.writer.write(announced)
        await until(lambda: len(budget) == 1)
        sending = second.writer.transport
        await settle(sending.get_write_buffer_size)
        assert sending.get_write_buffer_size() > 80_000_000, "it is not read while there is no room for it"
        third.writer.write(beat(3))
        await until(lambda: len(shim.runtime.parked) == 2)
        shim.runtime.parked[0].fail(ErrorCode.NOT_COORDINATOR)
        await until(lambda: budget.taken == len(announced) - 4)
        await until(lambda: len(shim.runtime.parked) == 3)
        shim.runtime.parked[2].fail(ErrorCode.NOT_COORDINATOR)
        await heard(second)
        assert (budget.taken, len(budget)) == (0, 0)


@pytest.mark.parametrize("what", ["half of it sent", "not answered", "waiting"])
async def test_who_leaves_gives_its_room_back(what: str) -> None:
    async with bench() as shim:
        budget = bounded(shim, 100_000)
        client, other = await shim.client(), await shim.client()
        if what == "half of it sent":
            client.writer.write(commit(1)[:-10])
            await until(lambda: budget.taken > 0)
        elif what == "not answered":
            client.writer.write(commit(1))
            await until(lambda: len(shim.runtime.parked) == 1)
            assert budget.taken > LARGE
        else:
            other.writer.write(commit(1))
            await until(lambda: budget.taken > 0)
            client.writer.write(commit(1))
            await until(lambda: len(budget) == 1)
        shim.made[0].abort()
        assert len(budget) == 0
        if what == "waiting":
            assert budget.taken > LARGE, "the other one's"
            shim.made[1].abort()
        await until(lambda: len(shim.sessions) == (0 if what == "waiting" else 1))
        assert (budget.taken, len(budget)) == (0, 0)
        for parked in shim.runtime.parked:
            parked.fail(ErrorCode.NOT_COORDINATOR)  # too late: nobody is there
        assert budget.taken == 0


async def test_a_malformed_large_request_gives_its_room_back() -> None:
    async with bench() as shim:
        budget = bounded(shim, 1_000_000)
        client = await shim.client()
        frame = bytearray(commit(1))
        frame[40:60] = b"\xff" * 20
        client.writer.write(bytes(frame))
        assert await client.ended() == b""
        assert budget.taken == 0


async def test_a_join_that_is_parked_holds_no_room() -> None:
    """Others have to get in for it to be answered."""
    async with bench() as shim:
        budget = bounded(shim, 100_000)
        clients = [await shim.client() for _ in range(3)]
        for client in clients:
            client.writer.write(join(LARGE))
        await until(lambda: len(shim.runtime.parked) == 3)
        assert budget.taken == 0


def large_commits() -> list[bytes]:
    """Four that follow one another."""
    partition = offset_commit.OffsetCommitRequestPartition(0, 1)
    topic = offset_commit.OffsetCommitRequestTopic("t", partitions=(partition,) * (2 * SMALL // 18))
    request = offset_commit.OffsetCommitRequest("g", topics=(topic,))
    return [offset_commit.API.request_frame(8, number, "c", request) for number in range(4)]


async def test_large_requests_that_are_taken_and_answered_at_once_hold_no_room() -> None:
    async with bench() as shim:
        budget = bounded(shim, 1_000_000)
        shim.runtime.decide = lambda call: call.fail(ErrorCode.NOT_COORDINATOR)
        client = await shim.client()
        client.writer.write(b"".join(large_commits()))
        for _ in range(4):
            (size,) = struct.unpack(">i", await client.reader.readexactly(4))
            await client.reader.readexactly(size)
        assert budget.taken == 0


async def test_large_requests_that_are_taken_at_once_count_until_they_are_answered() -> None:
    async with bench() as shim:
        budget = bounded(shim, 1_000_000)
        client = await shim.client()
        frames = large_commits()
        client.writer.write(b"".join(frames))
        await until(lambda: shim.made[0]._queue.pending == 4)
        assert budget.taken >= 3 * len(frames[0])
        for parked in shim.runtime.parked:
            parked.fail(ErrorCode.NOT_COORDINATOR)
        await until(lambda: not shim.made[0]._queue.pending)
        assert budget.taken == 0


# Strangers: clients that have yet to authenticate.


TOKEN = b"\0alice\0" + bytes(LARGE)
BARE = struct.pack(">i", len(TOKEN)) + TOKEN


@asynccontextmanager
async def strangers(most: int) -> AsyncIterator[tuple[Bench, RequestBudget, RequestBudget]]:
    """Their budget, and that of all others; the broker answers nothing by itself."""
    async with bench() as shim:
        shim.settings, shim.broker.answers = SASL, False
        shim.sessions.budget = RequestBudget(most)
        shim.sessions.strangers = RequestBudget(most)
        yield shim, shim.sessions.strangers, shim.sessions.budget


async def shaken_hands(shim: Bench, version: int = 1) -> tuple[Client, BrokerConnection]:
    client = await shim.client()
    count = len(shim.broker.connections)
    client.writer.write(handshake(1, version=version))
    await until(lambda: len(shim.broker.connections) > count and bool(shim.broker.connections[-1].requests))
    broker = shim.broker.connections[-1]
    broker.transport.write(shaken(1))
    await client.reader.readexactly(len(shaken(1)))
    return client, broker


@pytest.mark.parametrize("version", [1, 0], ids=["SaslAuthenticate", "a token without a header"])
async def test_a_token_takes_room_until_the_broker_has_answered(version: int) -> None:
    token, answer = (BARE, bytes(4)) if version == 0 else (authenticate(2, TOKEN), authenticated(2))
    async with strangers(1_000_000) as (shim, theirs, others):
        client, broker = await shaken_hands(shim, version)
        client.writer.write(token[:-1])
        await until(lambda: shim.made[0]._requests.mid_request)
        assert (theirs.taken, others.taken) == (len(token) - 4, 0)
        client.writer.write(token[-1:])
        await until(lambda: len(broker.requests) == 2)
        assert (theirs.taken, others.taken) == (len(token) - 4, 0)
        broker.transport.write(answer)
        await client.reader.readexactly(len(answer))
        assert (theirs.taken, others.taken) == (0, 0)
        client.writer.write(commit(3))
        await until(lambda: len(shim.runtime.parked) == 1)
        assert theirs.taken == 0
        assert others.taken > LARGE


@pytest.mark.parametrize("version", [1, 0], ids=["SaslAuthenticate", "tokens without a header"])
async def test_strangers_that_announce_what_never_comes_keep_out_nobody_who_is_known(version: int) -> None:
    begun = BARE[:5] if version == 0 else authenticate(2, TOKEN)[:20]
    async with strangers(LARGE + 100) as (shim, theirs, others):
        known, broker = await shaken_hands(shim)
        known.writer.write(authenticate(2))
        await until(lambda: len(broker.requests) == 2)
        broker.transport.write(authenticated(2))
        await known.reader.readexactly(len(authenticated(2)))
        for _ in range(3):
            client, _ = await shaken_hands(shim, version)
            client.writer.write(begun)
        await until(lambda: len(theirs) == 2)
        known.writer.write(commit(3))
        await until(lambda: len(shim.runtime.parked) == 1)
        small, to_small = await shaken_hands(shim)
        small.writer.write(authenticate(2))
        await until(lambda: len(to_small.requests) == 2)  # nor those whose tokens are small
        assert others.taken > LARGE
        for session in shim.made[1:4]:
            session.abort()
        assert (theirs.taken, len(theirs)) == (0, 0)


async def test_half_a_token_that_drips_is_closed() -> None:
    async with strangers(1_000_000) as (shim, theirs, _):
        client, _ = await shaken_hands(shim, version=0)
        client.writer.write(BARE[:5])
        await until(lambda: theirs.taken > 0)
        session, now = shim.made[0], asyncio.get_running_loop().time()
        session.close_silent(now, 1e9, 30.0)
        client.writer.write(BARE[5:6])
        await until(lambda: sum(map(len, session._requests._collected)) == 6)
        session.close_silent(now + 30.0, 1e9, 30.0)
        assert await client.ended() == b""
        assert theirs.taken == 0


async def test_what_a_stranger_still_holds_goes_along_when_it_is_known() -> None:
    async with strangers(1_000_000) as (shim, theirs, others):
        await shaken_hands(shim)
        session = shim.made[0]
        slot = session._answers.reserve(1)
        assert session.admit(5_000)
        session._room.came(slot)
        session.is_now("User:alice", again=False)
        assert (theirs.taken, others.taken) == (0, 5_000)
        session._answers.fill(slot, b"")
        assert (theirs.taken, others.taken) == (0, 0)


# Silence.


def look(shim: Bench, seconds: float, *, unfinished: float = 1e9) -> None:
    """As if it were so many seconds after the last look."""
    now = asyncio.get_running_loop().time()
    for session in list(shim.sessions._open):
        session.close_silent(now, seconds, unfinished)
        session.close_silent(now + seconds + 0.001, seconds, unfinished)  # a sum of the clock's is not exact


async def test_an_idle_connection_is_closed_and_one_that_was_active_is_not() -> None:
    async with bench() as shim:
        idle, active = await shim.client(), await shim.client()
        active.writer.write(fetch(1))
        await active.receive(1)
        now = asyncio.get_running_loop().time()
        shim.sessions._open.discard(shim.made[1])  # looked at below, by hand
        look(shim, 100.0)
        assert await idle.ended() == b""
        session = shim.made[1]
        shim.sessions._open.add(session)
        session.close_silent(now, 100.0, 1e9)
        active.writer.write(fetch(2))
        await active.receive(2)
        session.close_silent(now + 100.0, 100.0, 1e9)
        active.writer.write(fetch(3))
        await active.receive(3)


async def test_a_connection_whose_request_the_shim_has_parked_is_not_idle() -> None:
    async with bench() as shim:
        client = await shim.client()
        client.writer.write(beat(7))
        await until(lambda: len(shim.runtime.parked) == 1)
        look(shim, 100.0)
        shim.runtime.parked[0].answer(heartbeat.HeartbeatResponse())
        async with asyncio.timeout(30):
            assert await client.reader.readexactly(len(ANSWER)) == ANSWER
        look(shim, 100.0)
        assert await client.ended() == b""


async def test_a_client_that_does_not_read_is_idle_whatever_is_unanswered() -> None:
    async with bench() as shim:
        shim.broker.answers = False
        client = await shim.client()
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        client.writer.write(fetch(1) + beat(7))
        await shim.broker.requests(1)
        shim.broker.connections[-1].respond(1, 30_000_000)
        await settle(lambda: shim.buffered)
        assert shim.buffered
        look(shim, 100.0)
        await until(lambda: not len(shim.sessions))


@pytest.mark.parametrize(
    ("part", "closed"), [(beat(7)[:5], True), (commit(1)[:-1], True), (fetch(1, 1000)[:-1], False)],
    ids=["a head", "one that the shim answers", "one that is passed on"],
)  # fmt: skip
async def test_half_a_request_that_drips_is_closed_where_a_part_of_it_is_kept(part: bytes, closed: bool) -> None:
    async with bench() as shim:
        client = await shim.client()
        client.writer.write(part[:3])
        await until(lambda: bool(shim.made) and shim.made[0]._requests.unfinished is not None)
        client.writer.write(part[3:-1])
        await until(lambda: not shim.made[0]._requests._tail or len(part) == 5)
        now = asyncio.get_running_loop().time()
        session: Any = shim.made[0]
        session.close_silent(now, 1e9, 30.0)
        session._active = False
        client.writer.write(part[-1:])
        await until(lambda: session._active)
        session.close_silent(now + 30.0, 1e9, 30.0)
        assert session._closed == closed


async def test_whole_requests_one_after_the_other_are_never_late() -> None:
    async with bench() as shim:
        client = await shim.client()
        now = asyncio.get_running_loop().time()
        for number in range(5):
            client.writer.write(fetch(number) + beat(7)[:6])
            await client.receive(number)
            shim.made[0].close_silent(now + 31.0 * number, 1e9, 30.0)
            client.writer.write(beat(7)[6:])
            await until(lambda: bool(shim.runtime.parked))
            shim.runtime.parked.pop().answer(heartbeat.HeartbeatResponse())
            async with asyncio.timeout(30):
                await client.reader.readexactly(len(ANSWER))
        assert not shim.made[0]._closed
