"""A line of the log: one for each event, whatever is in it."""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.config import Settings, load_configuration
from shim.logs import LogOutput
from shim.logs.lines import JsonLines, TextLines

SECRET = "never-to-be-shown"


@pytest.fixture(autouse=True)
def _levels_stay() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in (None, "kazoo", "aiohttp", "asyncio")]
    levels = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


def record(message: str, *args: object, **extra: object) -> logging.LogRecord:
    made = logging.getLogger("shim.there").makeRecord("shim.there", logging.WARNING, "f", 1, message, args, None)
    made.__dict__.update(extra)
    return made


def as_json(event: logging.LogRecord) -> Any:
    line = JsonLines(str).format(event)
    assert "\n" not in line
    return json.loads(line)


def test_text() -> None:
    line = TextLines(str).format(record("%d of %s", 3, "a"))
    time, level, message = line.split(" ", 1)[0], *line.split(" ", 3)[2:]
    assert datetime.fromisoformat(time)
    assert (level, message) == ("WARNING", "3 of a")


def test_json() -> None:
    event = record("%d of %s", 3, "a", group="g", count=4, names=["x", {"y": None}], place=HostLike())
    document = as_json(event)
    time = datetime.fromisoformat(document.pop("time"))
    assert time.tzinfo is not None
    assert abs(time.timestamp() - event.created) < 0.002
    assert document == {
        "level": "WARNING",
        "logger": "shim.there",
        "message": "3 of a",
        "group": "g",
        "count": 4,
        "names": ["x", {"y": None}],
        "place": "there",
    }


class HostLike:
    def __str__(self) -> str:
        return "there"


def test_a_traceback_is_one_line_of_json_and_keeps_its_lines() -> None:
    event = record("it broke off")
    try:
        raise ValueError("in\nlines")
    except ValueError:
        event.exc_info = sys.exc_info()
    assert as_json(event)["exception"].splitlines()[0] == "Traceback (most recent call last):"
    assert as_json(event)["exception"].endswith("ValueError: in\nlines")


def test_a_traceback_is_one_line_of_text() -> None:
    """What clients said may be in it: it forges no event, and does nothing to a terminal."""
    event = record("it broke off")
    forged = "2026-01-31 12:00:00,123Z INFO all is well"
    try:
        raise ValueError(f"a name\n{forged}\x1b[2J\u2028 and more")
    except ValueError:
        event.exc_info = sys.exc_info()
    event.stack_info = "Stack (most recent call last):\n  here"
    line = TextLines(str).format(event)
    assert line.isprintable()
    assert " WARNING it broke off\\nTraceback (most recent call last):\\n  File " in line
    assert f"ValueError: a name\\n{forged}\\x1b[2J\\u2028 and more\\nStack" in line
    assert event.exc_text is None, "who else is told of it has its lines"


@given(st.text())
def test_whatever_a_client_is_called_the_message_is_one_line(name: str) -> None:
    for line in (TextLines(str).format(record("client %s", name)), JsonLines(str).format(record("client %s", name))):
        assert len(line.splitlines()) == 1
        assert line.isprintable()
    assert as_json(record("client %s", name))["message"] == f"client {name}"


def test_a_secret_that_would_be_escaped_is_concealed() -> None:
    stream = io.StringIO()
    output = LogOutput(Settings(), ["never\tto be\x7fshown"], stream)
    output.handle(record("with never\tto be\x7fshown"))
    output.close()
    assert stream.getvalue().endswith("WARNING with ***\n")


@pytest.mark.parametrize("look", ["text", "json"])
def test_secrets_are_in_no_part_of_a_line(look: str) -> None:
    stream = io.StringIO()
    password = f'{SECRET}"\\'
    settings = load_configuration(None, [f"log.format={look}", f"upstream.sasl.password={password}"]).settings
    output = LogOutput(settings, ["of-a-listener"], stream)
    event = record("with %s and %s", password, "of-a-listener", also=[password], more={password: password})
    try:
        raise ValueError(password)
    except ValueError:
        event.exc_info = sys.exc_info()
    output.handle(event)
    output.close()
    said = stream.getvalue()
    assert "with *** and ***" in said
    assert SECRET not in said
    assert "of-a-listener" not in said


def test_level_and_look_change_while_it_runs() -> None:
    stream = io.StringIO()
    output = LogOutput(Settings(), (), stream)
    assert logging.getLogger().level == logging.INFO
    output.take_settings(load_configuration(None, ["log.level=DEBUG", "log.format=json"]).settings)
    assert logging.getLogger().level == logging.DEBUG
    assert logging.getLogger("kazoo").getEffectiveLevel() == logging.INFO, "it logs what it sends, passwords too"
    output.handle(record("now"))
    output.take_settings(load_configuration(None, ["log.level=ERROR"]).settings)
    assert logging.getLogger("kazoo").getEffectiveLevel() == logging.ERROR
    output.handle(record("then"))
    output.close()
    first, second = stream.getvalue().splitlines()
    assert json.loads(first)["message"] == "now"
    assert second.endswith("WARNING then")


def test_an_event_that_cannot_be_logged_is_one_line_without_its_values() -> None:
    stream = io.StringIO()
    output = LogOutput(load_configuration(None, [f"upstream.sasl.password={SECRET}"]).settings, (), stream)
    output.handle(record("%d events", SECRET))
    output.close()
    (line,) = stream.getvalue().splitlines()
    assert line.startswith("shim.there: an event could not be logged: TypeError(")
    assert line.endswith("'%d events'")
    assert SECRET not in line


def test_a_secret_that_begins_with_another() -> None:
    stream = io.StringIO()
    output = LogOutput(Settings(), [SECRET, f"{SECRET}-and-more"], stream)
    output.conceal_also([f"{SECRET}-and-more-of-it"])
    for end in ("", "-and-more", "-and-more-of-it"):
        output.handle(record("it is %s", SECRET + end))
    assert [line.split("it is ")[1] for line in stream.getvalue().splitlines()] == ["***"] * 3
