"""A shim with an admin port in front of the session's broker, and a topic with a record an hour."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from shim.demo.parts import Broker
from tests.conftest import TopicFactory
from tests.groups.kept import Kept, kept_locally, kept_on_topic
from tests.groups.place import HOUR_MS, PARTITIONS, RECORDS, TIMEOUT_S, Hours, Place
from tests.migration.test_changing_hands import administered


@pytest.fixture(params=["local", "topic"])
async def kept(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Kept]:
    if request.param == "local":
        async with kept_locally(tmp_path / "data") as locally:
            yield locally
        return
    broker: Broker = request.getfixturevalue("broker").start()
    make_topic: TopicFactory = request.getfixturevalue("make_topic")
    async with kept_on_topic(broker.bootstrap_servers, make_topic(on=broker)) as on_topic:
        await on_topic.begin(0)
        yield on_topic


@pytest.fixture(scope="module")
def place(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with administered(broker, tmp_path_factory.mktemp("groups") / "data") as at:
        yield Place(at, broker)


@pytest.fixture
def hours(make_topic: TopicFactory, broker: Broker) -> Hours:
    """Its partitions have ten records, one an hour."""
    topic = make_topic(PARTITIONS)
    first = time.time_ns() // 1_000_000 - RECORDS * HOUR_MS
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for partition in range(PARTITIONS):
        for number in range(RECORDS):
            producer.produce(topic, b"x", partition=partition, timestamp=first + number * HOUR_MS)
    assert producer.flush(TIMEOUT_S) == 0
    return Hours(topic, first)
