"""produce BOOTSTRAP TOPIC: a record for every line `key<TAB>value` of standard input, with kafka-python.
consume BOOTSTRAP TOPIC GROUP: a line for every record; SIGTERM: commit, leave, end.
"""

import logging
import signal
import sys
import threading
from collections.abc import Callable

from kafka import KafkaConsumer, KafkaProducer


def produce(bootstrap: str, topic: str) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all", linger_ms=5)
    sent = []
    for line in sys.stdin.buffer:
        key, value = line.rstrip(b"\n").split(b"\t")
        sent.append(producer.send(topic, key=key, value=value))
    producer.flush()
    for future in sent:
        future.get(timeout=0)
    producer.close()


def consume(bootstrap: str, topic: str, group: str) -> None:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        heartbeat_interval_ms=300,
    )
    # With kafka-python 3.0.12 a leader that joins before it has the topic's metadata now and then leaves the group
    # without partitions for good, at a broker too: so have the metadata first.
    consumer.partitions_for_topic(topic)
    consumer.subscribe([topic])
    while not stop.is_set():
        for partition, records in consumer.poll(timeout_ms=200).items():
            for record in records:
                print(f"Partition:{partition.partition}\tOffset:{record.offset}\t{record.value.decode()}")
        sys.stdout.flush()
    consumer.close()


MODES: dict[str, Callable[..., None]] = {"produce": produce, "consume": consume}

if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    MODES[sys.argv[1]](*sys.argv[2:])
