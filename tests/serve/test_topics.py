"""Topics of a real cluster that are made, deleted, and made anew, and what becomes of the offsets for them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from protocol.errors import ErrorCode
from protocol.messages import create_topics, delete_topics, metadata, offset_commit, offset_fetch
from protocol.messages.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from shim.demo.parts import Broker, Cluster
from tests.conftest import TopicFactory
from tests.shim_process import Shim
from tests.waiting import wait_until
from tests.wire import WireClient

TIMEOUT_S = 40.0
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
QUICK = {"topology.refresh.interval.ms": 100}

TELLS = """
import sys
from shim.following.topics.refresh import TopicRefresh
from shim.following.topics.table import TopicTable

confirm, look = TopicTable.confirm, TopicRefresh._look

def told_confirmed(table, name, topic):
    confirm(table, name, topic)
    print(f"confirmed: {name}", file=sys.stderr, flush=True)

async def told_looked(refresh, in_use):
    await look(refresh, in_use)
    print(f"looked, in doubt: {refresh._table.doubts.names()}", file=sys.stderr, flush=True)

TopicTable.confirm, TopicRefresh._look = told_confirmed, told_looked
"""
"""In the shim's process: what it otherwise keeps to itself."""

LOOKS_NO_MORE = """
told = TopicTable.confirm

async def not_any_more(refresh, in_use):
    pass

def once(table, name, topic):
    told(table, name, topic)
    TopicRefresh._look = not_any_more

TopicTable.confirm = once
"""
"""By itself, once it knows which topic it is."""


def following(part: Broker | Cluster, tmp_path: Path) -> Shim:
    return Shim(part.bootstrap_servers, tmp_path / "data", settings=QUICK, late_patch=TELLS)


@pytest.fixture
def shim(broker: Broker, tmp_path: Path) -> Iterator[Shim]:
    with following(broker, tmp_path) as running:
        yield running


@pytest.fixture
def client(shim: Shim, broker: Broker) -> Iterator[WireClient]:
    with WireClient(shim.broker_port(broker.node_id)) as connected:
        yield connected


def commit(client: WireClient, group: str, topic: str, offset: int, partition: int = 0) -> int:
    """The error code."""
    wanted = OffsetCommitRequestTopic(topic, partitions=(OffsetCommitRequestPartition(partition, offset),))
    answer = client.ask(offset_commit.API, 8, offset_commit.OffsetCommitRequest(group, topics=(wanted,)))
    return answer.topics[0].partitions[0].error_code


def fetch(client: WireClient, group: str, topic: str, partition: int = 0) -> int:
    """The offset."""
    wanted = (offset_fetch.OffsetFetchRequestTopic(topic, (partition,)),)
    answer = client.ask(offset_fetch.API, 7, offset_fetch.OffsetFetchRequest(group, wanted))
    assert answer.error_code == ErrorCode.NONE
    return answer.topics[0].partitions[0].committed_offset


def admin(part: Broker | Cluster) -> AdminClient:
    """To be kept: what it was asked for ends with it."""
    return AdminClient({"bootstrap.servers": part.bootstrap_servers})


def delete(part: Broker | Cluster, topic: str) -> None:
    """Returns when no broker knows it any more."""
    of_part = admin(part)
    of_part.delete_topics([topic])[topic].result(TIMEOUT_S)
    for broker in part.brokers if isinstance(part, Cluster) else [part]:
        with WireClient(broker.port, broker.host) as direct:
            wait_until(lambda direct=direct: metadata_error(direct, topic) == UNKNOWN, "the broker still knows it")  # type: ignore[misc]


def deleted(client: WireClient, topic: str) -> bool:
    """Whether the broker at the other end has seen to it.

    An AdminClient would ask the broker that the cluster names as its controller. As long as its session has not run out
    that may be one that was killed, and librdkafka can wait for it longer than any time-out here.
    """
    request = delete_topics.DeleteTopicsRequest(topic_names=(topic,), timeout_ms=10_000)
    answer = client.ask(delete_topics.API, 5, request)
    return answer.responses[0].error_code in (ErrorCode.NONE, UNKNOWN)


