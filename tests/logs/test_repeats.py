"""One event is logged so often in a minute, and what is left out is told."""

from __future__ import annotations

import io
import logging
import threading
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.config import load_configuration
from shim.logs import LogOutput, repeats
from shim.logs.repeats import MINUTE, MOST_OF_A_GROUP, Event, Repeats, event_of

A = Event("shim", logging.ERROR, "a %s")
B = Event("shim", logging.ERROR, "b %s")


def test_so_many_a_minute_and_the_rest_is_counted() -> None:
    repeats = Repeats(2)
    assert [repeats.may_pass(A, now) for now in (0.0, 1.0, 2.0, 3.0)] == [True, True, False, False]
    assert repeats.may_pass(B, 3.0), "another event is not held up"
    assert not list(repeats.over(MINUTE - 1))
    assert [tuple(each) for each in repeats.over(MINUTE)] == [(A, 2, 0)]
    assert repeats.may_pass(A, MINUTE)
    assert repeats.next_over() == 3.0 + MINUTE


def test_no_bound() -> None:
    repeats = Repeats(0)
    assert all(repeats.may_pass(A, 0.0) for _ in range(1000))
    assert not list(repeats.over(1e9))


@given(st.integers(1, 5), st.lists(st.tuples(st.sampled_from([A, B]), st.floats(0, 40)), max_size=60))
def test_nothing_is_lost_without_a_word(most: int, steps: list[tuple[Event, float]]) -> None:
    repeats = Repeats(most)
    now = 0.0
    happened, told = Counter[Event](), Counter[Event]()
    for event, pause in steps:
        now += pause
        told.update({left_out.event: left_out.events for left_out in repeats.over(now)})
        happened[event] += 1
        told[event] += repeats.may_pass(event, now)
    told.update({left_out.event: left_out.events for left_out in repeats.over(now + 2 * MINUTE)})
    assert told == happened


def test_the_number_of_events_that_are_told_apart_is_bounded() -> None:
    repeats = Repeats(1)
    passed = sum(repeats.may_pass(Event("shim", logging.ERROR, f"{number}"), 0.0) for number in range(20_000))
    assert passed == 10_001
    assert sum(left_out.events for left_out in repeats.over(MINUTE)) == 20_000 - passed


def test_what_an_event_is() -> None:
    assert event_of("l", 20, "%s: lost", "x: lost") == event_of("l", 20, "%s: lost", "y: lost")
    assert event_of("l", 20, "%s", "x") != event_of("l", 20, "%s", "y")
    assert event_of("l", 20, "%-5.1f%%: %(n)d", "x") == Event("l", 20, "x")
    assert event_of("l", 30, "lost", "lost") != event_of("l", 20, "lost", "lost")


def test_what_is_left_out_is_told_at_the_end_at_its_level() -> None:
    stream = io.StringIO()
    output = LogOutput(load_configuration(None, ["log.repeat.max.per.minute=2"]).settings, (), stream)
    for number in range(5):
        output.handle(logging.LogRecord("shim", logging.ERROR, "", 0, "lost %d", (number,), None))
    assert [line.split(" ", 2)[2] for line in stream.getvalue().splitlines()] == ["ERROR lost 0", "ERROR lost 1"]
    output.close()
    assert (
        stream.getvalue()
        .splitlines()[-1]
        .endswith("ERROR 3 more like this were left out in a minute (log.repeat.max.per.minute): lost %d")
    )


def test_what_is_left_out_is_told_when_the_minute_is_over_though_nothing_else_happens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(repeats, "MINUTE", 0.01)
    stream = Told()
    output = LogOutput(load_configuration(None, ["log.repeat.max.per.minute=1"]).settings, (), stream)
    # A minute that is over in the middle begins anew: at last there is one with two of them.
    while not stream.told.is_set():
        output.handle(logging.LogRecord("shim", logging.ERROR, "", 0, "lost", (), None))
        output.handle(logging.LogRecord("shim", logging.ERROR, "", 0, "lost", (), None))
        if stream.told.wait(1.0):
            break
    output.close()
    assert "more like this were left out" in stream.getvalue()


class Told(io.StringIO):
    def __init__(self) -> None:
        super().__init__()
        self.told = threading.Event()

    def write(self, text: str) -> int:
        if "left out" in text:
            self.told.set()
        return super().write(text)


def test_one_group_takes_no_room_from_the_others() -> None:
    repeats = Repeats(100)
    noisy, quiet = A._replace(group="noisy"), A._replace(group="quiet")
    assert sum(repeats.may_pass(noisy, 0.0) for _ in range(5_000)) == MOST_OF_A_GROUP
    assert repeats.may_pass(quiet, 0.0)
    assert [tuple(each) for each in repeats.over(MINUTE)] == [(A, 5_000 - MOST_OF_A_GROUP, 1)]


def test_all_groups_together_have_what_one_event_has() -> None:
    repeats = Repeats(50)
    passed = [repeats.may_pass(A._replace(group=str(number % 10)), 0.0) for number in range(1_000)]
    assert sum(passed) == 50
    assert sum(left_out.events for left_out in repeats.over(MINUTE)) == 1_000 - 50


def test_whose_lines_were_left_out_is_told() -> None:
    stream = io.StringIO()
    output = LogOutput(load_configuration(None, [], {}).settings, stream=stream)
    for _ in range(MOST_OF_A_GROUP + 2):
        record = logging.makeLogRecord({"name": "shim", "levelno": logging.INFO, "msg": "group %s: x", "args": ("g",)})
        record.group = "g"
        output.emit(record)
    output.close()
    lines = stream.getvalue().splitlines()
    assert len(lines) == MOST_OF_A_GROUP + 1
    assert "2 more like this of 1 group were left out in a minute" in lines[-1]


def test_of_thousands_of_groups_a_line_tells() -> None:
    repeats = Repeats(100)
    for number in range(3_000):
        for _ in range(MOST_OF_A_GROUP + 1):
            repeats.may_pass(A._replace(group=str(number)), 0.0)
    told = [tuple(each) for each in repeats.over(MINUTE)]
    assert told == [(A, 3_000 * MOST_OF_A_GROUP - 100, 0), (A, 3_000, 3_000)]
