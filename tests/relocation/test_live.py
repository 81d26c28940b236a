"""The shim as its users run it: its log is moved to topics and back, while clients commit all the while."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from shim.demo.parts import Broker, free_port_range
from tests.conftest import TopicFactory
from tests.serve.scraped import AdminPort
from tests.shim_process import Shim
from tests.waiting import wait_until

GROUPS: Final = 6
TIMEOUT_S: Final = 60.0


class Committer(threading.Thread):
    """One group that commits rising offsets, and looks now and then at what it would be told: never an older one than
    the last that was acknowledged. ``stop`` ends it."""

    def __init__(self, bootstrap: str, group: str, topic: str, stop: threading.Event, *, is_member: bool) -> None:
        super().__init__(name=group)
        self._servers = bootstrap
        self.group = group
        self._topic = topic
        self._stop_it = stop
        self._is_member = is_member
        self.acknowledged = 0
        self.commits = 0
        self.old: list[tuple[int, int]] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self._commit_and_look()
        except BaseException as error:
            self.error = error

    def _commit_and_look(self) -> None:
        consumer = Consumer({"bootstrap.servers": self._servers, "group.id": self.group, "enable.auto.commit": False})
        at = TopicPartition(self._topic, 0)
        if self._is_member:
            consumer.subscribe([self._topic])
            while not consumer.assignment() and not self._stop_it.is_set():
                consumer.poll(0.2)
        offset = 0
        while not self._stop_it.is_set():
            offset += 1
            if self._is_member:
                consumer.poll(0)
            try:
                consumer.commit(offsets=[TopicPartition(self._topic, 0, offset)], asynchronous=False)
            except KafkaException as error:
                if not error.args[0].retriable() and error.args[0].name() not in _PASSES:
                    raise
                continue
            self.acknowledged = offset
            self.commits += 1
            if offset % 5 == 0:
                self._look(consumer, at)
        self._look(consumer, at)
        consumer.close()

    def _look(self, consumer: Consumer, at: TopicPartition) -> None:
        (found,) = consumer.committed([at], TIMEOUT_S)
        if found.offset < self.acknowledged:
            self.old.append((found.offset, self.acknowledged))


_PASSES: Final = frozenset(
    {"COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "_WAIT_COORD"}
)


@contextmanager
def committing(bootstrap: str, topic: str) -> Iterator[list[Committer]]:
    """All the while. At the end nothing was lost, and nothing old told."""
    stop = threading.Event()
    clients = [
        Committer(bootstrap, f"moved-{number}", topic, stop, is_member=number % 3 == 0) for number in range(GROUPS)
    ]
    for client in clients:
        client.start()
    try:
        yield clients
    finally:
        stop.set()
        for client in clients:
            client.join(TIMEOUT_S)
    for client in clients:
        assert client.error is None, client.group
        assert not client.old, client.group
        assert not client.is_alive(), client.group


def log_move(admin: str, *args: str, status: int = 0) -> Any:
    """`offset-shim log move`, and what it prints as JSON."""
    command = [sys.executable, "-m", "shim.main", "log", "move", "--admin", admin, "--json", *args]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout) if done.stdout else done.stderr


@pytest.fixture
def admin() -> str:
    return f"127.0.0.1:{free_port_range(1, '127.0.0.1')}"


KILLED: Final = """
import os, signal
from shim.relocation.mover import Mover, Stage

def reached(number, step):
    if step is Stage.WRITTEN and os.path.exists({file!r}):
        os.kill(os.getpid(), signal.SIGKILL)

begun = Mover.__init__
def begins(self, *args):
    begun(self, *args)
    self.reached = reached
Mover.__init__ = begins
"""
"""Once the file is there, when a partition was written, and counts where it was."""


def shim_at(broker: Broker, data_dir: Path, admin: str, prefix: str, patch: str) -> Shim:
    settings: dict[str, str | int] = {
        "offsets.log": "moving",
        "offsets.log.topics.prefix": prefix,
        "offsets.topic.num.partitions": 4,
        "offsets.topic.replication.factor": 1,
        "offsets.topic.segment.bytes": 1_048_576,
        "offsets.read.lease.ms": 200,
    }
    return Shim(
        broker.bootstrap_servers,
        data_dir,
        settings=settings,
        args=("--admin", admin),
        late_patch=patch,
        offsets_log="local",
    )


def test_clients_commit_all_the_while(
    broker: Broker, tmp_path: Path, admin: str, make_topic: TopicFactory, fresh_name: Callable[[], str]
) -> None:
    """There and back; a transaction is open from before the first move to behind the last one. Then it is killed amid a
    move."""
    topic, prefix, kill = make_topic(1), f"__moved_{fresh_name()}", tmp_path / "kill"
    with shim_at(broker, tmp_path / "d", admin, prefix, KILLED.format(file=str(kill))) as shim:
        assert {each["log"] for each in log_move(admin)["partitions"]} == {"local"}
        with (
            open_transaction(shim.bootstrap, "pending", topic, 4711) as producer,
            committing(shim.bootstrap, topic) as clients,
        ):
            for to in ("kafka", "local"):
                before = [client.commits for client in clients]
                moved = log_move(admin, "--to", to)
                assert moved["to"] is None
                assert [each["log"] for each in moved["partitions"]] == [to] * 4
                assert f"all 4 partitions are at {to}" in shim.log()
                assert AdminPort(admin).scrape().value("log_topic_complaints") == 0
                assert ("the cluster's __consumer_offsets 5: " in moved["warning"]) == (to == "kafka")
                _wait_for_more(clients, before)
            producer.commit_transaction(TIMEOUT_S)
        assert offset_of(shim.bootstrap, "pending", topic) == 4711
        acknowledged = {client.group: client.acknowledged for client in clients}
        kill.touch()
        log_move(admin, "--to", "kafka", status=1)  # it cannot tell
        assert shim.kill() == -signal.SIGKILL
        assert "counts here" not in shim.log()
        kill.unlink()
        shim.start()
        assert "was on its way, and counts here: directory" in shim.log()
        assert {each["log"] for each in log_move(admin)["partitions"]} == {"local"}
        shim.stop()
        shim.settings["offsets.log"] = "local"  # without the other log it is all there, too
        shim.start()
        for group, offset in acknowledged.items():
            assert offset_of(shim.bootstrap, group, topic) >= offset
        assert "offsets.log=moving" in log_move(admin, "--to", "kafka", status=2)


@contextmanager
def open_transaction(bootstrap: str, group: str, topic: str, offset: int) -> Iterator[Producer]:
    """With an offset of that group in it; the block ends it."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": group, "transaction.timeout.ms": 300_000})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    at = [TopicPartition(topic, 0, offset)]
    producer.send_offsets_to_transaction(at, consumer.consumer_group_metadata(), TIMEOUT_S)
    consumer.close()
    yield producer


def offset_of(bootstrap: str, group: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        (found,) = consumer.committed([TopicPartition(topic, 0)], TIMEOUT_S)
        return int(found.offset)
    finally:
        consumer.close()


def _wait_for_more(clients: list[Committer], before: list[int]) -> None:
    """Each has committed again since then."""
    wait_until(
        lambda: all(client.commits > count or client.error for client, count in zip(clients, before, strict=True)),
        lambda: [(client.group, client.commits) for client in clients],
    )
