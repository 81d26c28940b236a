"""A client connection as a whole: what it holds, when it stops, how it ends. On both event loops."""

from __future__ import annotations

import asyncio
import gc
import logging
import struct
from collections.abc import Collection
from typing import Any

import pytest

from protocol.errors import ErrorCode
from protocol.messages import offset_commit
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from shim.config import HostPort
from shim.net import session as session_module
from shim.net.answers import MAX_PENDING
from shim.net.broker_side import BrokerSide
from shim.net.overdue import Overdue
from shim.upstream.cluster_topics import View
from shim.upstream.read_buffer import READ_BYTES
from tests.following.believed import QUICK, Brokers, topics_of
from tests.net.bench import WAIT_SECONDS, Client, bench, fetch, heartbeat, produce, request, response, settle
from tests.waiting import until

BIG = 100_000
NOT_THERE = ErrorCode.COORDINATOR_NOT_AVAILABLE
API_VERSIONS = request(18, 0, 1)


def with_a_big_frame(call: Any) -> None:
    call.answer_frame(response(call.correlation_id, BIG))


def with_a_frame(call: Any) -> None:
    call.answer_frame(response(call.correlation_id))


# What is held, and when it stops.


async def test_a_client_that_asks_and_does_not_read_is_not_served_on() -> None:
    count, most = 300, 0
    async with bench() as shim:

        def decide(call: Any) -> None:
            nonlocal most
            with_a_big_frame(call)
            most = max(most, shim.buffered)

        shim.runtime.decide = decide
        client = await shim.client()
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        client.writer.write(b"".join(heartbeat(number) for number in range(count)))
        await until(lambda: bool(shim.runtime.parked))
        assert await settle(lambda: len(shim.runtime.parked)) < count
        client.writer.transport.resume_reading()  # type: ignore[attr-defined]
        for number in range(count):
            await client.receive(number, BIG)
        assert most <= 3 * BIG


async def test_who_waits_until_an_answer_is_taken_waits_until_the_client_has_read_it() -> None:
    """Also behind one that is not there yet."""
    size = 30_000_000
    taken: list[int] = []

    async def follow_up(call: Any) -> None:
        call.answer_frame(response(call.correlation_id, size if call.correlation_id else 4))
        await call.connection.taken()
        taken.append(call.correlation_id)
        call.connection.resume_requests()

    def decide(call: Any) -> None:
        if call.correlation_id == 1:
            return
        call.connection.pause_requests()
        call.connection.follow(follow_up(call))

    async with bench() as shim:
        shim.runtime.decide = decide
        client = await shim.client()
        client.writer.write(heartbeat(0))
        await client.receive(0)
        await until(lambda: taken == [0])
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        client.writer.write(heartbeat(1) + heartbeat(2) + heartbeat(3))
        await until(lambda: len(shim.runtime.parked) == 3)
        await settle(lambda: len(shim.runtime.parked))
        with_a_frame(shim.runtime.parked[1])
        assert await settle(lambda: shim.buffered)
        assert (taken, len(shim.runtime.parked)) == ([0], 3)
        client.writer.transport.resume_reading()  # type: ignore[attr-defined]
        await client.receive(1)
        await client.receive(2, size)
        await client.receive(3, size)
        await until(lambda: taken == [0, 2, 3])


async def test_who_waits_until_an_answer_is_taken_ends_with_the_client() -> None:
    ended: list[bool] = []

    async def follow_up(call: Any) -> None:
        call.answer_frame(response(call.correlation_id, 30_000_000))
        try:
            await call.connection.taken()
        finally:
            ended.append(True)

    def decide(call: Any) -> None:
        call.connection.pause_requests()
        call.connection.follow(follow_up(call))

    async with bench() as shim:
        shim.runtime.decide = decide
        client = await shim.client()
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        client.writer.write(heartbeat(1))
        await until(lambda: bool(shim.buffered))
        assert not ended
        client.writer.transport.abort()
        await until(lambda: ended == [True])


async def test_no_more_requests_are_taken_than_may_be_pending_and_all_are_answered() -> None:
    count = 3 * MAX_PENDING
    async with bench() as shim:
        client = await shim.client()
        client.writer.write(b"".join(heartbeat(number) for number in range(count)))
        await until(lambda: len(shim.runtime.parked) >= MAX_PENDING)
        assert await settle(lambda: len(shim.runtime.parked)) == MAX_PENDING
        shim.runtime.decide = with_a_frame
        for call in list(shim.runtime.parked):
            with_a_frame(call)
        for number in range(count):
            await client.receive(number)


