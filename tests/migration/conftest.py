"""A shim in front of the session's broker, and one that registers its cluster in the session's ZooKeeper."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import pytest

from shim.demo.parts import Broker, Cluster, ZooKeeper
from tests.shim_process import Shim

REFRESH_MS = 100


class Registering(Protocol):
    """A shim, not started yet, with a data directory of its own unless one is named. ``session_ms``: how long it may
    be silent to ZooKeeper."""

    def __call__(
        self, part: Broker | Cluster, zookeeper: str, name: str = "data", *, session_ms: int = 6_000
    ) -> Shim: ...


@pytest.fixture
def chroot(zookeeper: ZooKeeper, fresh_name: Callable[[], str]) -> str:
    """A connect string; the chroot does not exist."""
    return f"{zookeeper.connect_string}/{fresh_name()}"


@pytest.fixture
def registering(tmp_path: Path) -> Registering:
    def shim(part: Broker | Cluster, zookeeper: str, name: str = "data", *, session_ms: int = 6_000) -> Shim:
        settings = {"topology.refresh.interval.ms": REFRESH_MS, "zookeeper.session.timeout.ms": session_ms}
        args = ["--zookeeper", zookeeper, "--registrar"]
        return Shim(part.bootstrap_servers, tmp_path / name, settings=settings, args=args)

    return shim


@pytest.fixture
def shim(broker: Broker, tmp_path: Path) -> Iterator[Shim]:
    with Shim(broker.bootstrap_servers, tmp_path / "data", passes_groups=True) as running:
        yield running
