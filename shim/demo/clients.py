"""The demo's clients: plain programs of three client libraries, each a process of its own that knows one address.

    python -m shim.demo.clients produce BOOTSTRAP TOPIC
    python -m shim.demo.clients LIBRARY BOOTSTRAP TOPIC GROUP

Written as the libraries' own guides have it: poll, process, commit, and when a commit fails the next one covers it.
Nothing here knows of the shim. SIGTERM ends a client in order.

What a client did, it prints as JSON, a line each, after it happened:
`{"delivered": [[partition, offset, number], …]}` acknowledged records of the producer;
`{"records": [[partition, offset, number], …]}` what a consumer was given;
`{"committed": {"partition": offset, …}}` and `{"commit_failed": "why"}` how its commit was answered.
"""

import asyncio
import json
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

PRODUCE_INTERVAL_S = 0.002  # orders come in one by one
POLL_S = 0.2
BATCH = 100  # most records that are processed before their offsets are committed

Number = tuple[int, int, int]  # partition, offset, the number that is the record's value


def say(what: str, value: object) -> None:
    print(json.dumps({what: value}), flush=True)  # noqa: T201 - this is the client's output


def say_records(records: Iterable[Number]) -> dict[int, int]:
    """Process the records; gives back what to commit, by partition: the offset after the last one."""
    records = list(records)
    say("records", records)
    return {partition: offset + 1 for partition, offset, _ in records}


def numbered(message: Any) -> Number:
    """What confluent-kafka gives methods for: a message that was delivered or consumed."""
    return message.partition(), message.offset(), int(message.value())


def until_sigterm() -> threading.Event:
    """An event that SIGTERM sets."""
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: ended.set())
    return ended


def produce(bootstrap: str, topic: str) -> None:
    """confluent-kafka: the numbers 0, 1, 2, … until SIGTERM, every one of them delivered."""
    from confluent_kafka import KafkaError, Message, Producer

    delivered: list[Number] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            raise SystemExit(f"a record was not delivered: {error}")
        delivered.append(numbered(message))

    def say_delivered() -> None:
        if delivered:
            say("delivered", delivered)
            delivered.clear()

    ended = until_sigterm()
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5})
    number = 0
    while not ended.wait(PRODUCE_INTERVAL_S):
        producer.produce(topic, str(number).encode(), key=str(number).encode(), on_delivery=on_delivery)
        producer.poll(0)
        say_delivered()
        number += 1
    left = producer.flush(30)
    say_delivered()
    if left:
        raise SystemExit(f"{left} records were not delivered")


def consume_with_kafka_python(bootstrap: str, topic: str, group: str) -> None:
    from kafka import KafkaConsumer
    from kafka.errors import KafkaError
    from kafka.structs import OffsetAndMetadata

    ended = until_sigterm()
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_poll_records=BATCH,
    )
    # kafka-python 3.0.12 may stay out of its group for good when it learns of partitions only after its first join.
    consumer.partitions_for_topic(topic)
    while not ended.is_set():
        polled = consumer.poll(timeout_ms=int(POLL_S * 1000))
        if not polled:
            continue
        done = say_records((r.partition, r.offset, int(r.value)) for records in polled.values() for r in records)
        try:
            consumer.commit({tp: OffsetAndMetadata(done[tp.partition], "", -1) for tp in polled})
        except KafkaError as error:
            say("commit_failed", str(error))
        else:
            say("committed", done)
    consumer.close()


def consume_with_aiokafka(bootstrap: str, topic: str, group: str) -> None:
    asyncio.run(_consume_with_aiokafka(bootstrap, topic, group))


async def _consume_with_aiokafka(bootstrap: str, topic: str, group: str) -> None:
    from aiokafka import AIOKafkaConsumer
    from aiokafka.errors import KafkaError

    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_poll_records=BATCH,
    )
    await consumer.start()
    try:
        while not ended.is_set():
            polled = await consumer.getmany(timeout_ms=int(POLL_S * 1000))
            if not polled:
                continue
            done = say_records((r.partition, r.offset, int(r.value)) for records in polled.values() for r in records)
            try:
                await consumer.commit({tp: done[tp.partition] for tp in polled})
            except KafkaError as error:
                say("commit_failed", str(error))
            else:
                say("committed", done)
    finally:
        await consumer.stop()


def consume_with_confluent_kafka(bootstrap: str, topic: str, group: str) -> None:
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    ended = until_sigterm()
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    while not ended.is_set():
        polled = []
        for message in consumer.consume(BATCH, POLL_S):
            if message.error() is None:
                polled.append(message)
            else:
                print(message.error(), file=sys.stderr, flush=True)  # noqa: T201
        if not polled:
            continue
        done = say_records(map(numbered, polled))
        offsets = [TopicPartition(topic, partition, offset) for partition, offset in done.items()]
        try:
            answers = consumer.commit(offsets=offsets, asynchronous=False)
            for answer in answers:
                if answer.error is not None:
                    raise KafkaException(answer.error)
        except KafkaException as error:
            say("commit_failed", str(error))
        else:
            say("committed", done)
    consumer.close()


CONSUMERS: Mapping[str, Callable[[str, str, str], None]] = {
    "kafka-python": consume_with_kafka_python,
    "aiokafka": consume_with_aiokafka,
    "confluent-kafka": consume_with_confluent_kafka,
}


if __name__ == "__main__":
    program, *arguments = sys.argv[1:]
    run: Callable[..., None] = produce if program == "produce" else CONSUMERS[program]
    run(*arguments)
