"""Shims of several processes on the session's broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from shim.demo.parts import Broker, free_port
from tests.conftest import TopicFactory
from tests.legacy.parts import LegacyBroker
from tests.shim_process import Shim

OFFSETS_PARTITIONS = 8

PATIENT = """
from shim.forwarding import peers, serving
peers.SILENCE_SECONDS = 60.0
serving.SILENCE_SECONDS = 240.0
"""
"""For the processes of a shim: a worker that has no core for seconds is not taken by the other for one that hangs."""


def shim_of(broker: Broker | LegacyBroker, data_dir: Path, workers: int, late_patch: str = "") -> Shim:
    """Not started, with an admin port."""
    return Shim(
        broker.bootstrap_servers,
        data_dir,
        settings={"offsets.topic.num.partitions": OFFSETS_PARTITIONS},
        args=["--workers", str(workers), "--admin", f"127.0.0.1:{free_port()}"],
        late_patch=late_patch,
        offsets_log="local",
        start_timeout=60,
    )


def admin_of(shim: Shim) -> str:
    return shim.args[-1]


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """With a path that is short enough for a socket in it."""
    with TemporaryDirectory(prefix="workers-") as folder:
        yield Path(folder) / "data"


@pytest.fixture
def shim(broker: Broker, data_dir: Path) -> Iterator[Shim]:
    with shim_of(broker, data_dir, 2) as running:
        yield running


@pytest.fixture
def topic(make_topic: TopicFactory) -> str:
    return make_topic(1)
