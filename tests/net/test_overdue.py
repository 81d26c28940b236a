"""What the broker owes the shim itself, and does not answer."""

from __future__ import annotations

import logging

import pytest

from protocol.messages import api_versions
from shim.config import Settings
from shim.net.order import ResponseQueue
from shim.net.overdue import Overdue
from shim.net.responses import Expected, ResponseReader
from tests.net.bench import bench, fetch, response
from tests.waiting import until

ASKED = api_versions.API.request_frame(0, 7, None, api_versions.ApiVersionsRequest())


def test_an_answer_is_late_from_when_nothing_else_is_due() -> None:
    reader = ResponseReader(ResponseQueue(lambda data: None, lambda: None))
    overdue = Overdue(8.0, 80.0)
    assert overdue.pause_seconds == 1.0

    def late(now: float, *, heard: bool = False) -> str:
        return (overdue.look(now, reader.next, heard=heard) or "").partition("(")[2]

    reader.expect_stream(1)
    reader.expect_whole(2, lambda frame: None, prompt=True)
    reader.expect_whole(3, lambda frame: None)
    assert not any(late(now) for now in range(80))
    assert late(80) == "connections.max.idle.ms)"
    reader.feed(response(1))
    assert [late(now) for now in (100, 101, 107.9, 108)] == ["", "", "", "request.timeout.ms)"]
    assert overdue.look(109, None, heard=False) is None, "it cannot come now"
    assert [late(now) for now in (110, 117, 118)] == ["", "", "request.timeout.ms)"]
    reader.feed(response(2)[:-1])
    assert not late(119, heard=True)
    assert not late(126)
    assert late(127)
    reader.feed(response(2)[-1:])
    assert [late(now) for now in (200, 279, 280)] == ["", "", "connections.max.idle.ms)"]
    reader.feed(response(3))
    assert not late(400)


async def test_a_broker_that_does_not_answer_the_shim_has_lost_the_client(caplog: pytest.LogCaptureFixture) -> None:
    async with bench() as shim:
        shim.settings = Settings(request_timeout_ms=200)
        shim.broker.answers = False
        client = await shim.client()
        await until(lambda: bool(shim.made))
        asked = shim.made[0].ask(ASKED)
        with pytest.raises(ConnectionError, match="does not answer"):
            await asked
        assert await client.ended() == b""
    (line,) = (record.message for record in caplog.records if record.levelno == logging.WARNING)
    assert line.endswith("connection closed: the broker does not answer what the shim waits for (request.timeout.ms)")


async def test_what_is_answered_and_what_the_client_asks_may_take_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[str | None] = []
    look = Overdue.look

    def looked(self: Overdue, now: float, due: Expected | None, *, heard: bool) -> str | None:
        looks.append(look(self, now, due, heard=heard))
        return looks[-1]

    monkeypatch.setattr(Overdue, "look", looked)
    async with bench() as shim:
        shim.settings = Settings(request_timeout_ms=80)
        shim.broker.answers = False
        client = await shim.client()
        await until(lambda: bool(shim.made))
        client.writer.write(fetch(1))
        await shim.broker.requests(1)
        side = shim.made[0]._broker
        asked = shim.made[0].ask(ASKED)
        await until(lambda: len(looks) > 20)
        assert not any(looks)
        shim.broker.connections[-1].respond(1)
        shim.broker.connections[-1].respond(7)
        await client.receive(1)
        assert await asked == response(7)
        await until(lambda: side._look is None)
