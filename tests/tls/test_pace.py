"""However many handshakes are begun, they have a tenth of the loop's time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from shim.tls import HandshakePace, pace


class Clock:
    """A loop of which the time goes on with what is done in it, and to what is done next."""

    def __init__(self) -> None:
        self.now = 100.0
        self.due: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        self.due.append((when, callback))
        return cast(asyncio.TimerHandle, callback)

    def spend(self) -> None:
        self.now += 0.005

    def run(self) -> None:
        """What is due next."""
        ((when, callback),) = self.due
        self.due.clear()
        self.now = max(self.now, when)
        callback()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: clock)
    monkeypatch.setattr(pace, "thread_time", clock.time)
    return clock


def test_many_have_a_share_of_the_time(clock: Clock) -> None:
    handshakes = HandshakePace()
    for _ in range(200):
        handshakes.take(clock.spend)
    began = clock.now
    for _ in range(200):
        clock.run()
    assert not clock.due
    assert 9.0 < clock.now - began < 10.1, "a second of work"


def test_few_wait_for_nothing(clock: Clock) -> None:
    handshakes = HandshakePace()
    for _ in range(3):
        for _ in range(4):
            handshakes.take(clock.spend)
        began = clock.now
        for _ in range(4):
            clock.run()
        assert clock.now == pytest.approx(began + 4 * 0.005), "no more than the work itself"
        clock.now += 1.0


def test_who_leaves_is_not_called_and_keeps_nobody_waiting(clock: Clock) -> None:
    handshakes, turns = HandshakePace(), list[str]()

    def first() -> None:
        turns.append("first")

    handshakes.take(first)
    handshakes.take(lambda: turns.append("second"))
    handshakes.leave(first)
    clock.run()
    handshakes.take(first)
    handshakes.leave(first)
    clock.run()  # to nobody
    assert not clock.due
    handshakes.take(lambda: turns.append("third"))
    clock.run()
    assert turns == ["second", "third"]


def test_one_that_fails_keeps_nobody_from_his_turn(clock: Clock) -> None:
    handshakes, turns = HandshakePace(), list[str]()

    def failing() -> None:
        turns.append("failing")
        raise RuntimeError

    handshakes.take(failing)
    handshakes.take(lambda: turns.append("second"))
    with pytest.raises(RuntimeError):
        clock.run()
    clock.run()
    handshakes.take(lambda: turns.append("third"))
    clock.run()
    assert turns == ["failing", "second", "third"]
