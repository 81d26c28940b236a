"""Rules for faults: which frame they hit, and what becomes of it and of those behind it."""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from protocol.errors import ErrorCode
from protocol.messages import heartbeat as heartbeats
from shim.config import SettingError
from shim.faults import Faults, FaultySession, load_faults
from shim.faults.frames import Frames
from shim.faults.rules import Rule
from tests.net import bench as benches
from tests.net.bench import HOST, Bench, Client, fetch, heartbeat, response
from tests.waiting import until


def parsed(tmp_path: Path, text: str) -> tuple[Rule, ...]:
    path = tmp_path / "faults.toml"
    path.write_text(text)
    return load_faults(path).rules


def test_rules_are_read_from_a_file(tmp_path: Path) -> None:
    text = """
        [[fault]]
        api = "OffsetCommit"
        versions = [2, 8]
        group = "g"
        action = "error"
        error = "NOT_COORDINATOR"
        skip = 3
        times = 2
        [[fault]]
        direction = "response"
        action = "delay"
        ms = 250
        [[fault]]
        api = "FETCH"
        action = "cut"
        bytes = 7
    """
    assert parsed(tmp_path, text) == (
        Rule("error", "request", 8, (2, 8), "g", error=ErrorCode.NOT_COORDINATOR, skip=3, times=2),
        Rule("delay", "response", delay_seconds=0.25),
        Rule("cut", "request", 1, after_bytes=7),
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[[fault]]\naction = 'explode'", "action 'explode' is not delay, drop, cut or error"),
        ("[[fault]]\naction = 'drop'\napi = 'Nothing'", "there is no API 'Nothing'"),
        ("[[fault]]\naction = 'drop'\nsize = 1", "unknown key size"),
        ("[[fault]]\naction = 'drop'\ndirection = 'up'", "direction 'up' is not request or response"),
        ("[[fault]]\naction = 'error'\napi = 'Heartbeat'", 'error names the error of action = "error"'),
        ("[[fault]]\naction = 'error'\napi = 'Heartbeat'\nerror = 'NOPE'", "there is no error 'NOPE'"),
        ("[[fault]]\naction = 'error'\napi = 'Fetch'\nerror = 'NONE'", "takes an error with direction"),
        ("[[faults]]\naction = 'drop'", "unknown key faults"),
        ("[[fault]", "Expected"),
    ],
)
def test_what_is_no_rule_is_named(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(SettingError) as raised:
        parsed(tmp_path, text)
    assert str(raised.value).startswith(f"fault.injection.file {tmp_path / 'faults.toml'}: ")
    assert why in str(raised.value)
    with pytest.raises(SettingError, match="No such file"):
        load_faults(tmp_path / "none")


def test_a_rule_hits_what_it_names_and_as_often_as_it_says() -> None:
    faults = Faults([Rule("drop", "request", 8, (2, 5), "g", skip=1, times=2), Rule("cut", "response")])
    rule = faults.rules[0]
    assert faults.find("request", 8, 6, ["g"]) is None
    assert faults.find("request", 9, 5, ["g"]) is None
    assert faults.find("request", 8, 5, ["h"]) is None
    assert [faults.find("request", 8, 5, ["x", "g"]) for _ in range(4)] == [None, rule, rule, None]
    assert faults.find("response", 1, 1, []) == faults.rules[1]
    assert [faults.wants_groups(api) for api in (8, 9)] == [True, False]


def test_any_split_of_a_stream_gives_the_same_frames() -> None:
    rng = random.Random(1)
    frames = [struct.pack(">i", size) + rng.randbytes(size) for size in (0, 1, 10, 300, 5)]
    data = b"".join(frames)
    for _ in range(50):
        cutter, found = Frames(), []
        at = 0
        while at < len(data):
            step = rng.randint(1, 60)
            found += list(cutter.feed(data[at : at + step]))
            at += step
        assert found == frames
    nothing = Frames()
    assert list(nothing.feed(frames[1] + b"\xff\xff\xff\xff none")) == [frames[1], b"\xff\xff\xff\xff none"]
    assert list(nothing.feed(b"any")) == [b"any"]


@asynccontextmanager
async def faulty(*rules: Rule) -> AsyncIterator[tuple[Bench, Client]]:
    """A client whose requests the broker, or the coordinator, answers at once."""
    async with benches.bench() as shim:
        shim.runtime.decide = lambda call: call.answer(heartbeats.HeartbeatResponse())
        faults = Faults(rules)
        front = await asyncio.get_running_loop().create_server(lambda: FaultySession(shim.session(), faults), HOST, 0)
        shim.port = front.sockets[0].getsockname()[1]
        try:
            yield shim, await shim.client()
        finally:
            front.close()


def beat(correlation_id: int, error: ErrorCode = ErrorCode.NONE) -> bytes:
    return heartbeats.API.response_frame(0, correlation_id, heartbeats.HeartbeatResponse(error_code=error))


async def received(client: Client, wanted: bytes) -> None:
    async with asyncio.timeout(30):
        assert await client.reader.readexactly(len(wanted)) == wanted


async def test_an_error_takes_its_place_among_the_answers_and_is_not_carried_out() -> None:
    rule = Rule("error", "request", 12, group="g", error=ErrorCode.NOT_COORDINATOR, skip=1, times=1)
    async with faulty(rule) as (shim, client):
        client.writer.write(heartbeat(1) + fetch(2) + heartbeat(3) + fetch(4) + heartbeat(5))
        await received(client, beat(1) + response(2) + beat(3, ErrorCode.NOT_COORDINATOR) + response(4) + beat(5))
        assert len(shim.runtime.parked) == 2


async def test_an_error_in_place_of_the_answer_comes_after_it_was_carried_out() -> None:
    async with faulty(Rule("error", "response", 12, error=ErrorCode.NOT_COORDINATOR)) as (shim, client):
        client.writer.write(heartbeat(1) + fetch(2))
        await received(client, beat(1, ErrorCode.NOT_COORDINATOR) + response(2))
        assert len(shim.runtime.parked) == 1


@pytest.mark.parametrize("direction", ["request", "response"])
async def test_a_delay_holds_those_behind_it_too(direction: str) -> None:
    async with faulty(Rule("delay", direction, 12, delay_seconds=0.3)) as (_, client):
        begun = asyncio.get_running_loop().time()
        client.writer.write(fetch(1) + heartbeat(2) + fetch(3))
        await received(client, response(1))
        between = asyncio.get_running_loop().time()
        await received(client, beat(2) + response(3))
        ended = asyncio.get_running_loop().time()
        assert ended - begun >= 0.29
        assert ended - between > 0.1


async def test_what_is_dropped_leaves_the_connection_open_and_silent() -> None:
    async with faulty(Rule("drop", "response", 12)) as (shim, client):
        client.writer.write(fetch(1) + heartbeat(2) + fetch(3))
        await received(client, response(1))
        await shim.broker.requests(2)
        assert await benches.settle(lambda: len(client.reader._buffer)) == 0  # type: ignore[attr-defined]
        assert not client.reader.at_eof()


async def test_a_dropped_request_never_arrives() -> None:
    async with faulty(Rule("drop", "request", 1, skip=1)) as (shim, client):
        client.writer.write(fetch(1) + fetch(2) + heartbeat(3))
        await received(client, response(1))
        assert await benches.settle(lambda: len(shim.broker.connections[0].requests)) == 1
        assert shim.runtime.parked == []


@pytest.mark.parametrize("after", [0, 3, 9])
async def test_a_cut_is_in_the_middle_of_a_frame(after: int) -> None:
    async with faulty(Rule("cut", "response", 12, after_bytes=after)) as (shim, client):
        client.writer.write(fetch(1) + heartbeat(2) + fetch(3))
        assert await client.ended() == response(1) + beat(2)[:after]
        await until(lambda: not len(shim.sessions))
    async with faulty(Rule("cut", "request", 1, after_bytes=after)) as (shim, client):
        client.writer.write(fetch(1))
        await until(lambda: bool(shim.made) and not len(shim.sessions))
        assert all(not connection.requests for connection in shim.broker.connections)
        assert await client.ended() == b""


async def test_without_a_rule_that_fits_everything_passes() -> None:
    async with faulty(Rule("drop", "request", 8)) as (_, client):
        client.writer.write(b"".join(fetch(number) + heartbeat(number + 1) for number in range(0, 200, 2)))
        await received(client, b"".join(response(number) + beat(number + 1) for number in range(0, 200, 2)))