async def test_commits_that_are_taken_at_once_are_counted_and_answered_one_by_one() -> None:
    """Whatever of them is read together."""
    count = 2 * MAX_PENDING + 100
    topic = OffsetCommitRequestTopic("t", partitions=(OffsetCommitRequestPartition(3, 5),))
    commit = OffsetCommitRequest("g", topics=(topic,))
    refused = OffsetCommitResponse(
        topics=(OffsetCommitResponseTopic("t", partitions=(OffsetCommitResponsePartition(3, NOT_THERE),)),)
    )
    async with bench() as shim:
        client = await shim.client()
        frames = [offset_commit.API.request_frame(9, number, "c", commit) for number in range(count)]
        client.writer.write(b"".join(frames))
        (session,) = shim.made
        await until(lambda: session._queue.pending >= MAX_PENDING)
        assert await settle(lambda: session._queue.pending) == MAX_PENDING
        assert len(shim.runtime.parked) < MAX_PENDING
        shim.runtime.decide = lambda ticket: ticket.fail(NOT_THERE)
        for ticket in list(shim.runtime.parked):
            ticket.fail(NOT_THERE)
        expected = b"".join(offset_commit.API.response_frame(9, number, refused) for number in range(count))
        async with asyncio.timeout(WAIT_SECONDS):
            assert await client.reader.readexactly(len(expected)) == expected
        assert session._queue.pending == 0


async def test_a_stream_that_went_on_late_lets_the_client_go_on() -> None:
    """The responses that had to wait behind a slow answer are the last ones that were owed."""
    async with bench() as shim:
        client = await shim.client()
        client.writer.write(heartbeat(0) + b"".join(fetch(number) for number in range(1, MAX_PENDING)))
        await shim.broker.requests(MAX_PENDING - 1)
        await settle(lambda: len(shim.runtime.parked))
        with_a_frame(shim.runtime.parked[0])
        for number in range(MAX_PENDING):
            await client.receive(number)
        client.writer.write(fetch(7))
        await client.receive(7)


async def test_a_client_that_does_not_read_stops_the_broker() -> None:
    size = 30_000_000
    async with bench() as shim:
        shim.broker.answers = False
        client = await shim.client()
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        client.writer.write(fetch(1))
        await shim.broker.requests(1)
        broker = shim.broker.connections[-1]
        broker.respond(1, size)
        await settle(broker.transport.get_write_buffer_size)
        assert broker.full
        assert shim.buffered <= 2 * READ_BYTES
        client.writer.transport.resume_reading()  # type: ignore[attr-defined]
        await client.receive(1, size)


async def test_what_waits_for_a_slow_client_is_not_written_over() -> None:
    """All connections are read into the same memory: the responses of one must not show in those of another."""
    size, large, rounds = 4_000_000, 20_000_000, 12
    async with bench() as shim:
        shim.broker.answers = False
        slow = await shim.client()
        slow.writer.transport.pause_reading()  # type: ignore[attr-defined]
        slow.writer.write(fetch(1))
        await shim.broker.requests(1)
        to_slow = shim.broker.connections[-1]
        to_slow.respond(1, large)
        assert await settle(to_slow.transport.get_write_buffer_size)
        assert shim.buffered
        quick = await shim.client()
        quick.writer.write(b"".join(fetch(100 + number) for number in range(rounds)))
        await until(lambda: len(shim.broker.connections) == 2)
        await shim.broker.requests(rounds)
        for number in range(rounds):
            shim.broker.connections[-1].respond(100 + number, size)
            await quick.receive(100 + number, size)
        slow.writer.transport.resume_reading()  # type: ignore[attr-defined]
        await slow.receive(1, large)


async def test_what_waits_for_a_slow_broker_is_not_written_over() -> None:
    size, large, rounds = 4_000_000, 60_000_000, 6
    async with bench() as shim:
        shim.broker.reads = False
        slow = await shim.client()
        slow.writer.write(filled(1, b"s", large))
        await until(lambda: bool(shim.broker.connections))
        assert await settle(slow.writer.transport.get_write_buffer_size)
        to_slow = shim.broker.connections[-1]
        shim.broker.reads = True
        quick = await shim.client()
        for number in range(rounds):
            quick.writer.write(filled(100 + number, b"q", size))
            await quick.receive(100 + number)
        to_slow.transport.resume_reading()
        await slow.receive(1)
        assert to_slow.requests == [filled(1, b"s", large)]