def metadata_error(client: WireClient, topic: str) -> int:
    request = metadata.MetadataRequest((metadata.MetadataRequestTopic(name=topic),), allow_auto_topic_creation=False)
    return client.ask(metadata.API, 12, request).topics[0].error_code


def seen(client: WireClient, topic: str) -> None:
    """As a consumer asks where the topic is."""
    wait_until(lambda: metadata_error(client, topic) == ErrorCode.NONE, "the topic is not there")


def confirmed(shim: Shim, *topics: str) -> None:
    """The shim has asked all brokers which topics have these names."""
    for topic in topics:
        shim.wait_logged(f"confirmed: {topic}\n")


def looked(shim: Shim) -> None:
    """It has looked at topics after this was called, and again, and none is in doubt: whatever was to be deleted for
    what it saw has been."""
    before = len(shim.log())
    wait_until(lambda: shim.log()[before:].count("looked, in doubt: []\n") > 2, shim.log)


def test_what_does_not_exist_is_refused_and_what_was_just_made_is_not(
    client: WireClient, make_topic: TopicFactory, topic: str, group: str, broker: Broker
) -> None:
    for _ in range(2):
        assert commit(client, group, topic, 5) == UNKNOWN
    make_topic(2, name=topic)
    assert commit(client, group, topic, 5) == ErrorCode.NONE
    assert commit(client, group, topic, 5, partition=2) == UNKNOWN
    of_broker = admin(broker)
    of_broker.create_partitions([NewPartitions(topic, 3)])[topic].result(TIMEOUT_S)
    wait_until(lambda: commit(client, group, topic, 6, partition=2) == ErrorCode.NONE, "the new partition is unknown")
    assert commit(client, group, "a topic cannot be called so", 5) == UNKNOWN
    assert (fetch(client, group, topic), fetch(client, group, topic, 2)) == (5, 6)


def test_the_broker_itself_refuses_the_same(broker: Broker, make_topic: TopicFactory, topic: str, group: str) -> None:
    with WireClient(broker.port) as direct:
        assert commit(direct, group, "a topic cannot be called so", 5) in (UNKNOWN, ErrorCode.NOT_COORDINATOR)
        assert commit(direct, group, topic, 5) == UNKNOWN
        make_topic(1, name=topic)
        assert commit(direct, group, topic, 5, partition=1) == UNKNOWN


def test_a_topic_that_is_deleted_and_another_that_stays(
    client: WireClient, shim: Shim, broker: Broker, make_topic: TopicFactory, group: str
) -> None:
    gone, stays = make_topic(2), make_topic(1)
    for topic in (gone, stays):
        assert commit(client, group, topic, 5) == ErrorCode.NONE
    delete(broker, gone)
    wait_until(lambda: fetch(client, group, gone) == -1, "the offset is still there")
    assert fetch(client, group, stays) == 5
    assert commit(client, group, gone, 6) == UNKNOWN
    assert f"topic {gone} has been deleted" in shim.log()
    assert shim.restart() == 0
    with WireClient(shim.port) as again:
        assert (fetch(again, group, gone), fetch(again, group, stays)) == (-1, 5)


def test_a_topic_made_anew_under_its_name(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, topic: str, group: str
) -> None:
    make_topic(2, name=topic)
    with following(broker, tmp_path) as shim:
        with WireClient(shim.port) as client:
            assert commit(client, group, topic, 1_000) == ErrorCode.NONE
            assert commit(client, group, topic, 2_000, partition=1) == ErrorCode.NONE
            confirmed(shim, topic)
            delete(broker, topic)
            make_topic(2, name=topic)
            seen(client, topic)
            # From here on no offset of the old one is served, and none of the new one is lost.
            assert fetch(client, group, topic) == -1
            assert commit(client, group, topic, 3) == ErrorCode.NONE
            looked(shim)
            assert (fetch(client, group, topic), fetch(client, group, topic, 1)) == (3, -1)
        assert shim.restart() == 0
        with WireClient(shim.port) as client:
            looked(shim)
            assert (fetch(client, group, topic), fetch(client, group, topic, 1)) == (3, -1)


