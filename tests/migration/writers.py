"""Those who commit offsets of one group all the time, each in its own way, and keep what was acknowledged."""

from __future__ import annotations

import random
import threading
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from types import TracebackType
from typing import Any, Final, Self

from confluent_kafka import Consumer, KafkaException, TopicPartition
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from tests.migration.attempts import Attempts
from tests.waiting import wait_until

_PAUSE_SECONDS: Final = 0.005
_REWINDS: Final = 0.1  # of what is written, goes back
_ENDS_SECONDS: Final = 60.0

# It is to notice soon that the shim is back, and never to send twice while an answer may be on its way.
_CLIENT: Final[Mapping[str, Any]] = {
    "enable.auto.commit": False,
    "session.timeout.ms": 6_000,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "retry.backoff.ms": 50,
    "log_level": 0,
}


class Writer(ABC):
    """A thread, at work while the block runs. Each partition's offsets rise, with a rewind now and then, and none comes
    twice. ``base``: writers of the same partition have others, 100,000,000 apart."""

    def __init__(self, partitions: Collection[int], first: Mapping[int, int], base: int, seed: int) -> None:
        self.partitions = list(partitions)
        self.attempts = {number: Attempts(first[number]) for number in partitions}
        self.errors: list[str] = []
        self.acknowledged = 0
        self._rng = random.Random(seed)
        self._number = 0
        self._base = base
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @abstractmethod
    def write(self, partition: int, offset: int) -> None:
        """Returns when it is acknowledged. Raises what :meth:`failures` says when it is not, or nobody knows."""

    @abstractmethod
    def failures(self) -> tuple[type[Exception], ...]: ...

    @abstractmethod
    def close(self) -> None: ...

    def next_offset(self) -> int:
        self._number += 1
        back = 40_000_000 if self._rng.random() < _REWINDS else 0
        return self._base + 50_000_000 + self._number - back

    def write_one(self) -> bool:
        """Whether it was acknowledged."""
        partition = self._rng.choice(self.partitions)
        attempts, offset = self.attempts[partition], self.next_offset()
        attempts.sending(offset)
        try:
            self.write(partition, offset)
        except self.failures() as error:
            self.errors.append(str(error))
            return False
        attempts.acknowledge()
        self.acknowledged += 1
        return True

    def wait_acknowledged(self, more: int = 5) -> None:
        """So many more."""
        goal = self.acknowledged + more
        wait_until(
            lambda: self.acknowledged >= goal, f"{type(self).__name__}: none acknowledged, {self.errors[-3:]}", 90
        )

    def _run(self) -> None:
        while not self._ended.wait(_PAUSE_SECONDS):
            self.write_one()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join(_ENDS_SECONDS)
        assert not self._thread.is_alive(), "it waits for an answer for ever"
        self.close()


class ClientOfToday(Writer):
    """Through the shim."""

    def __init__(
        self, at: str, group: str, topic: str, partitions: Collection[int], first: Mapping[int, int], seed: int = 0
    ) -> None:
        super().__init__(partitions, first, 100_000_000, seed)
        self._topic = topic
        self._consumer = Consumer({"bootstrap.servers": at, "group.id": group, **_CLIENT})

    def write(self, partition: int, offset: int) -> None:
        answered = self._consumer.commit(offsets=[TopicPartition(self._topic, partition, offset)], asynchronous=False)
        for each in answered:
            if each.error is not None:
                raise KafkaException(each.error)

    def failures(self) -> tuple[type[Exception], ...]:
        return (KafkaException,)

    def close(self) -> None:
        self._consumer.close()


class Old(Writer):
    """To ZooKeeper directly."""

    def __init__(
        self, others: KazooClient, path: str, partitions: Collection[int], first: Mapping[int, int], seed: int = 1
    ) -> None:
        """``path``: of the topic below the group's offsets."""
        super().__init__(partitions, first, 300_000_000, seed)
        self._others = others
        self._path = path

    def write(self, partition: int, offset: int) -> None:
        self._others.set_async(f"{self._path}/{partition}", b"%d" % offset).get(timeout=_ENDS_SECONDS / 2)

    def failures(self) -> tuple[type[Exception], ...]:
        return (KazooException, KazooTimeoutError)

    def close(self) -> None:
        """The connection is somebody else's."""
