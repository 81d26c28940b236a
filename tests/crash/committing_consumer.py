"""BOOTSTRAP TOPIC GROUP: consumes with kafka-python and commits after every record, until SIGTERM.

Prints `sent PARTITION OFFSET` before each commit, and `acknowledged PARTITION OFFSET` once it has been.
"""

import signal
import sys
import threading

from kafka import KafkaConsumer, OffsetAndMetadata
from kafka.errors import KafkaError


def consume(bootstrap: str, topic: str, group: str) -> None:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        reconnect_backoff_ms=10,
        reconnect_backoff_max_ms=100,
        retry_backoff_ms=20,
    )
    # Known before it joins, for the reason in tests/clients/kafka_python_client.py.
    consumer.partitions_for_topic(topic)
    while not stop.is_set():
        try:
            for partition, records in consumer.poll(timeout_ms=100, max_records=1).items():
                number, offset = partition.partition, records[-1].offset + 1
                print(f"sent {number} {offset}", flush=True)
                consumer.commit({partition: OffsetAndMetadata(offset, f"partition {number} offset {offset}", -1)})
                print(f"acknowledged {number} {offset}", flush=True)
        except KafkaError:
            # Nobody to connect to (which poll may raise), nobody answered, or the group is rebalancing: whether the
            # last offset sent was committed is not known.
            continue
    consumer.close()


if __name__ == "__main__":
    consume(*sys.argv[1:])
