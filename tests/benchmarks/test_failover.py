"""The benchmark of failing over does what it says, once."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from benchmarks.failover.__main__ import main, quantile


@pytest.mark.soak
def test_both_sides_go_on() -> None:
    told = CliRunner().invoke(main, ["--rounds", "1", "--json"])
    assert told.exit_code == 0, told.output
    seconds = json.loads(told.stdout)["seconds"]
    assert list(seconds) == ["shims", "cluster"]
    assert all(len(its) == 1 and its[0] > 0 for its in seconds.values())


def test_quantiles() -> None:
    assert [quantile(range(1, 101), share) for share in (0.5, 0.99)] == [51, 100]
    assert quantile([3.0], 0.99) == 3.0