def filled(correlation_id: int, byte: bytes, size: int) -> bytes:
    """A Produce request."""
    return request(0, 3, correlation_id, struct.pack(">hh", -1, 1) + byte * size)


async def test_a_broker_that_does_not_read_stops_the_client() -> None:
    size = 30_000_000
    async with bench() as shim:
        shim.broker.reads = False
        client = await shim.client()
        client.writer.write(produce(1, 1, size=size))
        await until(lambda: bool(shim.broker.connections))
        sending = client.writer.transport
        assert await settle(sending.get_write_buffer_size) > 1_000_000
        shim.broker.connections[-1].transport.resume_reading()
        assert await shim.broker.requests(1) == [produce(1, 1, size=size)]
        await client.receive(1)


class Listening:
    """A client's half that writes down what it is told."""

    mid_passing = False

    def __init__(self) -> None:
        self.written = b""
        self.drained = 0
        self.full = 0
        self.failed: list[str] = []

    def write(self, data: bytes | memoryview) -> None:
        self.written += data

    def responding(self) -> None:
        pass

    def broker_full(self) -> None:
        self.full += 1

    def broker_drained(self) -> None:
        self.drained += 1

    def responded(self) -> None: ...

    def broker_failed(self, reason: str, *, level: int) -> None:
        self.failed.append(reason)

    def crashed(self, error: BaseException) -> None:
        raise error


async def test_a_link_opened_while_the_client_is_full_is_not_read_from() -> None:
    async with bench() as shim:
        client = Listening()
        side = BrokerSide(client, client.write, lambda: shim.addresses, 5.0, overdue=Overdue(5.0, 5.0))
        side.expect_stream(1)
        side.pass_on(fetch(1))
        await until(lambda: client.written == response(1))
        side.client_full(True)
        shim.broker.connections[0].transport.close()
        side.client_full(False)  # a link that is not read from does not learn of its end
        await until(lambda: client.drained == 2)
        side.client_full(True)
        side.expect_stream(2)
        side.pass_on(fetch(2))
        await until(lambda: len(shim.broker.connections) == 2)
        await shim.broker.requests(1)
        assert await settle(lambda: len(client.written)) == len(response(1))
        side.client_full(False)
        await until(lambda: client.written == response(1) + response(2))
        side.close("over")
        assert client.failed == []


@pytest.mark.own_ids
@pytest.mark.parametrize("answers", ["its own", "another's"])
async def test_an_answer_to_another_question_decides_nothing(answers: str) -> None:
    """A client that had the two sides count its requests differently knows its own ids, not that of the question."""
    async with bench() as shim:
        shim.broker.answers = False
        client = Listening()
        side = BrokerSide(client, client.write, lambda: shim.addresses, 5.0, overdue=Overdue(5.0, 5.0))
        asked = [asyncio.ensure_future(side.ask(API_VERSIONS)) for _ in range(2)]
        sent = await shim.broker.requests(2)
        ids = [int.from_bytes(frame[8:12], "big", signed=True) for frame in sent]
        assert ids[0] != ids[1]
        assert 1 not in ids, "the client's"
        shim.broker.connections[0].respond(ids[0] if answers == "its own" else 1)
        if answers == "its own":
            answer = response(ids[0])
            assert await asked[0] == answer[:4] + response(1)[4:8] + answer[8:], "under the client's id"
        else:
            await until(lambda: len(client.failed) == 1)
            assert "cannot be followed" in client.failed[0]
            assert not asked[0].done()
        side.close("over")


async def test_who_asked_the_broker_hears_of_the_end() -> None:
    async with bench() as shim:
        shim.broker.answers = False
        client = Listening()
        side = BrokerSide(client, client.write, lambda: shim.addresses, 5.0, overdue=Overdue(5.0, 5.0))
        asked = side.ask(API_VERSIONS)
        await shim.broker.requests(1)
        side.close("the client has left")
        with pytest.raises(ConnectionError, match="the client has left"):
            await asked
        with pytest.raises(ConnectionError, match="the client is gone"):
            await side.ask(API_VERSIONS)
        await until(lambda: shim.broker.connections[0].lost)


