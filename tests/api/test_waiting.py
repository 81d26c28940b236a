"""What waits for a request that cannot be decided at once, and for how long."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from protocol.errors import ErrorCode
from protocol.messages import offset_delete
from shim.api import Call, Services
from shim.api.waiting import while_requests_are_paused
from shim.following import TopicInDoubt
from tests.api.driving import Client, call, services

AnyCall = Call[Any, Any]


class Asked:
    def __init__(self) -> None:
        self.client = Client()
        self.frames: list[bytes] = []
        request = offset_delete.OffsetDeleteRequest("g", ())
        frame = offset_delete.API.request_frame(0, 7, "me", request)
        self.call = call(offset_delete.API, 0, frame, self.client, self.frames.append)[1]


async def test_until_it_is_decided_and_what_follows_goes_on_after_that() -> None:
    asked = Asked()
    decided, over = asyncio.Event(), asyncio.Event()

    async def follow_up() -> None:
        assert not asked.client.paused
        over.set()

    @while_requests_are_paused
    async def decide(services: Services, call: AnyCall, what: str) -> Coroutine[Any, Any, None]:
        assert (call, what) == (asked.call, "this")
        await decided.wait()
        return follow_up()

    pending = decide(await services(), asked.call, "this")
    assert asked.client.paused, "from the call on"
    task = asyncio.create_task(pending)
    await asyncio.sleep(0)
    assert asked.client.paused
    decided.set()
    await task
    assert over.is_set()


async def test_a_topic_in_doubt_is_to_be_asked_for_again() -> None:
    asked = Asked()

    @while_requests_are_paused
    async def decide(services: Services, call: AnyCall) -> None:
        raise TopicInDoubt

    await decide(await services(), asked.call)
    assert not asked.client.paused
    (frame,) = asked.frames
    assert offset_delete.API.parse_response(0, frame, 4)[1].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


async def test_a_failure_is_told_to_who_waits_and_pauses_nothing_for_ever() -> None:
    asked = Asked()

    @while_requests_are_paused
    async def decide(services: Services, call: AnyCall) -> None:
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError, match="a bug"):
        await decide(await services(), asked.call)
    assert not asked.client.paused
    assert asked.frames == []


async def test_a_client_that_leaves_before_it_begins_leaves_nothing_behind() -> None:
    asked = Asked()

    @while_requests_are_paused
    async def decide(services: Services, call: AnyCall) -> None:
        raise AssertionError("nobody has begun it")

    task = asyncio.create_task(decide(await services(), asked.call))
    task.cancel()
    assert isinstance((await asyncio.gather(task, return_exceptions=True))[0], asyncio.CancelledError)
