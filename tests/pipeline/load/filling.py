"""Records in topics, and what of them a table has to have."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import TYPE_CHECKING

from confluent_kafka import Producer

from pipeline.load.offsets import Offsets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def fill(bootstrap: str, topic: str, partitions: int, records: int, *, size: int = 200, seed: int = 1) -> None:
    """Over all partitions in turn; keys and values of random bytes, a few of them null, some with headers."""
    chance = random.Random(seed)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "queue.buffering.max.messages": 1_000_000})
    values = [chance.randbytes(size) for _ in range(64)]
    for number in range(records):
        producer.produce(
            topic,
            key=None if number % 11 == 0 else number.to_bytes(8, "big"),
            value=None if number % 101 == 0 else number.to_bytes(8, "big") + values[number % 64][8:],
            partition=number % partitions,
            headers=[("n", str(number).encode()), ("empty", b"")] if number % 7 == 0 else None,
        )
        if number % 10_000 == 0:
            producer.poll(0)
    assert producer.flush(60) == 0


def fill_values(bootstrap: str, topic: str, values: Iterator[bytes | None] | list[bytes | None]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in values:
        producer.produce(topic, value=value, partition=0)
    assert producer.flush(60) == 0


def straight(spark: SparkSession, bootstrap: str, topic: str) -> DataFrame:
    """The topic as Spark reads it at the broker."""
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "includeHeaders": "true"}
    frame = spark.read.format("kafka").options(**options).option("kafka.isolation.level", "read_committed").load()
    return frame.withColumnRenamed("timestampType", "timestamp_type")


_COLUMNS = ("topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers")


def differences(table: DataFrame, topic: DataFrame) -> tuple[int, int]:
    """(rows that only the table has, rows that only the topic has); each as often as it is there."""
    left, right = table.select(*_COLUMNS), topic.select(*_COLUMNS)
    return left.exceptAll(right).count(), right.exceptAll(left).count()


def of_topic(ends: Offsets, topic: str) -> dict[int, int]:
    return {partition: offset for (name, partition), offset in ends.items() if name == topic}
