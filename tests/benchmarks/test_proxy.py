"""The comparison of proxies does what it says, on next to nothing: every line goes every way. Nothing is timed here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.commit.generator import Load
from benchmarks.proxy.__main__ import main
from benchmarks.proxy.perf_tools import Consume, Moved, Produce
from benchmarks.proxy.rounds import GB, Line, lines, run
from benchmarks.proxy.sides import DIRECT, KROXYLICIOUS, SHIM, Side

ROOT = Path(__file__).parents[2]
LITTLE = ["--rounds", "1", "--warm-up", "0", "--megabytes", "10", "--seconds", "0.05"]


class Scripted(Side):
    """A side that says what it is told to say: (rate, processor seconds), a round each."""

    def __init__(self, name: str, says: list[tuple[float, float]]) -> None:
        self.name = name
        self.asked = 0
        self._says = says

    def produce(self, load: Produce) -> tuple[Moved, float]:
        rate, cpu = self._says[self.asked]
        self.asked += 1
        return Moved(load.records * load.record_bytes, rate), cpu


def test_ratios_are_of_rounds_and_processor_time_is_for_a_gb() -> None:
    line = Line("produce", Produce(1_000, 16_384, 2_000_000), 0.85)
    direct = Scripted(DIRECT, [(1.0, 0.0), (400.0, 0.0), (200.0, 0.0), (800.0, 0.0)])
    shim = Scripted(SHIM, [(9.0, 99.0), (200.0, 1.0), (180.0, 0.8), (720.0, 0.6)])
    ((told, sides),) = run([direct, shim], [line], rounds=3, warm_up=1)
    assert told is line
    assert direct.asked == shim.asked == 4
    by_name = {numbers.side: numbers for numbers in sides}
    assert by_name[SHIM].ratio == pytest.approx(0.9)  # of 0.5, 0.9 and 0.9: not 200 of 400
    assert by_name[SHIM].rate == 200.0
    assert by_name[SHIM].cpu == pytest.approx(0.8 * GB / 2e9)
    assert by_name[DIRECT].ratio == 1.0


def test_every_side_moves_the_same() -> None:
    """And as many bytes as are asked for, but for the small records, which take longer."""
    moved = {line.name: line.load for line in lines(100, 1.0)}
    assert len(moved) == 5
    for load in moved.values():
        if isinstance(load, Produce):
            assert load.records * load.record_bytes in (pytest.approx(100e6, rel=1e-4), pytest.approx(25e6, rel=1e-4))
        elif isinstance(load, Consume):
            assert load.records * 1_024 == pytest.approx(100e6, rel=1e-4)
        else:
            assert isinstance(load, Load)
            assert load.seconds == 1.0


@pytest.mark.soak
def test_the_shim_and_the_direct_way(tmp_path: Path) -> None:
    told = CliRunner().invoke(main, [*LITTLE, "--json", "--without-kroxylicious", "--directory", str(tmp_path)])
    assert told.exit_code == 0, told.output
    taken = json.loads(told.stdout)
    assert [line["line"] for line in taken["lines"]] == [line.name for line in lines(10, 0.05)]
    for line in taken["lines"]:
        assert line["sides"].keys() == {DIRECT, SHIM}
        assert all(side["rate"] > 0 for side in line["sides"].values())
        assert line["sides"][DIRECT]["cpu"] == 0
        trips = line["line"].startswith("round trips")
        assert all((side["p50_us"] is not None) == trips for side in line["sides"].values())


def test_a_line_that_is_not_there_is_refused() -> None:
    refused = CliRunner().invoke(main, ["--only", "no such line"])
    assert refused.exit_code == 2


@pytest.mark.soak
def test_all_three_ways_in_a_network_of_their_own(tmp_path: Path) -> None:
    """Kroxylicious comes from Maven Central; it needs a JDK, and leave to have a network of its own."""
    command = [sys.executable, "-m", "benchmarks.proxy", *LITTLE, "--json", "--directory", str(tmp_path)]
    taken = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)
    for line in taken["lines"]:
        assert line["sides"].keys() == {DIRECT, SHIM, KROXYLICIOUS}
        assert all(side["rate"] > 0 for side in line["sides"].values())
