"""Unmodified clients that commit one offset after the other, and know which of them were acknowledged."""

from __future__ import annotations

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import TracebackType
from typing import Final, Self

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaError as AiokafkaError
from aiokafka.structs import TopicPartition as AiokafkaPartition
from confluent_kafka import Consumer, KafkaException, TopicPartition
from kafka import KafkaConsumer, OffsetAndMetadata
from kafka import TopicPartition as KafkaPythonPartition
from kafka.errors import KafkaError as KafkaPythonError

PATIENCE_MS: Final = 3_000
LIMIT_S: Final = 30.0


class Committer(ABC):
    """In a `with` block: a member of no group commits 1, 2, 3 and so on for partition 0, whatever becomes of each."""

    failures: tuple[type[Exception], ...]
    """What the library raises where a commit was not acknowledged."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self.bootstrap, self.topic, self.group = bootstrap, topic, group
        self.attempted = 0
        self.acknowledged = 0
        self.failed: list[Exception] = []
        self._changed = threading.Condition()
        self._over = False
        self._crash: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=type(self).__name__, daemon=True)

    @abstractmethod
    def open(self) -> None: ...

    @abstractmethod
    def commit(self, offset: int) -> None:
        """Raises one of ``failures``."""

    @abstractmethod
    def close(self) -> None: ...

    def wait_acknowledged(self, more: int) -> None:
        """So many more than now, of those that are attempted from now on."""
        wanted = self.attempted + more
        with self._changed:
            done = self._changed.wait_for(lambda: self._crash or self.acknowledged >= wanted, LIMIT_S)
        assert self._crash is None, self._crash
        assert done, (type(self).__name__, self.acknowledged, self.failed[-3:])

    def _run(self) -> None:
        try:
            self.open()
            while not self._over:
                self.attempted += 1
                try:
                    self.commit(self.attempted)
                except self.failures as error:
                    self.failed.append(error)
                else:
                    with self._changed:
                        self.acknowledged = self.attempted
                        self._changed.notify_all()
                time.sleep(0.005)  # the others are to have a turn
            self.close()
        except BaseException as crash:
            with self._changed:
                self._crash = crash
                self._changed.notify_all()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over = True
        if error is None:
            self._thread.join(LIMIT_S)
            assert not self._thread.is_alive()


class ConfluentKafka(Committer):
    failures = (KafkaException,)

    def open(self) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": self.group,
                "socket.timeout.ms": PATIENCE_MS,
                "log_level": 0,
            }
        )

    def commit(self, offset: int) -> None:
        self._consumer.commit(offsets=[TopicPartition(self.topic, 0, offset)], asynchronous=False)

    def close(self) -> None:
        self._consumer.close()


class KafkaPython(Committer):
    failures = (KafkaPythonError,)

    def open(self) -> None:
        self._consumer = KafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            enable_auto_commit=False,
            request_timeout_ms=PATIENCE_MS,
        )
        self._consumer.assign([KafkaPythonPartition(self.topic, 0)])

    def commit(self, offset: int) -> None:
        self._consumer.commit({KafkaPythonPartition(self.topic, 0): OffsetAndMetadata(offset, "", -1)})

    def close(self) -> None:
        self._consumer.close()


class Aiokafka(Committer):
    failures = (AiokafkaError,)

    def open(self) -> None:
        self._runner = asyncio.Runner()
        self._runner.run(self._open())

    async def _open(self) -> None:
        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            enable_auto_commit=False,
            request_timeout_ms=PATIENCE_MS,
        )
        await self._consumer.start()
        self._consumer.assign([AiokafkaPartition(self.topic, 0)])

    def commit(self, offset: int) -> None:
        self._runner.run(self._consumer.commit({AiokafkaPartition(self.topic, 0): offset}))

    def close(self) -> None:
        self._runner.run(self._consumer.stop())
        self._runner.close()


COMMITTERS: Final[Mapping[str, type[Committer]]] = {
    "confluent-kafka": ConfluentKafka,
    "kafka-python": KafkaPython,
    "aiokafka": Aiokafka,
}
