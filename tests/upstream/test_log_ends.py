"""Where partitions end, asked of a real broker."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Mapping
from typing import Any

import pytest
from confluent_kafka import Producer

from protocol.api import Api
from protocol.messages import list_offsets, metadata
from shim.config import HostPort, Settings
from shim.demo.parts import Broker
from shim.offsets.cluster.kept_brokers import KeptBrokers
from shim.upstream import Cluster, LogEnds
from shim.upstream.log_ends import log_ends
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


class Made:
    """A cluster in which broker 1 leads all partitions. Node ids in ``hung`` never answer; ``leaves_out``: of what
    partitions broker 1 says nothing. A fake: no broker leaves one out."""

    def __init__(self, hung: int | None = None, leaves_out: Collection[str] = ()) -> None:
        self.addresses: Mapping[int, HostPort] = {0: HostPort("h0", 1), 1: HostPort("h1", 1)}
        self.asked: list[int] = []
        self._hung = hung
        self._leaves_out = leaves_out

    async def newest(self, node_id: int, api: Api[Any, Any], *, at_least: int, at_most: int) -> int:
        return at_most

    async def ask(self, node_id: int, api: Api[Any, Any], request: Any, *, version: int | None = None) -> Any:
        self.asked.append(node_id)
        if node_id == self._hung:
            await asyncio.Event().wait()
        if api is metadata.API:
            partitions = (metadata.MetadataResponsePartition(error_code=0, partition_index=0, leader_id=1),)
            return metadata.MetadataResponse(
                topics=tuple(
                    metadata.MetadataResponseTopic(name=topic.name, error_code=0, partitions=partitions)
                    for topic in request.topics
                )
            )
        return list_offsets.ListOffsetsResponse(
            topics=tuple(
                list_offsets.ListOffsetsTopicResponse(
                    topic.name, (list_offsets.ListOffsetsPartitionResponse(0, 0, offset=7),)
                )
                for topic in request.topics
                if topic.name not in self._leaves_out
            )
        )


async def test_a_broker_that_hangs_is_waited_for_once() -> None:
    cluster = Made(hung=0)
    found = await log_ends(cluster, {(f"t{number}", 0) for number in range(3_000)}, within_seconds=0.01)
    assert set(found.values()) == {7}
    assert cluster.asked.count(0) == 1


async def test_what_a_broker_leaves_out_is_not_known() -> None:
    found = await log_ends(Made(leaves_out=["b"]), {("a", 0), ("b", 0)})
    assert found["a", 0] == 7
    assert str(found["b", 0]) == "broker 1 has answered with nothing of it"
