"""Idempotent producers and a consumer group of librdkafka, under way while what they talk to is restarted.

Everything that a client reports is written down by its kind, in the phase in which it came.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, NamedTuple, Self

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from tests.waiting import wait_until

PRODUCE_INTERVAL_S = 0.06  # enough of it is under way whatever happens, and brokers have little to do for it
POLL_S = 0.1
COMMITTED_EVERY = 50  # records
FLUSH_S = 60.0
READ_S = 60.0
UNKNOWN = -1
"""The offset of a record whose acknowledgement was lost: to its repetition the broker only says that it stands."""


class Said(NamedTuple):
    """Where an acknowledged record stands, and the text that is its value."""

    partition: int
    offset: int
    value: str


class Reports:
    """`by_phase`: how often each kind came. A kind says who reports, and the error's name.

    `committed`: by partition, up to where a commit was acknowledged. `again`: where a member that got a partition began
    before that. What it costs that the members share the partitions out anew is what they have not committed, no more.
    """

    def __init__(self) -> None:
        self.news = threading.Condition()
        self.phase = "start"
        self.by_phase: dict[str, Counter[str]] = defaultdict(Counter)
        self.acknowledged: list[Said] = []
        self.consumed: set[str] = set()
        self.committed: Counter[int] = Counter()
        self.again: list[str] = []
        self.crashed: list[BaseException] = []

    def error(self, who: str, error: KafkaError) -> None:
        fatal = " (fatal)" if error.fatal() else ""
        with self.news:
            self.by_phase[self.phase][f"{who}: {error.name()}{fatal}"] += 1

    def has_consumed(self, values: set[str]) -> bool:
        """Whether all of these were. What was is taken out of them: this is asked at each record, and to look at
        thousands each time would be a core's work.
        """
        while values:
            value = values.pop()
            if value not in self.consumed:
                values.add(value)
                return False
        return True

    def wait(self, what: str, done: Callable[[], bool], timeout_seconds: float) -> None:
        deadline = time.monotonic() + timeout_seconds
        with self.news:
            while not done():
                if self.crashed:
                    raise RuntimeError("a client broke off") from self.crashed[0]
                left = deadline - time.monotonic()
                assert left > 0, f"{timeout_seconds:g} s passed before {what}; reported: {dict(self.by_phase)}"
                self.news.wait(min(left, 1.0))


class RollingLoad:
    """So many producers and members of a group, each with a thread of its own, on one topic."""

    def __init__(self, bootstrap: str, topic: str, group: str, *, producers: int = 2, consumers: int = 2) -> None:
        self.reports = Reports()
        self._bootstrap = bootstrap
        self._topic = topic
        self._group = group
        self._producing, self._consuming = threading.Event(), threading.Event()
        self._producers = [threading.Thread(target=self._run, args=(self._produce, n)) for n in range(producers)]
        self._consumers = [threading.Thread(target=self._run, args=(self._consume, n)) for n in range(consumers)]

    def go_on(self, phase: str, records: int, timeout_seconds: float) -> None:
        """From here on is this phase; returns when so many more records are acknowledged, and these consumed."""
        reports = self.reports
        with reports.news:
            reports.phase = phase
            wanted = len(reports.acknowledged) + records
        reports.wait(f"{phase}: acknowledged", lambda: len(reports.acknowledged) >= wanted, timeout_seconds)
        values = {said.value for said in reports.acknowledged[:wanted]}
        reports.wait(f"{phase}: consumed", lambda: reports.has_consumed(values), timeout_seconds)

    def enter(self, phase: str) -> None:
        with self.reports.news:
            self.reports.phase = phase

    def end(self, timeout_seconds: float) -> None:
        """Produce no more; leave the group when all that is there is consumed and committed.

        A member that leaves makes the others give up what they have not committed: so none leaves before.
        """
        self.enter("end")
        self._producing.set()
        for thread in self._producers:
            thread.join()
        values = {said.value for said in self.reports.acknowledged}
        self.reports.wait("all is consumed", lambda: self.reports.has_consumed(values), timeout_seconds)
        wanted = high_watermarks(self._bootstrap, self._topic)

        def found() -> list[int]:
            return committed(self._bootstrap, self._group, self._topic, len(wanted))

        wait_until(lambda: found() == wanted, lambda: f"committed up to {found()} of {wanted}", timeout_seconds)
        self._stop()

    def __enter__(self) -> Self:
        for thread in (*self._producers, *self._consumers):
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _stop(self) -> None:
        self._producing.set()
        self._consuming.set()
        for thread in (*self._producers, *self._consumers):
            thread.join()
        if self.reports.crashed:
            raise RuntimeError("a client broke off") from self.reports.crashed[0]

    def _run(self, work: Callable[[int], None], number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            with self.reports.news:
                self.reports.crashed.append(error)
                self.reports.news.notify_all()

    def _produce(self, number: int) -> None:
        reports = self.reports

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                reports.error("delivery", error)
                return
            partition, offset, value = message.partition(), message.offset(), message.value()
            assert partition is not None
            assert value is not None
            with reports.news:
                reports.acknowledged.append(Said(partition, UNKNOWN if offset is None else offset, value.decode()))
                reports.news.notify_all()

        producer = Producer(self._settings("producer", {"enable.idempotence": True, "linger.ms": 5}))
        count = 0
        while not self._producing.wait(PRODUCE_INTERVAL_S):
            value = f"{number}-{count}"
            producer.produce(self._topic, value.encode(), key=value.encode(), on_delivery=delivered)
            producer.poll(0)
            count += 1
        assert producer.flush(FLUSH_S) == 0, "records that were neither acknowledged nor refused"

    def _consume(self, number: int) -> None:
        reports = self.reports
        consumer = Consumer(
            self._settings(
                "consumer",
                {
                    "group.id": self._group,
                    "auto.offset.reset": "earliest",
                    "enable.auto.commit": False,
                    "session.timeout.ms": 10_000,
                    "heartbeat.interval.ms": 500,
                },
            )
        )
        least: dict[int, int] = {}  # of partitions of which it has read nothing yet

        def assigned(_: Consumer, places: list[TopicPartition]) -> None:
            """Before it is asked where to begin."""
            with reports.news:
                least.update({place.partition: reports.committed[place.partition] for place in places})

        consumer.subscribe([self._topic], on_assign=assigned)
        uncommitted = 0
        while not self._consuming.is_set():
            message = consumer.poll(POLL_S)
            if message is not None:
                error, value = message.error(), message.value()
                if error is not None:
                    reports.error("poll", error)
                    continue
                partition, offset = message.partition(), message.offset()
                assert value is not None
                assert partition is not None
                assert offset is not None
                with reports.news:
                    if offset < (begins := least.pop(partition, 0)):
                        reports.again.append(f"partition {partition} from {offset} on, committed up to {begins}")
                    reports.consumed.add(value.decode())
                    reports.news.notify_all()
                uncommitted += 1
            if uncommitted >= COMMITTED_EVERY or (message is None and uncommitted):
                uncommitted = 0 if self._commit(consumer) else uncommitted
        self._commit(consumer)
        consumer.close()

    def _commit(self, consumer: Consumer) -> bool:
        try:
            places = consumer.commit(asynchronous=False) or []
        except KafkaException as failure:
            error = failure.args[0]
            if error.code() == KafkaError._NO_OFFSET:  # nothing new
                return True
            self.reports.error("commit", error)
            return False
        with self.reports.news:
            for place in places:
                if place.error is None:
                    committed = self.reports.committed
                    committed[place.partition] = max(committed[place.partition], place.offset)
        return True

    def _settings(self, who: str, more: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "bootstrap.servers": self._bootstrap,
            "error_cb": lambda error: self.reports.error(who, error),
            "reconnect.backoff.max.ms": 500,
            "topic.metadata.refresh.interval.ms": 2_000,
            "log_level": 2,
            **more,
        }


def high_watermarks(bootstrap: str, topic: str) -> list[int]:
    """By partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "nobody", "log_level": 2})
    try:
        partitions = sorted(consumer.list_topics(topic, timeout=READ_S).topics[topic].partitions)
        places = [TopicPartition(topic, partition) for partition in partitions]
        return [consumer.get_watermark_offsets(place, timeout=READ_S)[1] for place in places]
    finally:
        consumer.close()


def committed(bootstrap: str, group: str, topic: str, partitions: int) -> list[int]:
    """The group's offsets, by partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 2})
    try:
        places = [TopicPartition(topic, partition) for partition in range(partitions)]
        return [place.offset for place in consumer.committed(places, timeout=READ_S)]
    finally:
        consumer.close()
