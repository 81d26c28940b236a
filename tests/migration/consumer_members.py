"""Members of groups of the consumer protocol (KIP-848)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition


class Member:
    """Of librdkafka. ``settings``: how it comes to the brokers."""

    def __init__(self, settings: Mapping[str, Any], group: str, topic: str, protocol: str = "consumer") -> None:
        self.errors: list[KafkaError] = []
        its = {"group.id": group, "group.protocol": protocol, "enable.auto.commit": "false"}
        self._consumer = Consumer({**settings, **its})
        self._consumer.subscribe([topic])

    @property
    def assigned(self) -> set[int]:
        """After it has had its turn."""
        message = self._consumer.poll(0.05)
        if message is not None and (error := message.error()) is not None:
            self.errors.append(error)
        return {each.partition for each in self._consumer.assignment()}

    def commit(self, topic: str, offset: int) -> None:
        partitions = [TopicPartition(topic, each, offset) for each in self.assigned]
        for each in self._consumer.commit(offsets=partitions, asynchronous=False):
            assert each.error is None

    def close(self) -> None:
        self._consumer.close()


def until(holds: Callable[[], bool]) -> None:
    """``holds`` polls, so it waits."""
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
