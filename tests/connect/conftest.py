"""A shim of their own for the workers, whose sessions are short, and processes that end with their test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from shim.demo.parts import Broker
from tests.clients.programs import Programs
from tests.shim_process import Shim

_LIMIT_S = 120.0
_SOAK_LIMIT_S = 1_200.0


@pytest.fixture
def shim(broker: Broker, tmp_path: Path) -> Iterator[Shim]:
    # The broker is asked whether it knows of anything.
    settings: dict[str, str | int] = {"group.min.session.timeout.ms": 500, "offsets.mirror.upstream": "false"}
    with Shim(broker.bootstrap_servers, tmp_path / "data", settings=settings) as running:
        yield running


@pytest.fixture
def programs(shim: Shim, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Programs]:
    """The test's workers; they have two minutes, and in a soak twenty."""
    limit = _SOAK_LIMIT_S if request.node.get_closest_marker("soak") else _LIMIT_S
    with Programs(tmp_path, limit, shim.log) as running:
        yield running
