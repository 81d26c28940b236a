"""A topic that is written to all the time, and what of it is delivered to a group: how often, and in which step."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Final, Self

from confluent_kafka import KafkaError, Message, Producer

from tests.waiting import wait_until

_EVERY_SECONDS: Final = 0.01
_FLUSH_SECONDS: Final = 30.0

Position = tuple[int, int]
"""Partition and offset."""


class Load:
    """Writes the numbers from 0 on, to one partition after the other, until the end of the block."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.written = 0
        """All numbers below this one are being written, or are."""
        self.failed: list[str] = []
        self._topic = topic
        self._partitions = partitions
        self._over = threading.Event()
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "linger.ms": 1, "log_level": 2, "enable.idempotence": True}
        )
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._over.wait(_EVERY_SECONDS):
            partition = self.written % self._partitions
            self._producer.produce(self._topic, b"%d" % self.written, partition=partition, on_delivery=self._told)
            self.written += 1
            self._producer.poll(0)
        self.left = self._producer.flush(_FLUSH_SECONDS)

    def _told(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self.failed.append(str(error))

    def end(self) -> None:
        """Returns when all is written."""
        self._over.set()
        self._thread.join()
        assert self.left == 0, f"{self.left} of {self.written} values are not written"
        assert not self.failed, self.failed[0]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()


class Deliveries:
    """To all consumers of one group, of any kind and in any thread. ``duplicates``: by step, how many were delivered in
    it that had been before; ``seconds``: how long each took.

    A number that stands at two positions was written twice, which is nobody's fault here.
    """

    def __init__(self) -> None:
        self.duplicates: Counter[str] = Counter()
        self.seconds: dict[str, float] = {}
        self.again: dict[str, list[str]] = {}
        """By step, the numbers that were duplicates, and where they stand."""
        self._step = "before"
        self._seen: dict[int, Position | None] = {}
        self._lock = threading.Lock()

    def take(self, value: str | bytes, at: Position | None = None) -> None:
        """``at``: where it is known."""
        number = int(value)
        with self._lock:
            if number in self._seen and (at is None or self._seen[number] in (None, at)):
                self.duplicates[self._step] += 1
                self.again.setdefault(self._step, []).append(f"{number} at {at}")
            self._seen[number] = at

    def missing(self, before: int) -> list[int]:
        """Those of the numbers below that were not delivered."""
        with self._lock:
            return sorted(set(range(before)) - self._seen.keys())

    @contextmanager
    def during(self, step: str) -> Iterator[None]:
        """What is delivered from here on is of this step, until the next one begins."""
        with self._lock:
            self._step = step
            self.duplicates[step] += 0
        begun = time.monotonic()
        yield
        self.seconds[step] = time.monotonic() - begun

    def catch_up(self, load: Load) -> None:
        """Wait until all that has been written by now was delivered."""
        due = load.written
        wait_until(lambda: not self.missing(due), f"{self._step}: not all of {due} values are delivered")

    def report(self) -> str:
        """A line for each step."""
        return "\n".join(
            f"{step:<45} {count:>3} duplicates {self.seconds.get(step, 0.0):5.2f} s {self.again.get(step, '')}".rstrip()
            for step, count in self.duplicates.items()
        )
