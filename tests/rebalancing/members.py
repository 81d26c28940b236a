"""Members of consumer groups: plain programs of three client libraries, each says what happens to it and what it does.

    members.py LIBRARY NAME BOOTSTRAP TOPIC GROUP STRATEGY SESSION_MS INSTANCE

INSTANCE is a `group.instance.id`, or empty. Polls, processes, commits; SIGTERM ends it in order. The group has an
offset for each partition: who is told of none, or of one that the log does not have, ends with status 1 and says so on
standard error. `Members.java` is the same with Kafka's own consumer.

What happened is printed as JSON, a line each: `t` CLOCK_MONOTONIC in nanoseconds (the same clock for all processes),
`m` the NAME, `e` what, `g` the generation:

    joining, leaving, left
    assigned    "p": all partitions that it holds now          revoked, lost    "p": those that it no longer holds
    records     "r": [[partition, offset, number], …]          committed        "c": {"partition": offset}, acknowledged
    commit_failed  "why"
"""

import asyncio
import json
import logging
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

BATCH = 100
POLL_S = 0.1
COMMIT_EVERY_S = 0.3
HEARTBEAT_MS = 300
MAX_POLL_INTERVAL_MS = 30_000

Number = tuple[int, int, int]  # partition, offset, the number that is the record's value


class Task(NamedTuple):
    name: str
    bootstrap: str
    topic: str
    group: str
    strategy: str
    session_ms: int
    instance: str


class Work:
    """What a member holds, and what it has processed and not committed yet. `generation` tells the present one."""

    def __init__(self, name: str, generation: Callable[[], int]) -> None:
        self._name = name
        self._generation = generation
        self._commit_at = 0.0
        self.held: set[int] = set()
        self.uncommitted: dict[int, int] = {}

    def say(self, event: str, **more: object) -> None:
        line = {"t": time.monotonic_ns(), "m": self._name, "e": event, "g": self._generation(), **more}
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()

    def assigned(self, partitions: Iterable[int]) -> None:
        """All that it has now."""
        self.held = set(partitions)
        self.say("assigned", p=sorted(self.held))

    def revoked(self, partitions: Iterable[int], what: str = "revoked") -> None:
        gone = sorted(set(partitions) & self.held)
        self.held.difference_update(gone)
        for partition in gone:
            self.uncommitted.pop(partition, None)
        if gone:
            self.say(what, p=gone)

    def processed(self, records: Iterable[Number]) -> None:
        records = sorted(records)
        if records:
            self.say("records", r=records)
            self.uncommitted |= {partition: offset + 1 for partition, offset, _ in records}

    def commit_is_due(self) -> bool:
        return bool(self.uncommitted) and time.monotonic() >= self._commit_at

    def committed(self, offsets: Mapping[int, int]) -> None:
        self.say("committed", c=offsets)
        self._commit_at = time.monotonic() + COMMIT_EVERY_S
        for partition, offset in offsets.items():
            if self.uncommitted.get(partition) == offset:
                del self.uncommitted[partition]

    def commit_failed(self, why: str) -> None:
        """The next one covers it, unless the partition is gone by then."""
        self.say("commit_failed", why=why)
        self._commit_at = time.monotonic() + COMMIT_EVERY_S


def until_sigterm() -> threading.Event:
    """An event that SIGTERM sets."""
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: ended.set())
    return ended


def kafka_python(task: Task) -> None:
    from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.errors import KafkaError
    from kafka.structs import OffsetAndMetadata

    ended = until_sigterm()
    assignors = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}
    consumer = KafkaConsumer(
        bootstrap_servers=task.bootstrap,
        group_id=task.group,
        group_instance_id=task.instance or None,
        partition_assignment_strategy=[assignors[task.strategy]],
        session_timeout_ms=task.session_ms,
        heartbeat_interval_ms=HEARTBEAT_MS,
        max_poll_interval_ms=MAX_POLL_INTERVAL_MS,
        auto_offset_reset="none",
        enable_auto_commit=False,
        max_poll_records=BATCH,
    )
    work = Work(task.name, lambda: int(consumer.group_metadata().generation_id))

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        """Commits nothing: it runs where commits are sent from."""

        def on_partitions_assigned(self, assigned: Any) -> None:
            work.assigned(tp.partition for tp in assigned)

        def on_partitions_revoked(self, revoked: Any) -> None:
            work.revoked(tp.partition for tp in revoked)

        def on_partitions_lost(self, lost: Any) -> None:
            work.revoked((tp.partition for tp in lost), "lost")

    consumer.subscribe([task.topic], listener=Listener())
    # A leader of kafka-python 3.0.12 that first sees the topic's metadata after it has joined joins again; when a poll
    # ends before that is through, no later one goes on with it, and the member has no partitions and no heartbeat for
    # good, at a broker too. So have the metadata once it has subscribed, and before it joins.
    consumer.topics()
    work.say("joining")

    def commit() -> None:
        offsets = dict(work.uncommitted)
        try:
            consumer.commit({TopicPartition(task.topic, p): OffsetAndMetadata(o, "", -1) for p, o in offsets.items()})
        except KafkaError as error:
            work.commit_failed(type(error).__name__)
        else:
            work.committed(offsets)

    while not ended.is_set():
        polled = consumer.poll(timeout_ms=int(POLL_S * 1000))
        work.processed((r.partition, r.offset, int(r.value)) for records in polled.values() for r in records)
        if work.commit_is_due():
            commit()
    if work.uncommitted:
        commit()
    work.say("leaving")
    consumer.close()
    work.say("left")


def aiokafka(task: Task) -> None:
    asyncio.run(_aiokafka(task))


