"""Benchmarks whose figures nobody looks at."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _brokers_of_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of full size takes three times the processor time of a small one to begin, and no less to compile."""
    monkeypatch.setattr("benchmarks.servers.HEAP_MB", 256)
    monkeypatch.setattr("benchmarks.servers.JVM_OPTIONS", ())
