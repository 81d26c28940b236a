"""Offsets in transactions, while their group changes hands: none is lost, and none comes back."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from protocol.errors import ErrorCode
from shim.demo.parts import Broker
from tests.conftest import TopicFactory
from tests.migration.test_changing_hands import administered
from tests.migration.test_first_contact import TIMEOUT_S, commit, commit_error, committed
from tests.waiting import wait_until
from tests.wire import WireClient


def offsets_at(at: str, group: str, topic: str) -> list[int]:
    consumer = Consumer({"bootstrap.servers": at, "group.id": group})
    try:
        found = consumer.committed([TopicPartition(topic, number) for number in range(2)], TIMEOUT_S)
    finally:
        consumer.close()
    return [each.offset for each in found]


def begun(at: str, group: str, topic: str, partition: int, offset: int, transactional_id: str = "") -> Producer:
    """A transaction with an offset of the group, that has not ended."""
    producer = Producer({"bootstrap.servers": at, "transactional.id": transactional_id or f"of-{group}"})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(topic, b"record", partition=0)
    consumer = Consumer({"bootstrap.servers": at, "group.id": group})
    try:
        offsets = [TopicPartition(topic, partition, offset)]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), TIMEOUT_S)
    finally:
        consumer.close()
    return producer


def test_a_transaction_that_is_open_is_waited_for(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, fresh_name: Callable[[], str]
) -> None:
    """Of a partition without an offset brokers tell nothing until it ends."""
    topic, group = make_topic(2), fresh_name()
    commit(broker.bootstrap_servers, group, topic, 3)
    with administered(broker, tmp_path / "data") as at:
        producer = begun(at.shim.bootstrap, group, topic, 1, 77)
        statuses: list[int] = []
        starting = threading.Thread(target=lambda: statuses.append(at.migrate("start", group).status))
        starting.start()
        starting.join(1.0)
        assert starting.is_alive()
        producer.commit_transaction(TIMEOUT_S)
        starting.join(TIMEOUT_S)
        assert statuses == [0]
        assert at.status(group)["offsets_storage"] == "kafka"
        assert offsets_at(at.shim.bootstrap, group, topic) == [3, 77]


def test_a_group_of_which_there_is_nothing_but_an_open_transaction_is_the_clusters(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, fresh_name: Callable[[], str]
) -> None:
    topic, group = make_topic(2), fresh_name()
    producer = begun(broker.bootstrap_servers, group, topic, 1, 77)
    with administered(broker, tmp_path / "data") as at:
        with WireClient(at.shim.port) as client:
            assert commit_error(client, group, topic, 1) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            producer.commit_transaction(TIMEOUT_S)
            wait_until(lambda: commit_error(client, group, topic, 1) == ErrorCode.NONE)
        assert at.status(group)["offsets_storage"] == "upstream"
        assert offsets_at(at.shim.bootstrap, group, topic) == [1, 77]


def test_what_was_committed_in_the_cluster_before_does_not_come_back(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, fresh_name: Callable[[], str]
) -> None:
    """The shim reads the cluster's log again after a restart, from some way back."""
    topic, group = make_topic(2), fresh_name()
    with administered(broker, tmp_path / "data") as at:
        begun(at.shim.bootstrap, group, topic, 0, 3).commit_transaction(TIMEOUT_S)
        wait_until(lambda: committed(at.shim.bootstrap, group, topic) == 3)
        assert at.status(group)["offsets_storage"] == "kafka"
        wait_until(lambda: at.migrate("rollback", group).status == 0)
        begun(at.shim.bootstrap, group, topic, 0, 10).commit_transaction(TIMEOUT_S)
        wait_until(lambda: committed(at.shim.bootstrap, group, topic) == 10)
        commit(at.shim.bootstrap, group, topic, 5)  # a rewind
        assert at.migrate("start", group).status == 0
        commit(at.shim.bootstrap, group, topic, 6)
        at.shim.kill()
        at.shim.start()
        # The next transaction is read behind all that was there before.
        begun(at.shim.bootstrap, group, topic, 1, 8).commit_transaction(TIMEOUT_S)
        wait_until(lambda: offsets_at(at.shim.bootstrap, group, topic)[1] == 8)
        assert offsets_at(at.shim.bootstrap, group, topic) == [6, 8]


def test_a_group_with_an_open_transaction_is_not_given_back(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, fresh_name: Callable[[], str]
) -> None:
    topic, group = make_topic(2), fresh_name()
    with administered(broker, tmp_path / "data") as at:
        commit(at.shim.bootstrap, group, topic, 1)
        producer = begun(at.shim.bootstrap, group, topic, 0, 3)
        refused = at.migrate("rollback", group)
        assert refused.status == 1
        assert "a transaction with offsets of it has not ended yet" in refused.stdout + refused.stderr
        producer.commit_transaction(TIMEOUT_S)
        wait_until(lambda: at.migrate("rollback", group).status == 0)
        assert committed(broker.bootstrap_servers, group, topic) == 3
