"""What goes wrong again and again is a line, and that it is over."""

from __future__ import annotations

import logging

import pytest

from shim.logged_once import MOST, STALE_SECONDS, LoggedOnce


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


def test_what_is_remembered_is_bounded(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of groups are the clients' to choose, and each is tried again and again."""
    caplog.set_level(logging.INFO)
    now = 0.0
    monkeypatch.setattr("shim.logged_once.time.monotonic", lambda: now)
    trouble = LoggedOnce(logging.getLogger(__name__))
    for _ in range(3):
        for group in range(2 * MOST):
            trouble.failed(f"group {group}", OSError("away"))
    told = [f"group {group} for now: away" for group in range(MOST)]
    assert caplog.messages == [*told, f"and more than 1,000 others of that kind, which are not told: group {MOST}"]
    caplog.clear()
    trouble.went_well(f"group {MOST}")
    trouble.went_well("group 7")
    trouble.failed(f"group {MOST}", OSError("away"))
    assert caplog.messages == ["this is over: group 7", f"group {MOST} for now: away"]
    caplog.clear()
    now = STALE_SECONDS
    for group in range(2 * MOST, 3 * MOST):  # those of before were not met with any more
        trouble.failed(f"group {group}", OSError("away"))
    assert len(caplog.messages) == MOST
