"""Where partitions end, asked of a real broker."""

from __future__ import annotations

import logging
import time

import pytest
from confluent_kafka import Producer

from shim.config import HostPort, Settings
from shim.demo.parts import Broker
from shim.offsets.cluster.kept_brokers import KeptBrokers
from shim.upstream import Cluster, LogEnds
from tests.conftest import TopicFactory

NOT_AGAIN = 3600.0


async def brokers_of(broker: Broker) -> KeptBrokers:
    cluster = Cluster([HostPort(broker.host, broker.port)], Settings())
    await cluster.take({broker.node_id: HostPort(broker.host, broker.port)})
    return KeptBrokers(cluster, Settings())


def produce(broker: Broker, topic: str, counts: list[int]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for partition, count in enumerate(counts):
        for _ in range(count):
            producer.produce(topic, b"x", partition=partition)
    assert producer.flush(30) == 0


async def test_what_there_is_and_what_there_is_not(broker: Broker, make_topic: TopicFactory) -> None:
    one, other = make_topic(3), make_topic(1)
    produce(broker, one, [2, 0, 5])
    wanted = [(one, 0), (one, 1), (one, 2), (one, 3), (other, 0), ("no-such-topic", 0)]
    brokers = await brokers_of(broker)
    ends = LogEnds(brokers, NOT_AGAIN)
    try:
        found = await ends.of(wanted)
        assert found == {(one, 0): 2, (one, 1): 0, (one, 2): 5, (other, 0): 0}
        produce(broker, one, [1])
        assert await ends.of(wanted) == found, "it is not time to ask again"
    finally:
        ends.close()
        brokers.close()
    assert ends.last_asked_at is not None
    assert ends.last_asked_at <= time.monotonic()


async def test_a_broker_that_is_gone(
    broker: Broker, make_topic: TopicFactory, caplog: pytest.LogCaptureFixture
) -> None:
    topic = make_topic(1)
    produce(broker, topic, [3])
    brokers = await brokers_of(broker)
    ends = LogEnds(brokers, 1.0)
    try:
        assert await ends.of([(topic, 0)]) == {(topic, 0): 3}
        broker.kill()
        with caplog.at_level(logging.WARNING):
            assert await ends.of([(topic, 0), ("another", 0)]) == {(topic, 0): 3}
            assert await ends.of([("a third", 0)]) == {}
    finally:
        ends.close()
        brokers.close()
    assert caplog.text.count("where partitions end cannot be asked for now") == 1
