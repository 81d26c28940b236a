"""produce BOOTSTRAP TOPIC: a record for every line `key<TAB>value` of standard input, with confluent-kafka.
consume BOOTSTRAP TOPIC GROUP: a line for every record; SIGTERM: commit, leave, end.

Behind both may come further settings, `name=milliseconds`.
"""

import signal
import sys
import threading
from collections.abc import Callable, Iterable

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer


def further(settings: Iterable[str]) -> dict[str, int]:
    return {name: int(value) for name, _, value in (text.partition("=") for text in settings)}


def produce(bootstrap: str, topic: str, *settings: str) -> None:
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failed.append(error)

    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", **further(settings)})
    for line in sys.stdin.buffer:
        key, value = line.rstrip(b"\n").split(b"\t")
        producer.produce(topic, key=key, value=value, on_delivery=delivered)
        producer.poll(0)
    producer.flush()
    if failed:
        sys.exit(f"{len(failed)} records failed, the first: {failed[0]}")


def consume(bootstrap: str, topic: str, group: str, *settings: str) -> None:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "heartbeat.interval.ms": 300,
            **further(settings),
        }
    )
    consumer.subscribe([topic])
    while not stop.is_set():
        for message in consumer.consume(500, timeout=0.2):
            if message.error():
                raise KafkaException(message.error())
            value = message.value() or b""
            print(f"Partition:{message.partition()}\tOffset:{message.offset()}\t{value.decode()}")
        sys.stdout.flush()
    consumer.close()


MODES: dict[str, Callable[..., None]] = {"produce": produce, "consume": consume}

if __name__ == "__main__":
    MODES[sys.argv[1]](*sys.argv[2:])
