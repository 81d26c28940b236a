"""What clients of today do: they write what old ones read, and look at what a group has committed."""

from __future__ import annotations

from confluent_kafka import Consumer, Producer, TopicPartition

_TIMEOUT_SECONDS = 30.0


def values(numbers: range) -> list[str]:
    return [f"value-{n}" for n in numbers]


def write(bootstrap: str, topic: str, partition: int, numbers: range) -> None:
    """With a codec that old consumers do not know."""
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": "zstd"})
    for value in values(numbers):
        producer.produce(topic, value=value, partition=partition)
    assert producer.flush(_TIMEOUT_SECONDS) == 0


NO_OFFSET = -1001


def committed(bootstrap: str, group: str, topic: str) -> int | None:
    """Of partition 0, by the coordinator found there; NO_OFFSET where there is none."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        (found,) = consumer.committed([TopicPartition(topic, 0)], _TIMEOUT_SECONDS)
        return found.offset
    finally:
        consumer.close()