# How it ends.


async def test_a_client_that_leaves_takes_its_link_and_its_tasks_along(caplog: pytest.LogCaptureFixture) -> None:
    async with bench() as shim:
        shim.broker.answers = False
        client = await shim.client()
        client.writer.write(heartbeat(0) + API_VERSIONS)
        await shim.broker.requests(1)
        tasks = list(shim.made[0]._background._tasks)
        assert len(tasks) == 1
        client.writer.close()
        await until(lambda: shim.broker.connections[0].lost and tasks[0].done() and not len(shim.sessions))
        with_a_frame(shim.runtime.parked[0])  # nobody is there any more
    assert caplog.records == []


async def test_an_idle_link_that_the_broker_gives_up_is_opened_again() -> None:
    async with bench() as shim:
        client = await shim.client()
        for number in range(3):
            client.writer.write(fetch(number))
            await client.receive(number)
            shim.broker.connections[number].transport.close()
            await until(lambda: shim.made[0]._broker._link is None)
        assert len(shim.broker.connections) == 3


@pytest.mark.parametrize(
    "sent",
    [produce(1, 0), fetch(1), fetch(1, 100)[:50], produce(1, 0, size=100)[:50]],
    ids=["nobody knows whether it arrived", "unanswered", "begun", "begun, without a response"],
)
async def test_a_broker_that_leaves_with_something_open_ends_the_clients_connection(
    sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "shim.net")
    async with bench() as shim:
        shim.broker.answers = False
        client = await shim.client()
        client.writer.write(sent)
        await until(lambda: bool(shim.broker.connections) and shim.broker.connections[0].received == len(sent))
        shim.broker.connections[0].transport.close()
        assert await client.ended() == b""
    assert [r.message.split(": ", 1)[1] for r in caplog.records] == [
        "connection closed: lost the broker: closed by the broker"
    ]


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        (HostPort("127.0.0.1", 1), "127.0.0.1:1: Connection refused"),
        (HostPort("a..b", 9092), "a..b:9092: no such address can be"),
        (HostPort("x" * 70, 9092), "xxx:9092: no such address can be"),
        (HostPort("127.0.0.1", 70_000), "127.0.0.1:70000: "),
        (None, "the broker has left the cluster"),
    ],
)
async def test_a_broker_that_cannot_be_reached_ends_the_clients_connection(
    address: HostPort | None, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "shim.net")
    async with bench() as shim:
        shim.addresses = [] if address is None else [address]
        client = await shim.client()
        client.writer.write(fetch(1))
        assert await client.ended() == b""
    record = caplog.records[-1]
    assert record.levelno == logging.DEBUG
    assert "lost the broker: " in record.message
    assert reason in record.message


async def test_a_broker_that_cannot_be_reached_has_one_line_for_all_clients(caplog: pytest.LogCaptureFixture) -> None:
    async with bench() as shim:
        there, shim.addresses = shim.addresses, [HostPort("127.0.0.1", 1)]

        async def cut_off() -> None:
            client = await shim.client()
            client.writer.write(fetch(1))
            assert await client.ended() == b""

        await cut_off()
        await cut_off()
        expected = "clients have no broker at 127.0.0.1:1 for now: Connection refused"
        assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == [expected]
        shim.addresses = there
        client = await shim.client()
        client.writer.write(fetch(1))
        await client.receive(1)


async def test_a_broker_that_answers_something_else_is_named(caplog: pytest.LogCaptureFixture) -> None:
    async with bench() as shim:
        shim.broker.answers = False
        wrong, garbled = await shim.client(), await shim.client()
        wrong.writer.write(fetch(1))
        await shim.broker.requests(1)
        shim.broker.connections[-1].respond(2)
        assert await wrong.ended() == b""
        garbled.writer.write(produce(1, 1, version=10)[:-8] + b"\0" * 8)
        await until(lambda: len(shim.broker.connections) == 2)
        await shim.broker.requests(1)
        shim.broker.connections[-1].respond(1, 3)
        assert await garbled.ended() == b""
    assert len(caplog.records) == 2
    assert all("the broker's response cannot be followed: " in r.message for r in caplog.records)
    assert all(r.exc_info is None for r in caplog.records)


