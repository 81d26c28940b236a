"""Copiers, started again whenever they end, and what they have copied as a consumer with `read_committed` sees it."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, Producer, TopicPartition

from shim.demo.parts.jars import KAFKA, jar_set
from shim.demo.parts.jvm import java_command
from shim.demo.parts.process import Child

_PYTHON = Path(__file__).with_name("copying_producer.py")
_JAVA = Path(__file__).with_name("CopyingProducer.java")
_START_ANEW = 3
_POLL_S = 0.1


def confluent_kafka() -> list[str]:
    return [sys.executable, str(_PYTHON)]


def java() -> list[str]:
    return java_command(jar_set(KAFKA), str(_JAVA), heap_mb=96)


class Copier:
    """One application, over however many lives. It ends by being killed, or to start anew."""

    def __init__(self, command: Sequence[str], stderr_file: Path, *args: str) -> None:
        self._argv = [*command, *args]
        self._stderr_file = stderr_file
        self._stopping = threading.Event()
        self._changed = threading.Condition()
        self._transactions = 0
        self.lives = 0
        self._child: Child | None = None
        self._thread = threading.Thread(target=self._run, name="copier", daemon=True)

    def _run(self) -> None:
        while not self._stopping.is_set():
            with self._stderr_file.open("ab") as stderr:
                child = self._child = Child(self._argv, on_line=self._copied, stderr=stderr)
            self.lives += 1
            child.wait()
            if child.returncode not in (_START_ANEW, -signal.SIGKILL) and not self._stopping.is_set():
                self._stopping.set()

    def _copied(self, line: str) -> None:
        with self._changed:
            self._transactions += 1
            self._changed.notify_all()

    @property
    def transactions(self) -> int:
        """Commits that have succeeded."""
        with self._changed:
            return self._transactions

    def wait_transactions(self, more: int, timeout: float = 60.0) -> None:
        """Wait for so many more commits. Raises TimeoutError."""
        with self._changed:
            until = self._transactions + more
            if not self._changed.wait_for(lambda: self._transactions >= until, timeout):
                raise TimeoutError(f"no transaction for {timeout:g} s: {self.stderr()}")

    def kill(self) -> None:
        """SIGKILL, and another life."""
        if self._child is not None:
            self._child.kill()

    def freeze(self, seconds: float) -> None:
        """It does nothing for so long, which is longer than its transaction and its session may last."""
        child = self._child
        assert child is not None
        child.send_signal(signal.SIGSTOP)
        time.sleep(seconds)  # that time passes is what is tested
        child.send_signal(signal.SIGCONT)

    def stderr(self) -> str:
        return self._stderr_file.read_text(errors="replace")[-4_000:]

    @property
    def broke(self) -> bool:
        """Whether it ended otherwise than it should have."""
        return self._stopping.is_set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        while self._thread.is_alive():
            self.kill()
            self._thread.join(0.2)


def fill(bootstrap: str, topic: str, partitions: int, count: int, first: int = 0) -> None:
    """Numbers, each partition its own in order."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True})
    for number in range(first, first + count):
        producer.produce(topic, f"{number}", partition=number % partitions)
        producer.poll(0)
    assert producer.flush(30) == 0


class Copied:
    """What is in the topic by now, by partition, as `read_committed` has it."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "looks-on",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "reconnect.backoff.max.ms": 200,
            }
        )
        self._consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
        self.numbers: list[list[int]] = [[] for _ in range(partitions)]

    def wait(self, count: int, copier: Copier, timeout: float) -> None:
        """Wait until there are so many. Raises TimeoutError, and AssertionError as soon as a number is out of place."""
        deadline = time.monotonic() + timeout
        while (found := sum(map(len, self.numbers))) < count:
            assert not copier.broke, copier.stderr()
            if time.monotonic() > deadline:
                raise TimeoutError(f"{found} of {count} copied: {copier.stderr()}")
            self.look(_POLL_S)

    def look(self, timeout: float) -> None:
        for record in self._consumer.consume(500, timeout):
            if not record.error():
                partition, number = record.partition() or 0, int(record.value() or b"")
                numbers = self.numbers[partition]
                expected = numbers[-1] + len(self.numbers) if numbers else partition
                assert number == expected, f"partition {partition}: {number} where {expected} is due"
                numbers.append(number)

    def close(self) -> None:
        with suppress(RuntimeError):
            self._consumer.close()
