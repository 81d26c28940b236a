"""A real shim in front of the real broker, for all loads of a test module."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from shim.demo.parts import Broker
from tests.shim_process import Shim


@pytest.fixture(scope="module")
def shim(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shim]:
    with Shim(broker.bootstrap_servers, tmp_path_factory.mktemp("shim") / "data") as running:
        yield running


@pytest.fixture
def table(tmp_path: Path) -> str:
    return str(tmp_path / "table")
