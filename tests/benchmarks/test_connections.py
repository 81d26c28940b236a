"""The benchmark of connections does what it says, on next to nothing."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from benchmarks.connections.__main__ import main


@pytest.mark.soak
def test_memory_and_waits_are_measured_at_both_sides() -> None:
    told = CliRunner().invoke(main, ["--idle", "20", "--busy", "2", "--seconds", "0.1", "--json"])
    assert told.exit_code == 0, told.output
    results = json.loads(told.stdout)
    assert set(results["kib_each"]) == {"one request", "with a way to its broker"}
    for side in ("shim", "Kafka"):
        measured = results["commits"][side]
        assert measured["fetched_mb_s"] > 0
        assert all(0 < measured[load]["p50"] <= measured[load]["p99"] for load in ("unloaded", "loaded"))
