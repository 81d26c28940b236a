"""What goes wrong again and again is a line, and that it is over."""

from __future__ import annotations

import logging

import pytest

from shim.logged_once import MOST, LoggedOnce


def test_a_line_each_until_it_is_over(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    trouble = LoggedOnce(logging.getLogger(__name__))
    for error in ("away", "away", "refused"):
        trouble.failed("it cannot be read", OSError(error))
    trouble.failed("another thing", OSError("away"), logging.ERROR)
    for _ in range(2):
        trouble.went_well("it cannot be read")
        trouble.went_well("what never failed")
    trouble.failed("it cannot be read", OSError("refused"))
    assert [(each.levelname, each.message) for each in caplog.records] == [
        ("WARNING", "it cannot be read for now: away"),
        ("WARNING", "it cannot be read for now: refused"),
        ("ERROR", "another thing for now: away"),
        ("INFO", "this is over: it cannot be read"),
        ("WARNING", "it cannot be read for now: refused"),
    ]


def test_other_words_of_one_kind_are_no_news(caplog: pytest.LogCaptureFixture) -> None:
    trouble = LoggedOnce(logging.getLogger(__name__))
    for broker in (1, 2):
        trouble.failed("it is away", OSError(f"broker {broker}"), kind="away")
    assert caplog.messages == ["it is away for now: broker 1"]


def test_at_another_level_it_is_something_else(caplog: pytest.LogCaptureFixture) -> None:
    """As where somebody may look at it now that it has lasted."""
    caplog.set_level(logging.INFO)
    trouble = LoggedOnce(logging.getLogger(__name__))
    for level in (logging.INFO, logging.INFO, logging.WARNING):
        trouble.failed("it is away", OSError("refused"), level, kind="away")
    assert [each.levelname for each in caplog.records] == ["INFO", "WARNING"]


def test_what_goes_away_is_not_over(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    trouble = LoggedOnce(logging.getLogger(__name__))
    trouble.failed("it cannot be read", OSError("away"))
    for _ in range(2):
        trouble.forget("it cannot be read")
    trouble.went_well("it cannot be read")
    trouble.failed("it cannot be read", OSError("away"))
    assert caplog.messages == ["it cannot be read for now: away"] * 2


def test_what_is_remembered_is_bounded_and_what_still_goes_wrong_is(caplog: pytest.LogCaptureFixture) -> None:
    """Names of groups are the clients' to choose."""
    caplog.set_level(logging.INFO)
    trouble = LoggedOnce(logging.getLogger(__name__))
    for group in range(3 * MOST):
        trouble.failed("it still goes wrong", OSError("away"))
        trouble.failed(f"group {group}", OSError("away"))
    assert caplog.messages.count("it still goes wrong for now: away") == 1
    caplog.clear()
    for group in range(3 * MOST):
        trouble.went_well(f"group {group}")
    assert len(caplog.messages) == MOST - 1, "and the one that still goes wrong"