async def test_a_malformed_request_is_named(caplog: pytest.LogCaptureFixture) -> None:
    async with bench() as shim:
        client = await shim.client()
        client.writer.write(request(12, 0, 1))
        assert await client.ended() == b""
    (record,) = caplog.records
    assert "malformed request: HeartbeatRequest" in record.message


async def ask_with_a_bug(client: Client, shim: Any, where: str) -> None:
    def fail(call: Any) -> None:
        raise ValueError("a bug")

    shim.runtime.decide = fail
    if where == "deciding":
        client.writer.write(heartbeat(1))
    else:  # one broker's address, as a tagged field, for which the services are asked
        endpoint = b"\x00\x00\x00\x01\x02h\x00\x00\x00\x09\x00\x00"
        tagged = b"\x01\x00" + bytes([1 + len(endpoint)]) + b"\x02" + endpoint
        body = b"\x00" + b"\x01" + b"\x00\x00\x00\x00" + tagged
        client.writer.write(request(0, 10, 1, b"\0" + b"\0" + b"\xff\xff" + bytes(8)))
        await shim.broker.requests(1)
        shim.broker.connections[-1].transport.write((4 + len(body)).to_bytes(4, "big") + b"\0\0\0\1" + body)


@pytest.mark.parametrize("where", ["deciding", "rewriting"])
async def test_a_bug_is_logged_as_one_and_ends_that_connection_only(
    where: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with bench() as shim:
        shim.broker.answers = False
        other, client = await shim.client(), await shim.client()
        await ask_with_a_bug(client, shim, where)
        assert await client.ended() == b""
        shim.broker.answers = True
        other.writer.write(fetch(5))
        await other.receive(5)
    bug, line = caplog.records
    assert bug.exc_info is not None
    assert isinstance(bug.exc_info[1], ValueError)
    assert line.message.endswith("connection closed: internal error")


async def test_a_client_that_leaves_before_its_response_is_rewritten_leaves_nothing_behind() -> None:
    """Python would warn of a coroutine that was never awaited, which is an error here."""

    async def rewrite(services: Any, version: int, frame: bytes) -> bytes:
        return frame

    async with bench() as shim:
        await shim.client()
        (session,) = shim.made
        session._rewrite(session._answers.reserve(1), rewrite, 1, b"response")
        session.abort()
        await until(lambda: not session._background._tasks)
    gc.collect()


async def test_a_closed_connection_whose_client_does_not_read_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "LINGER_SECONDS", 0.05)
    async with bench() as shim:
        await close_with_bytes_unread(shim)
        await until(lambda: not len(shim.sessions))


async def close_with_bytes_unread(shim: Any) -> Client:
    shim.runtime.decide = with_a_big_frame
    client: Client = await shim.client()
    client.writer.transport.pause_reading()  # type: ignore[attr-defined]
    client.writer.write(b"".join(heartbeat(number) for number in range(300)))
    await until(lambda: bool(shim.runtime.parked))
    await settle(lambda: len(shim.runtime.parked))
    assert shim.buffered
    shim.made[0].give_up("over")
    return client


# Drain.


async def drained(shim: Any, timeout_seconds: float = WAIT_SECONDS) -> None:
    """Ends when everything is answered, not by its time-out."""
    async with asyncio.timeout(timeout_seconds - 1):
        await shim.sessions.drain(timeout_seconds)


@pytest.mark.parametrize("whole", [fetch(1, 1000), produce(1, 1, size=1000)], ids=["fetch", "produce"])
async def test_drain_lets_a_request_that_has_begun_end(whole: bytes) -> None:
    async with bench() as shim:
        client = await shim.client()
        client.writer.write(whole[:100])
        await until(lambda: bool(shim.broker.connections) and shim.broker.connections[0].received == 100)
        draining = asyncio.create_task(drained(shim))
        await asyncio.sleep(0)
        client.writer.write(whole[100:500])
        await until(lambda: shim.broker.connections[0].received == 500)
        client.writer.write(whole[500:] + fetch(2))
        assert await client.ended() == response(1)
        await draining
        assert shim.broker.connections[0].requests == [whole]


async def test_drain_lets_a_request_without_a_response_end() -> None:
    whole = produce(1, 0, size=1000)
    async with bench() as shim:
        shim.broker.answers = False
        client = await shim.client()
        client.writer.write(whole[:100])
        await until(lambda: bool(shim.broker.connections) and shim.broker.connections[0].received == 100)
        draining = asyncio.create_task(drained(shim))
        await asyncio.sleep(0)
        client.writer.write(whole[100:])
        assert await client.ended() == b""
        await draining
        assert await shim.broker.requests(1) == [whole]


