"""The log's benchmarks do what they say, on next to nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.log import commits, load


async def test_commits_are_counted_and_weighed(tmp_path: Path) -> None:
    plain = await commits.one_round(tmp_path, 8, 0.2, False)
    kept = await commits.one_round(tmp_path, 8, 0.2, True)
    assert plain.commits_a_second > 0
    assert plain.bytes_of_history == 0
    assert 50 < plain.bytes_of_offsets < 200
    assert 50 < kept.bytes_of_history < 300


def test_loading_from_a_snapshot_and_without(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    load.measure(tmp_path, 16_000, with_broker=False)
    told = capsys.readouterr().out
    assert "16,000 entries: 16,000 records" in told
    assert "and 200 records behind it" in told
