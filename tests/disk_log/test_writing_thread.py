"""The thread that writes: calls in their order, each told of once, and none that nobody waits for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from shim.disk_log.writing_thread import WritingThread

WAIT_SECONDS = 60.0


@pytest.fixture
def thread() -> Iterator[WritingThread]:
    thread = WritingThread("under test")
    yield thread
    thread.shutdown()


async def test_calls_are_made_in_order_and_told_of_in_the_loop(thread: WritingThread) -> None:
    made: list[int] = []
    told: list[tuple[int, bool]] = []
    over = asyncio.Event()

    def make(number: int) -> int:
        made.append(number)
        return number * 2

    def done(result: int, error: BaseException | None) -> None:
        assert error is None
        told.append((result, threading.current_thread() is threading.main_thread()))
        if len(told) == 50:
            over.set()

    for number in range(50):
        thread.begin(done, make, number)
    async with asyncio.timeout(WAIT_SECONDS):
        await over.wait()
    assert made == list(range(50))
    assert told == [(number * 2, True) for number in range(50)]


async def test_what_a_call_raises_reaches_who_waits_and_nobody_else(thread: WritingThread) -> None:
    def fail() -> None:
        raise OSError("full")

    with pytest.raises(OSError, match="full"):
        await thread.call(fail)
    assert await thread.call(lambda: 7) == 7


async def test_a_call_that_was_given_up_before_its_turn_is_not_made(thread: WritingThread) -> None:
    go_on = threading.Event()
    made: list[str] = []
    first = asyncio.create_task(thread.call(go_on.wait, WAIT_SECONDS))
    second = asyncio.create_task(thread.call(made.append, "second"))
    await asyncio.sleep(0)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    go_on.set()
    assert await first
    await thread.call(made.append, "third")
    assert made == ["third"]


async def test_who_waits_for_a_call_is_told_in_their_order_and_once(thread: WritingThread) -> None:
    go_on = threading.Event()
    told: list[int] = []
    thread.tell_within(WAIT_SECONDS)  # for nothing
    for number in range(3):
        thread.begin(lambda number, _: told.append(number), lambda number: go_on.wait(WAIT_SECONDS) and number, number)
    thread.tell_within(0.001)
    assert told == []
    go_on.set()
    for number in range(3):
        thread.tell_within(WAIT_SECONDS)
        assert told == list(range(number + 1))
    thread.tell_within(WAIT_SECONDS)
    assert await thread.call(lambda: 7) == 7
    assert told == [0, 1, 2]


async def test_what_is_over_is_told_though_more_is_being_done(thread: WritingThread) -> None:
    begun, go_on = threading.Event(), threading.Event()
    told: list[str] = []

    def more() -> bool:
        begun.set()
        return go_on.wait(WAIT_SECONDS)

    thread.begin(lambda *_: told.append("over"), lambda: None)
    thread.begin(lambda result, _: told.append(f"more: {result}"), more)
    assert begun.wait(WAIT_SECONDS)  # without a turn of the loop, in which the first would be told of
    thread.tell_within(WAIT_SECONDS)
    assert told == ["over"]
    go_on.set()
    assert await thread.call(lambda: 7) == 7
    assert told == ["over", "more: True"]


async def test_who_fails_when_it_is_told_is_in_nobody_elses_way(thread: WritingThread) -> None:
    told: list[str] = []

    def fails(*_: object) -> None:
        told.append("fails")
        raise ValueError("a bug")

    thread.begin(fails, lambda: None)
    thread.begin(lambda *_: told.append("goes on"), lambda: None)
    with pytest.raises(ValueError, match="a bug"):
        thread.tell_within(WAIT_SECONDS)
    assert await thread.call(lambda: 7) == 7
    assert told == ["fails", "goes on"]


def test_a_loop_that_is_gone_is_told_of_nothing_and_the_thread_goes_on(thread: WritingThread) -> None:
    go_on = threading.Event()

    async def give_up() -> None:
        thread.begin(lambda *_: pytest.fail("told"), go_on.wait, WAIT_SECONDS)

    asyncio.run(give_up())
    go_on.set()

    async def again() -> int:
        async with asyncio.timeout(WAIT_SECONDS):
            return await thread.call(lambda: 7)

    assert asyncio.run(again()) == 7
