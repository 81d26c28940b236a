"""BOOTSTRAP GROUP INSTANCE TRANSACTIONAL-ID FROM TO: copies one topic to another with confluent-kafka, exactly once.

Consumes, produces, and commits the offsets in the transaction; every fifth transaction is aborted and done again.
Prints `copied COUNT` after each commit. Ends, with exit status 3, at an error that leaves it nothing but to start anew.
"""

import os
import signal
import sys
import threading

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

# Longer than a broker takes to start: a coordinator of Kafka 4.3.1 that aborts a transaction before it knows the
# leaders of its partitions writes no markers, and says CompleteAbort; no `read_committed` reader ever gets past that.
TRANSACTION_TIMEOUT_MS = 10_000
SESSION_TIMEOUT_MS = 4_000
BATCH = 7
TIMEOUT_S = 30.0
HANGS_AFTER_S = 20.0
START_ANEW = 3
FATAL = (KafkaError._FATAL, KafkaError.FENCED_INSTANCE_ID)


def copy(bootstrap: str, group: str, instance: str, transactional_id: str, source: str, target: str) -> None:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    both = {"bootstrap.servers": bootstrap, "reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 200}
    consumer = Consumer(
        {
            **both,
            "group.id": group,
            **({"group.instance.id": instance} if instance else {}),
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "session.timeout.ms": SESSION_TIMEOUT_MS,
            "heartbeat.interval.ms": 300,
        }
    )
    producer = Producer(
        {**both, "transactional.id": transactional_id, "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS, "linger.ms": 0}
    )
    producer.init_transactions(TIMEOUT_S)
    consumer.subscribe([source])
    number = copied = 0
    watchdog = Watchdog()
    while not stop.is_set():
        watchdog.pat()
        records = []
        for record in consumer.consume(BATCH, 0.2):
            error = record.error()
            if error is None:
                records.append(record)
            elif error.fatal() or error.code() in FATAL:  # a static member that was away for too long fences itself
                raise KafkaException(error)
        if not records:
            continue
        number += 1
        producer.begin_transaction()
        try:
            for record in records:
                producer.produce(target, record.value(), record.key(), partition=record.partition() or 0)
            positions = [at for at in consumer.position(consumer.assignment()) if at.offset >= 0]
            producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), TIMEOUT_S)
            if number % 5 == 0:
                producer.abort_transaction(TIMEOUT_S)
                rewind(consumer)
                continue
            producer.commit_transaction(TIMEOUT_S)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            producer.abort_transaction(TIMEOUT_S)
            rewind(consumer)
            continue
        copied += len(records)
        print(f"copied {copied}", flush=True)
    consumer.close()


class Watchdog:
    """Ends the process when nothing has moved for long.

    librdkafka (seen with 2.16) can lose a `send_offsets_to_transaction`: when AddOffsetsToTxn has failed for want of a
    connection and its repetition succeeds, no TxnOffsetCommit follows, and the call never returns.
    """

    def __init__(self) -> None:
        self._patted = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def pat(self) -> None:
        self._patted.set()

    def _watch(self) -> None:
        while self._patted.wait(HANGS_AFTER_S):
            self._patted.clear()
        print("starting anew: a call of the library hangs", file=sys.stderr, flush=True)
        os._exit(START_ANEW)


def rewind(consumer: Consumer) -> None:
    """Go back to what was committed last."""
    assigned = consumer.assignment()
    for at in consumer.committed(assigned, TIMEOUT_S) if assigned else ():
        consumer.seek(TopicPartition(at.topic, at.partition, max(at.offset, 0)))


if __name__ == "__main__":
    try:
        copy(*sys.argv[1:])
    except KafkaException as error:
        print(f"starting anew: {error}", file=sys.stderr, flush=True)
        sys.exit(START_ANEW)
