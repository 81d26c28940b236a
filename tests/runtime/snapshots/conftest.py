"""Snapshots after a few records."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from shim.log.partition.snapshot import PartitionSnapshots
from shim.log.segments.active import LastBatch
from shim.runtime import snapshots as snapshots_module


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots_module, "LEAST_RECORDS", 10)
    monkeypatch.setattr(snapshots_module, "LEAST_RECORDS_AT_STOP", 5)


@pytest.fixture
def takes(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The snapshots that are written, in this order."""
    paths: list[Path] = []
    take = PartitionSnapshots.take

    def noted(snapshots: PartitionSnapshots, anchor: LastBatch, payload: Iterable[bytes]) -> Path | None:
        path = take(snapshots, anchor, payload)
        if path is not None:
            paths.append(path)
        return path

    monkeypatch.setattr(PartitionSnapshots, "take", noted)
    return paths
