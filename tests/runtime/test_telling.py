"""Lines of the log about groups: of what warns again and again, one is a warning."""

from __future__ import annotations

import logging

import pytest

from shim.coordinator import GroupEvent
from shim.runtime.telling import WARNED_SECONDS, Telling

MOST = 1000


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def refused(group: str, client: str = "a") -> GroupEvent:
    return GroupEvent(group, "group %s: %s is refused", (group, client), warns=True)


def levels(caplog: pytest.LogCaptureFixture) -> list[tuple[str, int]]:
    found = [(each.message, each.levelno) for each in caplog.records]
    caplog.clear()
    return found


def test_one_that_warns_does_so_once_for_each_group(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    clock = Clock()
    telling = Telling(clock)
    telling.tell([refused("g"), refused("g", "b"), refused("other"), GroupEvent("g", "group %s: happens", ("g",))])
    assert levels(caplog) == [
        ("group g: a is refused", logging.WARNING),
        ("group g: b is refused", logging.INFO),
        ("group other: a is refused", logging.WARNING),
        ("group g: happens", logging.INFO),
    ]
    clock.now = WARNED_SECONDS - 1
    telling.tell([refused("g")])
    clock.now = WARNED_SECONDS
    telling.tell([refused("g"), refused("g")])
    assert [level for _, level in levels(caplog)] == [logging.INFO, logging.WARNING, logging.INFO]


def test_of_many_groups_the_first_are_forgotten(caplog: pytest.LogCaptureFixture) -> None:
    telling = Telling(Clock())
    telling.tell(refused(str(number)) for number in range(MOST + 1))
    caplog.clear()
    caplog.set_level(logging.INFO)
    telling.tell([refused("0"), refused(str(MOST))])
    assert [level for _, level in levels(caplog)] == [logging.WARNING, logging.INFO]