async def _aiokafka(task: Task) -> None:
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from aiokafka.errors import KafkaError

    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    assignors = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}
    consumer = AIOKafkaConsumer(
        bootstrap_servers=task.bootstrap,
        group_id=task.group,
        group_instance_id=task.instance or None,
        partition_assignment_strategy=[assignors[task.strategy]],
        session_timeout_ms=task.session_ms,
        rebalance_timeout_ms=MAX_POLL_INTERVAL_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        max_poll_interval_ms=MAX_POLL_INTERVAL_MS,
        auto_offset_reset="none",
        enable_auto_commit=False,
        max_poll_records=BATCH,
    )
    # The library has no public name for the generation.
    work = Work(task.name, lambda: int(getattr(consumer._coordinator, "generation", -1)))
    committing = asyncio.Lock()  # rebalancing goes on in a task of its own

    async def commit() -> None:
        offsets = dict(work.uncommitted)
        if not offsets:
            return
        try:
            await consumer.commit({TopicPartition(task.topic, p): o for p, o in offsets.items()})
        except KafkaError as error:
            work.commit_failed(type(error).__name__)
        else:
            work.committed(offsets)

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        async def on_partitions_assigned(self, assigned: Any) -> None:
            work.assigned(tp.partition for tp in assigned)

        async def on_partitions_revoked(self, revoked: Any) -> None:
            async with committing:
                await commit()
                work.revoked(tp.partition for tp in revoked)

    await consumer.start()
    work.say("joining")
    consumer.subscribe([task.topic], listener=Listener())
    while not ended.is_set():
        polled = await consumer.getmany(timeout_ms=int(POLL_S * 1000))
        # What it was given before they were revoked, and wakes up to afterwards, somebody else will be given again.
        work.processed(
            (tp.partition, r.offset, int(r.value))
            for tp, records in polled.items()
            if tp.partition in work.held
            for r in records
        )
        if work.commit_is_due():
            async with committing:
                await commit()
    async with committing:
        await commit()
    work.say("leaving")
    await consumer.stop()
    work.say("left")


def confluent_kafka(task: Task) -> None:
    from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

    ended = until_sigterm()
    consumer = Consumer(
        {
            "bootstrap.servers": task.bootstrap,
            "group.id": task.group,
            **({"group.instance.id": task.instance} if task.instance else {}),
            "partition.assignment.strategy": task.strategy,
            "session.timeout.ms": task.session_ms,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "max.poll.interval.ms": MAX_POLL_INTERVAL_MS,
            "auto.offset.reset": "error",
            "enable.auto.commit": False,
        }
    )
    cooperative = task.strategy == "cooperative-sticky"

    def told(callback: Callable[[Consumer, list[TopicPartition]], None]) -> Callable[..., None]:
        """The library says nothing of what a callback raised."""

        def calling(*arguments: Any) -> None:
            try:
                callback(*arguments)
            except Exception:
                traceback.print_exc()
                raise

        return calling

    last_known = [-1]

    def generation() -> int:
        try:
            metadata = consumer.consumer_group_metadata()
        except (RuntimeError, KafkaException):  # "not available", as the group is left while it rebalances
            return last_known[0]
        # "CGMDv2:", the generation as the machine has it, group, member, instance.
        last_known[0] = int.from_bytes(metadata[7:11], sys.byteorder, signed=True)
        return last_known[0]

    work = Work(task.name, generation)
    polled: list[Number] = []

    def commit() -> None:
        offsets = dict(work.uncommitted)
        if not offsets:
            return
        try:
            asked = [TopicPartition(task.topic, partition, offset) for partition, offset in offsets.items()]
            for answer in consumer.commit(offsets=asked, asynchronous=False):
                if answer.error is not None:
                    raise KafkaException(answer.error)
        except KafkaException as error:
            work.commit_failed(error.args[0].name())
        else:
            work.committed(offsets)

    def process() -> None:
        work.processed(polled)
        polled.clear()

    def on_assign(_: Consumer, partitions: list[TopicPartition]) -> None:
        new = {tp.partition for tp in partitions}
        work.assigned(work.held | new if cooperative else new)

    def on_revoke(_: Consumer, partitions: list[TopicPartition]) -> None:
        process()
        commit()
        work.revoked(tp.partition for tp in partitions)

    def on_lost(_: Consumer, partitions: list[TopicPartition]) -> None:
        polled.clear()
        work.revoked((tp.partition for tp in partitions), "lost")

    def take(message: Message | None) -> bool:
        if message is None:
            return False
        if (error := message.error()) is not None:
            print(error, file=sys.stderr, flush=True)
            if error.code() == KafkaError._AUTO_OFFSET_RESET:
                sys.exit(1)
            return True
        polled.append((message.partition() or 0, message.offset() or 0, int(message.value() or b"")))
        return True

    work.say("joining")
    consumer.subscribe([task.topic], on_assign=told(on_assign), on_revoke=told(on_revoke), on_lost=told(on_lost))
    while not ended.is_set():
        more = take(consumer.poll(POLL_S))
        while more and len(polled) < BATCH:
            more = take(consumer.poll(0))
        process()
        if work.commit_is_due():
            commit()
    commit()
    work.say("leaving")
    consumer.close()
    # It is closed, and knows no generation any more.
    Work(task.name, lambda: -1).say("left")


LIBRARIES: Mapping[str, Callable[[Task], None]] = {
    "kafka-python": kafka_python,
    "aiokafka": aiokafka,
    "confluent-kafka": confluent_kafka,
}


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    library, name, bootstrap, topic, group, strategy, session_ms, instance = sys.argv[1:]
    LIBRARIES[library](Task(name, bootstrap, topic, group, strategy, int(session_ms), instance))
