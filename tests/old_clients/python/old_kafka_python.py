"""kafka-python 3 as an old client: VERSION, then what client.py beside this folder says.

VERSION is its `api_version`, 0.8.2, 0.9 or 0.10.0. Up to 0.9 it asks no broker for versions, and sends those that it
has in a table of its own; with 0.10.0 it asks, and takes the lower ones.
"""

import json
import logging
import sys
import time

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata

PATIENCE_S = 50.0
WITH_GROUPS = (0, 9)
WITH_TIMESTAMPS = (0, 10)


def produce(version: tuple[int, ...], bootstrap: str, topic: str, codec: str, prefix: str, count: str) -> None:
    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        api_version=version,
        acks="all",
        compression_type=None if codec == "none" else codec,
        enable_idempotence=False,
        linger_ms=20,
        batch_size=2_000,
    )
    sent = [
        producer.send(
            topic, key=f"{prefix}-key-{i}".encode(), value=f"{prefix}-value-{i}-{200 * 'x'}".encode(), partition=0
        )
        for i in range(int(count))
    ]
    producer.flush(timeout=PATIENCE_S)
    print(json.dumps({"offsets": [future.get(timeout=0).offset for future in sent]}))
    producer.close()


def consume(version: tuple[int, ...], bootstrap: str, topic: str, group: str, wanted: str, zookeeper: str) -> None:
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        api_version=version,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_poll_records=1,  # so that its position is behind what was printed
    )
    partition = TopicPartition(topic, 0)
    if version >= WITH_GROUPS:
        consumer.partitions_for_topic(topic)  # or else it may join before it knows them, and once more after
        consumer.subscribe([topic])
    else:
        consumer.assign([partition])
    deadline = time.monotonic() + PATIENCE_S
    left, following = int(wanted), 0
    while left and time.monotonic() < deadline:
        for record in (record for records in consumer.poll(timeout_ms=500).values() for record in records):
            print(
                json.dumps(
                    {
                        "offset": record.offset,
                        "key": record.key and record.key.decode(),
                        "value": record.value and record.value.decode(),
                        "timestamp": record.timestamp if version >= WITH_TIMESTAMPS else None,
                    }
                )
            )
            left -= 1
            following = record.offset + 1
    if left:
        sys.exit(f"{left} records did not come in time")
    consumer.commit({partition: OffsetAndMetadata(following, "", -1)})
    consumer.close(autocommit=False)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    chosen = tuple(map(int, sys.argv[1].split(".")))
    {"produce": produce, "consume": consume}[sys.argv[2]](chosen, *sys.argv[3:])
