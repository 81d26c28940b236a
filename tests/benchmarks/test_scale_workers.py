"""The benchmark of workers does what it says, on next to nothing."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from benchmarks.scale.__main__ import main


@pytest.mark.soak
def test_one_and_two_carry_the_same_load() -> None:
    told = CliRunner().invoke(main, ["--rounds", "1", "--seconds", "1", "--warm-up", "0.3", "--only", "8x8", "--json"])
    assert told.exit_code == 0, told.output
    lines = json.loads(told.stdout)["lines"]
    assert [(line["line"], line["workers"]) for line in lines] == [("commits 8x8", 1), ("commits 8x8", 2)]
    assert lines[0]["ratio"] == 1.0
    assert all(line["per_second"] > 0 and line["cpu_us"] > 0 for line in lines)


def test_a_line_that_there_is_not_is_refused() -> None:
    assert CliRunner().invoke(main, ["--only", "no such line"]).exit_code == 2
