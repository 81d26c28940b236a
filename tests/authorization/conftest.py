"""A broker with an authorizer, and a shim in front of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.authorization.guarded import Guarded, guarded_broker
from tests.shim_process import Shim
from tests.wire import WireClient

CACHE_MS = 500


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with guarded_broker(tmp_path_factory.mktemp("guarded")) as running:
        yield running


@pytest.fixture(scope="session")
def shim(guarded: Guarded, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shim]:
    settings = {"authorization.cache.ms": CACHE_MS}
    data = tmp_path_factory.mktemp("shim") / "data"
    with Shim(guarded.broker.bootstrap_servers, data, settings=settings) as running:
        yield running


@pytest.fixture
def direct(guarded: Guarded) -> Iterator[WireClient]:
    """A client at the broker."""
    with WireClient(guarded.port) as client:
        yield client


@pytest.fixture
def client(shim: Shim, guarded: Guarded) -> Iterator[WireClient]:
    """A client at the shim's port for the broker."""
    with WireClient(shim.broker_port(guarded.broker.node_id)) as connected:
        yield connected
