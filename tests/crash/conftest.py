"""A shim on the session's broker, its log of its own, and a topic to commit offsets of."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from shim.demo.parts import Broker
from tests.conftest import TopicFactory
from tests.shim_process import Shim

OFFSETS_PARTITIONS = 8
TOPIC_PARTITIONS = 6
MOST_MINUTES = 10_080


# Snapshots after so few records that many are taken between two kills, and at every start.
_SNAPSHOTS_OFTEN = "import shim.runtime.snapshots as snapshots; snapshots.LEAST_RECORDS = 60"


def churning(seed: int) -> dict[str, str | int]:
    """Settings with which rolls, compactions, snapshots and ends of old history are under way all the time."""
    rng = random.Random(seed)
    return {
        "offsets.topic.segment.bytes": rng.choice((8_192, 16_384, 65_536)),
        "log.cleaner.backoff.ms": rng.choice((0, 20, 200)),
        "log.cleaner.min.cleanable.ratio": rng.choice(("0.0", "0.3")),
        "log.cleaner.delete.retention.ms": rng.choice((0, 1_000)),
        "log.flush.offset.checkpoint.interval.ms": rng.choice((50, 60_000)),
        "offsets.history.retention.minutes": rng.choice((0, MOST_MINUTES, 1)),
    }


@pytest.fixture
def shim(broker: Broker, tmp_path: Path, request: pytest.FixtureRequest, offsets_log: str) -> Iterator[Shim]:
    """Running, with few offsets partitions, so that many groups share each; with all of its log's machinery at work
    where the test has a seed."""
    callspec = getattr(request.node, "callspec", None)
    seed = callspec.params.get("seed") if callspec is not None else None
    settings = {"offsets.topic.num.partitions": OFFSETS_PARTITIONS, **(churning(seed) if seed is not None else {})}
    patch = _SNAPSHOTS_OFTEN if seed is not None else ""
    shim = Shim(
        broker.bootstrap_servers, tmp_path / "data", settings=settings, late_patch=patch, offsets_log=offsets_log
    )
    with shim as running:
        yield running


@pytest.fixture
def committed_topic(make_topic: TopicFactory) -> str:
    return make_topic(TOPIC_PARTITIONS)
