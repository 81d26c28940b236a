"""A shim on the session's broker, its log of its own, and a topic to commit offsets of."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from shim.demo.parts import Broker
from tests.conftest import TopicFactory
from tests.shim_process import Shim

OFFSETS_PARTITIONS = 8
TOPIC_PARTITIONS = 6


@pytest.fixture
def shim(broker: Broker, tmp_path: Path) -> Iterator[Shim]:
    """Running, with few offsets partitions, so that many groups share each."""
    with Shim(
        broker.bootstrap_servers, tmp_path / "data", settings={"offsets.topic.num.partitions": OFFSETS_PARTITIONS}
    ) as running:
        yield running


@pytest.fixture
def committed_topic(make_topic: TopicFactory) -> str:
    return make_topic(TOPIC_PARTITIONS)
