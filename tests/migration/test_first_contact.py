"""Whose a group is when the shim first hears of it: nobody starts at earliest or latest because the shim is new."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from protocol.errors import ErrorCode
from protocol.messages import offset_commit
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.own.state_log import Hands
from shim.demo.parts import Broker
from tests.conftest import TopicFactory
from tests.shim_process import Shim
from tests.waiting import wait_until
from tests.wire import WireClient

TIMEOUT_S = 30.0


def committed(at: str, group: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": at, "group.id": group})
    try:
        (found,) = consumer.committed([TopicPartition(topic, 0)], TIMEOUT_S)
    finally:
        consumer.close()
    return int(found.offset)


def commit(at: str, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": at, "group.id": group})
    try:
        consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    finally:
        consumer.close()


def consumed(at: str, group: str, topic: str, count: int, *, earliest: bool = True) -> list[bytes]:
    """So many values, of a member of the group, and committed."""
    reset = "earliest" if earliest else "latest"
    consumer = Consumer({"bootstrap.servers": at, "group.id": group, "auto.offset.reset": reset})
    consumer.subscribe([topic])
    values: list[bytes] = []
    try:
        while len(values) < count:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None, f"{len(values)} of {count}"
            assert message.error() is None
            values.append(message.value() or b"")
            consumer.commit(message=message, asynchronous=False)
    finally:
        consumer.close()
    return values


def produce(at: str, topic: str, *values: bytes) -> None:
    producer = Producer({"bootstrap.servers": at, "enable.idempotence": True})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(TIMEOUT_S) == 0


def groups_at(at: str) -> set[str]:
    admin = AdminClient({"bootstrap.servers": at})  # its requests end with it
    listed = admin.list_consumer_groups(request_timeout=TIMEOUT_S).result()
    assert not listed.errors
    return {group.group_id for group in listed.valid}


def test_a_group_with_offsets_in_the_cluster_goes_on_there(
    broker: Broker, shim: Shim, make_topic: TopicFactory, fresh_name: Callable[[], str]
) -> None:
    topic, group = make_topic(), fresh_name()
    produce(broker.bootstrap_servers, topic, *(b"%d" % number for number in range(6)))
    assert consumed(broker.bootstrap_servers, group, topic, 3) == [b"0", b"1", b"2"]
    assert committed(shim.bootstrap, group, topic) == 3
    assert consumed(shim.bootstrap, group, topic, 2) == [b"3", b"4"]
    assert committed(broker.bootstrap_servers, group, topic) == 5
    assert consumed(broker.bootstrap_servers, group, topic, 1) == [b"5"]
    assert committed(shim.bootstrap, group, topic) == 6
    assert group in groups_at(shim.bootstrap)
    shim.stop()
    assert shim.hands()[group] is Hands.PASSED_THROUGH


@pytest.fixture
def unmirrored(broker: Broker, tmp_path: Path) -> Iterator[Shim]:
    """The cluster is told nothing of what it serves."""
    settings = {"offsets.mirror.upstream": "false"}
    with Shim(broker.bootstrap_servers, tmp_path / "data", settings=settings, passes_groups=True) as running:
        yield running


def test_a_group_that_nobody_knows_is_served(
    broker: Broker, unmirrored: Shim, make_topic: TopicFactory, fresh_name: Callable[[], str]
) -> None:
    shim = unmirrored
    topic, group, simple = make_topic(), fresh_name(), fresh_name()
    produce(broker.bootstrap_servers, topic, b"0", b"1")
    assert committed(shim.bootstrap, group, topic) < 0
    assert consumed(shim.bootstrap, group, topic, 2) == [b"0", b"1"]
    commit(shim.bootstrap, simple, topic, 1)
    assert (committed(shim.bootstrap, group, topic), committed(shim.bootstrap, simple, topic)) == (2, 1)
    assert committed(broker.bootstrap_servers, group, topic) < 0
    assert {group, simple} <= groups_at(shim.bootstrap)
    assert not {group, simple} & groups_at(broker.bootstrap_servers)
    # A marker that outlives the group: what the cluster is given later is not the group's.
    admin = AdminClient({"bootstrap.servers": shim.bootstrap})
    admin.delete_consumer_groups([group])[group].result(TIMEOUT_S)
    commit(broker.bootstrap_servers, group, topic, 1)
    assert committed(shim.bootstrap, group, topic) < 0
    shim.kill()
    shim.start()
    assert committed(shim.bootstrap, group, topic) < 0
    assert consumed(shim.bootstrap, group, topic, 2) == [b"0", b"1"]
    shim.stop()
    assert shim.hands()[group] is Hands.SERVED


def test_new_groups_are_passed_through_where_the_setting_says_so(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, fresh_name: Callable[[], str]
) -> None:
    topic, group = make_topic(), fresh_name()
    settings = {"group.new.served": "false"}
    with Shim(broker.bootstrap_servers, tmp_path / "data", settings=settings, passes_groups=True) as shim:
        commit(shim.bootstrap, group, topic, 7)
        assert committed(broker.bootstrap_servers, group, topic) == 7


def test_one_request_about_groups_of_both_kinds(
    broker: Broker, shim: Shim, make_topic: TopicFactory, fresh_name: Callable[[], str]
) -> None:
    topic, served, passed, nobodys = make_topic(), fresh_name(), fresh_name(), fresh_name()
    commit(broker.bootstrap_servers, passed, topic, 5)
    commit(shim.bootstrap, served, topic, 6)
    admin = AdminClient({"bootstrap.servers": shim.bootstrap})
    for group, offset in ((passed, 5), (served, 6), (nobodys, -1001)):
        asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])
        listed = admin.list_consumer_group_offsets([asked], request_timeout=TIMEOUT_S)[group].result()
        (found,) = listed.topic_partitions
        assert found.offset == offset
    described = admin.describe_consumer_groups([passed, served], request_timeout=TIMEOUT_S)
    assert {group: future.result().state.name for group, future in described.items()} == {
        passed: "EMPTY",
        served: "EMPTY",
    }
    for future in admin.delete_consumer_groups([passed, served]).values():
        future.result(TIMEOUT_S)
    assert not {passed, served} & (groups_at(shim.bootstrap) | groups_at(broker.bootstrap_servers))


def test_while_the_cluster_cannot_be_asked_a_group_that_is_known_goes_on_and_another_waits(
    broker: Broker, shim: Shim, make_topic: TopicFactory, fresh_name: Callable[[], str]
) -> None:
    topic, known, new = make_topic(), fresh_name(), fresh_name()
    with WireClient(shim.port) as client:  # its own way to the broker is not asked for commits
        assert commit_error(client, known, topic, 1) == ErrorCode.NONE
        broker.kill()
        assert commit_error(client, known, topic, 2) == ErrorCode.NONE
        assert commit_error(client, new, topic, 1) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        broker.start()
        wait_until(lambda: commit_error(client, new, topic, 1) == ErrorCode.NONE)
    what = f"whether the cluster knows group {new} cannot be found out"
    assert f"{what} for now: " in shim.log()
    assert f"this is over: {what}" in shim.log()


def commit_error(client: WireClient, group: str, topic: str, offset: int) -> int:
    partitions = (OffsetCommitRequestPartition(0, offset),)
    request = OffsetCommitRequest(group, topics=(OffsetCommitRequestTopic(topic, partitions=partitions),))
    ((found,),) = (t.partitions for t in client.ask(offset_commit.API, 8, request).topics)
    return found.error_code