def made_anew_through_the_shim(client: WireClient, topic: str, create: int, delete: int, topic_id: bytes = b"") -> None:
    """By a client that asks for no Metadata, in these versions; deleted by its id, if there is one."""
    named = (delete_topics.DeleteTopicState(None, topic_id),) if topic_id else ()
    wanted = delete_topics.DeleteTopicsRequest(named, () if named else (topic,), timeout_ms=10_000)
    (gone,) = client.ask(delete_topics.API, delete, wanted).responses
    assert (gone.name, gone.error_code) == (topic, ErrorCode.NONE)
    anew = create_topics.CreateTopicsRequest((create_topics.CreatableTopic(topic, 1, 1, (), ()),), timeout_ms=10_000)
    (made,) = client.ask(create_topics.API, create, anew).topics
    assert (made.name, made.error_code) == (topic, ErrorCode.NONE)


@pytest.mark.parametrize(
    ("create", "delete", "by_id"), [(4, 1, False), (7, 6, True), (0, 0, False)], ids=["no ids", "ids", "translated"]
)
def test_who_makes_a_topic_anew_need_not_ask_for_it(
    broker: Broker,
    tmp_path: Path,
    make_topic: TopicFactory,
    topic: str,
    group: str,
    create: int,
    delete: int,
    by_id: bool,
) -> None:
    """As an AdminClient: no offset of the old one is served to it, and none of the new one lost, though the shim has
    not looked at topics meanwhile."""
    make_topic(1, name=topic)
    with Shim(broker.bootstrap_servers, tmp_path / "data", settings=QUICK, late_patch=TELLS + LOOKS_NO_MORE) as shim:
        with WireClient(shim.port) as client:
            assert commit(client, group, topic, 77) == ErrorCode.NONE
            confirmed(shim, topic)
            topic_id = b""
            if by_id:
                wanted = metadata.MetadataRequest((metadata.MetadataRequestTopic(name=topic),))
                topic_id = client.ask(metadata.API, 12, wanted).topics[0].topic_id
            made_anew_through_the_shim(client, topic, create, delete, topic_id)
            assert fetch(client, group, topic) == -1
            assert commit(client, group, topic, 3) == ErrorCode.NONE
        assert shim.restart() == 0
        with WireClient(shim.port) as client:
            confirmed(shim, topic)
            assert fetch(client, group, topic) == 3


@pytest.mark.local_log("it commits while no broker runs")
def test_a_broker_that_restarts_is_no_reason_to_delete_anything(
    client: WireClient, shim: Shim, broker: Broker, make_topic: TopicFactory, group: str
) -> None:
    topics = [make_topic(1) for _ in range(3)]
    for topic in topics:
        assert commit(client, group, topic, 5) == ErrorCode.NONE
    confirmed(shim, *topics)
    broker.stop()
    with WireClient(shim.port) as while_down:
        assert [commit(while_down, group, topic, 6) for topic in topics] == [ErrorCode.NONE] * 3
        assert commit(while_down, group, "nobody-can-say", 6) == ErrorCode.NONE
    broker.start()
    broker.kill()
    broker.start()
    with WireClient(shim.port) as again:
        for topic in topics:
            seen(again, topic)
        looked(shim)
        assert [fetch(again, group, topic) for topic in topics] == [6, 6, 6]
        assert commit(again, group, "nobody-can-say", 7) == UNKNOWN
        assert fetch(again, group, "nobody-can-say") == 6, "what was never seen is not known to be gone"
    assert "has been deleted" not in shim.log()
