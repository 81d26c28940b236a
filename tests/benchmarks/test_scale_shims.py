"""The benchmark of several shims does what it says, on next to nothing."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from benchmarks.scale import shims
from benchmarks.scale.shims import ARRANGEMENTS, Carried, main, medians


@pytest.mark.soak
def test_each_arrangement_carries_its_load(monkeypatch: pytest.MonkeyPatch) -> None:
    few = [each for each in ARRANGEMENTS if each.shims in {0, 2}]
    monkeypatch.setattr(shims, "ARRANGEMENTS", tuple(few))
    monkeypatch.setattr(shims, "PARTITIONS", 5)
    monkeypatch.setattr(shims, "LOADS", {"6x2": (6, 2)})
    told = CliRunner().invoke(main, ["--rounds", "1", "--seconds", "0.3", "--warm-up", "0.1", "--json"])
    assert told.exit_code == 0, told.output
    lines = json.loads(told.stdout)["lines"]
    assert [line["arrangement"] for line in lines] == ["2 shims, kafka", "the cluster's coordinators"]
    assert all(line["per_second"] > 0 and line["brokers_us"] > 0 for line in lines)
    assert [line["shims_us"] > 0 for line in lines] == [True, False]


def test_medians() -> None:
    assert medians([Carried(1, 9, 5, 0, 2), Carried(3, 7, 5, 0, 2), Carried(2, 8, 5, 0, 2)]) == Carried(2, 8, 5, 0, 2)