async def test_drain_ends_when_a_stream_that_went_on_late_has_ended(caplog: pytest.LogCaptureFixture) -> None:
    async with bench() as shim:
        client = await shim.client()
        client.writer.write(heartbeat(0) + fetch(1) + fetch(2) + fetch(3))
        await shim.broker.requests(3)
        await settle(lambda: len(shim.runtime.parked))
        draining = asyncio.create_task(drained(shim))
        await asyncio.sleep(0)
        with_a_frame(shim.runtime.parked[0])
        assert await client.ended() == b"".join(response(number) for number in range(4))
        await draining
    assert caplog.records == []


async def test_drain_cuts_off_who_does_not_read(caplog: pytest.LogCaptureFixture) -> None:
    async with bench() as shim:
        client = await close_with_bytes_unread(shim)
        assert len(shim.sessions) == 1
        await shim.sessions.drain(0.05)
        await until(lambda: not len(shim.sessions))
        assert not client.writer.is_closing()
    assert "1 connection cut off with requests unanswered or answers unread" in caplog.messages


async def test_drain_waits_for_answers_that_are_on_their_way() -> None:
    async with bench() as shim:
        client = await close_with_bytes_unread(shim)
        draining = asyncio.create_task(drained(shim))
        taken = len(shim.runtime.parked)
        client.writer.transport.resume_reading()  # type: ignore[attr-defined]
        assert await client.ended() == b"".join(response(number, BIG) for number in range(taken))
        await draining


async def test_who_comes_during_the_drain_is_sent_away() -> None:
    async with bench() as shim:
        await shim.sessions.drain(0)
        client = await shim.client()
        client.writer.write(heartbeat(1))
        assert await client.ended() == b""
        assert shim.runtime.parked == []


async def test_a_parked_request_is_failed_and_then_the_connection_ends() -> None:
    async with bench() as shim:
        client = await shim.client()
        client.writer.write(heartbeat(1))
        await until(lambda: bool(shim.runtime.parked))
        draining = asyncio.create_task(drained(shim))
        await asyncio.sleep(0)
        shim.runtime.parked[0].fail(ErrorCode.NOT_COORDINATOR)
        assert (await client.ended())[4:] == b"\0\0\0\1" + ErrorCode.NOT_COORDINATOR.to_bytes(2, "big")
        await draining


async def test_what_is_behind_a_commit_for_a_topic_that_has_to_be_asked_for_waits() -> None:
    class Asked(Brokers):
        may_answer = asyncio.Event()

        async def one(self, names: Collection[str]) -> View:
            view = await super().one(names)
            await self.may_answer.wait()
            return view

    brokers = Asked()
    brokers.make("new")
    partitions = (OffsetCommitRequestPartition(0, 5),)
    topics = (OffsetCommitRequestTopic("new", partitions=partitions),)
    frame = offset_commit.API.request_frame(8, 1, "me", OffsetCommitRequest("g", topics=topics))
    async with bench() as shim:
        shim.services = shim.services._replace(topics=topics_of(brokers, QUICK._replace(wait=WAIT_SECONDS)))
        shim.runtime.decide = lambda call: call.answer_frame(response(call.correlation_id))
        client, other = await shim.client(), await shim.client()
        client.writer.write(frame + heartbeat(2))
        await until(lambda: bool(brokers.asked_one))
        client.writer.write(heartbeat(3))
        other.writer.write(heartbeat(4))
        await other.receive(4)
        assert await settle(lambda: len(shim.runtime.parked)) == 1, "the other's alone"
        # The first is decided now, by a ticket of its own, and the runtime of this test cannot answer that.
        shim.runtime.decide = lambda call: (
            call.answer_frame(response(call.correlation_id)) if hasattr(call, "answer_frame") else call.fail(NOT_THERE)
        )
        brokers.may_answer.set()
        async with asyncio.timeout(WAIT_SECONDS):
            (size,) = struct.unpack(">i", await client.reader.readexactly(4))
            correlation_id, answer = offset_commit.API.parse_response(8, await client.reader.readexactly(size))
        assert (correlation_id, answer.topics[0].partitions[0].error_code) == (1, NOT_THERE)
        await client.receive(2)
        await client.receive(3)
