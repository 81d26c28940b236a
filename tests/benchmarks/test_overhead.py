"""The benchmark of what looking costs does what it says, on next to nothing."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from benchmarks.overhead.__main__ import LINES, main
from benchmarks.overhead.sides import HISTORY, OFF, ON, TWIN


@pytest.mark.soak
def test_lines_are_measured_at_all_sides() -> None:
    arguments = ["--only", "passed on", "--starts", "2", "--rounds", "1", "--seconds", "0.5", "--json"]
    told = CliRunner().invoke(main, arguments)
    assert told.exit_code == 0, told.output
    lines = json.loads(told.stdout)["lines"]
    assert list(lines) == [line.name for line in LINES if "passed on" in line.name]
    for sides in lines.values():
        assert list(sides) == [OFF, TWIN, HISTORY, ON]
        assert all(numbers["rate"] > 0 and numbers["rate_left"] > 0 for numbers in sides.values())
        assert all(each["rate_left_from"] <= each["rate_left"] <= each["rate_left_to"] for each in sides.values())
        assert sides[OFF]["rate_left"] == 1


def test_no_line_is_a_usage_error() -> None:
    assert CliRunner().invoke(main, ["--only", "no such line"]).exit_code == 2
