"""produce BOOTSTRAP TOPIC: a record for every line `key<TAB>value` of standard input, with kafka-python.
consume BOOTSTRAP TOPIC GROUP: a line for every record; SIGTERM: commit, leave, end.

Behind both may come further settings, `name=milliseconds`.
"""

import logging
import signal
import sys
import threading
from collections.abc import Callable, Iterable

from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import RetriableError


def further(settings: Iterable[str]) -> dict[str, int]:
    return {name: int(value) for name, _, value in (text.partition("=") for text in settings)}


def produce(bootstrap: str, topic: str, *settings: str) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all", linger_ms=5, **further(settings))
    sent = []
    for line in sys.stdin.buffer:
        key, value = line.rstrip(b"\n").split(b"\t")
        sent.append(producer.send(topic, key=key, value=value))
    producer.flush()
    for future in sent:
        future.get(timeout=0)
    producer.close()


def consume(bootstrap: str, topic: str, group: str, *settings: str) -> None:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        heartbeat_interval_ms=300,
        **further(settings),
    )
    consumer.subscribe([topic])
    # With kafka-python 3.0.12 a leader that joined before it knew the topic's partitions joins again once it does, and
    # forgets that it does so as soon as it has assigned them. When a poll's time is up before SyncGroup is answered, it
    # then stays out of its group for good: no heartbeat, every commit fails; at a broker, too. So it is to know them
    # before it joins, and what it was told before it subscribed does not count.
    known = False
    while not stop.is_set():
        try:
            if not known:
                consumer.partitions_for_topic(topic)
                known = True
            polled = consumer.poll(timeout_ms=200)
        except RetriableError as error:
            # While it looks for its coordinator, poll() raises what cut its own metadata request, as the question for
            # partitions does; it says itself that asking again may do, and does.
            logging.warning("polling again: %r", error)
            continue
        for partition, records in polled.items():
            for record in records:
                print(f"Partition:{partition.partition}\tOffset:{record.offset}\t{record.value.decode()}")
        sys.stdout.flush()
    consumer.close()


MODES: dict[str, Callable[..., None]] = {"produce": produce, "consume": consume}

if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    MODES[sys.argv[1]](*sys.argv[2:])
