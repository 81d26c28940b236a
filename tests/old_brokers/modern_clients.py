"""Clients of today, in this process: each writes records, and reads them as a member of a group or by itself."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaPythonTopicPartition

LIMIT_S: Final = 15.0

Read = list[tuple[int, bytes | None, bytes | None]]
"""Offset, key and value of each."""


class ModernClient(NamedTuple):
    """``produce(bootstrap, topic, keys and values)`` gives what offsets it was told. ``consume(bootstrap, topic, group,
    count)`` reads so many from the committed offset on, commits, and leaves. Both raise what the library raises, or
    TimeoutError. Without a ``group`` it reads from the beginning on."""

    name: str
    produce: Callable[[str, str, list[tuple[bytes, bytes]]], list[int]]
    consume: Callable[[str, str, str | None, int], Read]


def _confluent_produce(bootstrap: str, topic: str, records: list[tuple[bytes, bytes]]) -> list[int]:
    offsets: list[int] = []
    errors: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            errors.append(error)
        else:
            offsets.append(message.offset() or 0)

    said: list[KafkaError] = []
    settings = {"bootstrap.servers": bootstrap, "message.timeout.ms": int(LIMIT_S * 1000), "error_cb": said.append}
    producer = Producer(settings)
    for key, value in records:
        producer.produce(topic, value, key, 0, on_delivery=delivered)
    left = producer.flush(LIMIT_S + 5)
    if errors or left:
        raise TimeoutError(f"confluent-kafka: {left} left, {errors[:1]}, {said[-1:]}")
    return offsets


def _confluent_consume(bootstrap: str, topic: str, group: str | None, count: int) -> Read:
    said: list[KafkaError] = []
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group or "none",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "error_cb": said.append,
        }
    )
    read: Read = []
    try:
        if group is None:
            consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        else:
            consumer.subscribe([topic])
        deadline = time.monotonic() + LIMIT_S
        while len(read) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"confluent-kafka: {len(read)} of {count} records, {said[-1:]}")
            for message in consumer.consume(1, 0.5):
                error = message.error()
                if error is not None:
                    said.append(error)
                else:
                    read.append((message.offset() or 0, message.key(), message.value()))
        if group is not None:
            consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return read


def _kafka_python_produce(bootstrap: str, topic: str, records: list[tuple[bytes, bytes]]) -> list[int]:
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all", max_block_ms=int(LIMIT_S * 1000))
    try:
        sent = [producer.send(topic, key=key, value=value, partition=0) for key, value in records]
        producer.flush(timeout=LIMIT_S)
        return [future.get(timeout=0).offset for future in sent]
    finally:
        producer.close(timeout=LIMIT_S)  # by then its sockets are closed, too


def _kafka_python_consume(bootstrap: str, topic: str, group: str | None, count: int) -> Read:
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_poll_records=1,
    )
    read: Read = []
    try:
        consumer.partitions_for_topic(topic)
        if group is None:
            consumer.assign([KafkaPythonTopicPartition(topic, 0)])
        else:
            consumer.subscribe([topic])
        deadline = time.monotonic() + LIMIT_S
        while len(read) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"kafka-python: {len(read)} of {count} records")
            for records in consumer.poll(timeout_ms=500).values():
                read += [(record.offset, record.key, record.value) for record in records]
        if group is not None:
            consumer.commit()
    finally:
        consumer.close(autocommit=False)
    return read


def _aiokafka_produce(bootstrap: str, topic: str, records: list[tuple[bytes, bytes]]) -> list[int]:
    async def produce() -> list[int]:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all")
        await producer.start()
        try:
            sent = [await producer.send(topic, value, key, partition=0) for key, value in records]
            return [(await each).offset for each in sent]
        finally:
            await producer.stop()

    return asyncio.run(asyncio.wait_for(produce(), LIMIT_S))


def _aiokafka_consume(bootstrap: str, topic: str, group: str | None, count: int) -> Read:
    async def consume() -> Read:
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        await consumer.start()
        try:
            read: Read = []
            while len(read) < count:
                record = await consumer.getone()
                read.append((record.offset, record.key, record.value))
            if group is not None:
                await consumer.commit({AioTopicPartition(topic, 0): read[-1][0] + 1})
            return read
        finally:
            await consumer.stop()

    return asyncio.run(asyncio.wait_for(consume(), LIMIT_S))


CONFLUENT_KAFKA: Final = ModernClient("confluent-kafka", _confluent_produce, _confluent_consume)
KAFKA_PYTHON: Final = ModernClient("kafka-python", _kafka_python_produce, _kafka_python_consume)
AIOKAFKA: Final = ModernClient("aiokafka", _aiokafka_produce, _aiokafka_consume)
