"""Places for an audit: the session's broker and ZooKeeper, and shims in front of the one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.audit.addresses import servers
from pipeline.audit.asked import Addresses, Asked
from shim.demo.parts import Broker, ZooKeeper
from tests.offsets.conftest import kazoo
from tests.shim_process import Shim


@pytest.fixture
def connect(zookeeper: ZooKeeper, fresh_name: Callable[[], str]) -> str:
    """A connect string whose chroot is there, and empty."""
    with kazoo(zookeeper.connect_string) as client:
        chroot = f"/{fresh_name()}"
        client.create(chroot)
    return f"{zookeeper.connect_string}{chroot}"


@pytest.fixture
def apart(broker: Broker, tmp_path: Path) -> Iterator[Shim]:
    """A shim that keeps its offsets to itself: what is elsewhere is a test's to say."""
    settings = {"offsets.mirror.upstream": "false"}
    with Shim(broker.bootstrap_servers, tmp_path / "data", settings=settings) as shim:
        yield shim


def asked(
    shim: str, upstream: str, zookeeper: str | None, *, groups: str = "*", to: Path | None = None, **more: Any
) -> Asked:
    addresses = Addresses(servers("--shim", shim), servers("--upstream", upstream), zookeeper)
    made = Asked(addresses, (), groups, True, 0.0, None if to is None else str(to), ("parquet", "csv", "html"))
    return made._replace(**more)
