"""BOOTSTRAP RATE TOPIC:PARTITIONS …: the numbers 0, 1, 2, … with confluent-kafka until SIGTERM, RATE a second.

Topic and partition take turns. Prints `{"topic": …, "d": [[partition, offset, number], …]}` for what is acknowledged.
"""

import json
import signal
import sys
import threading
from collections import defaultdict
from itertools import count, cycle

from confluent_kafka import KafkaError, Message, Producer

ROUNDS_A_SECOND = 20


def produce(bootstrap: str, rate: int, targets: list[tuple[str, int]]) -> None:
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: ended.set())
    delivered: dict[str, list[tuple[int, int, int]]] = defaultdict(list)

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            sys.exit(f"a record was not delivered: {error}")
        number = int(message.value() or b"")
        delivered[message.topic() or ""].append((message.partition() or 0, message.offset() or 0, number))

    def say_delivered() -> None:
        for topic, numbers in delivered.items():
            print(json.dumps({"topic": topic, "d": numbers}), flush=True)
        delivered.clear()

    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5})
    numbers, where = count(), cycle(targets)
    while not ended.wait(1 / ROUNDS_A_SECOND):
        for _ in range(rate // ROUNDS_A_SECOND):
            topic, partition = next(where)
            producer.produce(topic, str(next(numbers)).encode(), partition=partition, on_delivery=on_delivery)
        producer.poll(0)
        say_delivered()
    left = producer.flush(30)
    say_delivered()
    if left:
        sys.exit(f"{left} records were not delivered")


if __name__ == "__main__":
    server, a_second, *topics = sys.argv[1:]
    counts = {topic: int(partitions) for topic, _, partitions in (text.rpartition(":") for text in topics)}
    produce(server, int(a_second), [(topic, number) for topic, n in counts.items() for number in range(n)])
