"""What a broker has, asked without the shim."""

from __future__ import annotations

from confluent_kafka import Consumer, KafkaException, TopicPartition

from shim.demo.parts import Broker
from tests.clients.programs import Record


def every_record(broker: Broker, topic: str, partition_count: int) -> list[Record]:
    """Of the topic, by its partitions."""
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "none", "enable.auto.commit": False}
    )
    found: list[Record] = []
    try:
        partitions = [TopicPartition(topic, number, 0) for number in range(partition_count)]
        wanted = sum(consumer.get_watermark_offsets(each, timeout=30)[1] for each in partitions)
        consumer.assign(partitions)
        while len(found) < wanted:
            for message in consumer.consume(500, timeout=5):
                if message.error():
                    raise KafkaException(message.error())
                value = message.value() or b""
                found.append(Record(message.partition() or 0, message.offset() or 0, value.decode()))
    finally:
        consumer.close()
    return found
