"""The table of what passed where."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.old_clients import matrix


def test_what_was_recorded_last_is_in_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix, "RESULTS", tmp_path / "build" / "results.json")
    monkeypatch.setattr(matrix, "TABLE", tmp_path / "table.md")
    matrix.TABLE.write_text(
        "before\n<!-- written by tests/old_clients/matrix.py -->\nold\n<!-- until here -->\nafter\n"
    )
    assert matrix.main() == 1
    matrix.record("client 0.10", "the shim", "gzip", passed=False)
    matrix.record("client 0.9", "the shim", "lz4", passed=False)
    matrix.record("client 0.9", "the shim", "none", passed=True)
    matrix.record("client 0.10", "3.9", "gzip", passed=True)
    matrix.record("client 0.10", "the shim", "gzip", passed=True)
    assert matrix.main() == 0
    assert matrix.TABLE.read_text().splitlines() == [
        "before",
        "<!-- written by tests/old_clients/matrix.py -->",
        "| client | 3.9 | the shim |",
        "|---|---|---|",
        "| client 0.9 | not run | none; **fails**: lz4 |",
        "| client 0.10 | gzip | gzip |",
        "<!-- until here -->",
        "after",
    ]
