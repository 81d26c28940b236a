"""The benchmark of what looking costs does what it says, on next to nothing."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from click.testing import CliRunner

from benchmarks.overhead.__main__ import _ORDERS, LINES, main
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
        assert sides[OFF]["rate_left"] == sides[OFF]["cpu_more"] == 1
        assert all((numbers["rate_left_error"] > 0) is (name != OFF) for name, numbers in sides.items())


def test_each_side_comes_once_at_each_place_and_behind_each_other_one() -> None:
    everywhere = [set(range(4))] * 4
    assert [set(places) for places in zip(*_ORDERS, strict=True)] == everywhere
    assert len({pair for order in _ORDERS for pair in pairwise(order)}) == 4 * 3


def test_no_line_is_a_usage_error() -> None:
    assert CliRunner().invoke(main, ["--only", "no such line"]).exit_code == 2
