"""Brokers and clusters, used by an unmodified client."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psutil
import pytest
from confluent_kafka import Producer
from kafka import KafkaConsumer, KafkaProducer

from protocol.messages import list_offsets
from protocol.records.batches import Record, encode_records
from shim.demo.parts import Broker, Cluster, StartFailed
from shim.demo.parts.jars import KAFKA
from shim.demo.parts.metadata import cluster_view
from tests.conftest import TopicFactory
from tests.protocol_live.place import Place
from tests.waiting import wait_until

_PRODUCE: Final = 9
_EARLIEST: Final = -2


def _produce(bootstrap_servers: str, topic: str, value: bytes) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap_servers)
    try:
        producer.send(topic, value).get(timeout=30)
    finally:
        producer.close()


def _consume_one(bootstrap_servers: str, topic: str) -> bytes:
    consumer = KafkaConsumer(
        topic, bootstrap_servers=bootstrap_servers, auto_offset_reset="earliest", consumer_timeout_ms=30_000
    )
    try:
        return bytes(next(consumer).value)
    finally:
        consumer.close()


def _listening(pid: int) -> set[tuple[str, int]]:
    connections = psutil.Process(pid).net_connections("tcp")
    listening = (connection.laddr for connection in connections if connection.status == psutil.CONN_LISTEN)
    return {(address.ip.removeprefix("::ffff:"), address.port) for address in listening}


def test_a_record_goes_in_and_comes_out(broker: Broker, make_topic: TopicFactory) -> None:
    topic = make_topic()
    _produce(broker.bootstrap_servers, topic, b"first")
    assert _consume_one(broker.bootstrap_servers, topic) == b"first"


def test_make_topic_makes_what_is_asked_for(broker: Broker, make_topic: TopicFactory, topic: str) -> None:
    assert make_topic(3, name=topic) == topic
    assert {partition.partition for partition in cluster_view(broker.host, broker.port, (topic,)).leaders} == {0, 1, 2}


def test_only_loopback_is_listened_on(broker: Broker) -> None:
    assert _listening(broker.pid) == {("127.0.0.1", broker.port), ("127.0.0.1", broker.port + 1)}


def test_stopped_and_started_again_it_has_its_port_and_its_data_and_an_exception_leaves_nothing_running(
    tmp_path: Path,
) -> None:
    broker = Broker(tmp_path)
    pids = []

    def use() -> None:
        with broker:
            _produce(broker.bootstrap_servers, "kept", b"before")
            first, address = broker.pid, broker.bootstrap_servers
            broker.stop()
            assert not broker.running
            assert not psutil.pid_exists(first)
            broker.start()
            assert (broker.pid != first, broker.bootstrap_servers) == (True, address)
            assert _consume_one(address, "kept") == b"before"
            assert [segment.parent.name for segment in broker.segments("kept")] == ["kept-0"]
            pids.append(broker.pid)
            raise KeyError("of the test")

    with pytest.raises(KeyError, match="of the test"):
        use()
    assert not broker.running
    assert not psutil.pid_exists(pids[0])
    broker.kill()  # nothing happens


def test_a_failed_start_shows_the_log_and_leaves_nothing_running(broker: Broker, tmp_path: Path) -> None:
    before = {child.pid for child in psutil.Process(os.getpid()).children(recursive=True)}
    other = Broker(tmp_path, node_id=7)
    other.port = broker.port  # taken
    with pytest.raises(StartFailed, match=rf"(?s)broker 7 at {broker.address}.*Address already in use"):
        other.start()
    assert not other.running
    assert {child.pid for child in psutil.Process(os.getpid()).children(recursive=True)} == before


@pytest.fixture(scope="module")
def with_properties(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One whose settings are not our own."""
    properties: dict[str, str | int | bool] = {
        "offsets.topic.num.partitions": 2,
        "auto.create.topics.enable": False,
        "log.initial.task.delay.ms": 100,
        "log.retention.check.interval.ms": 100,
    }
    with Broker(tmp_path_factory.mktemp("with-properties"), properties=properties) as running:
        yield running


def test_properties_come_before_our_own(with_properties: Broker) -> None:
    topic, broker = "__consumer_offsets", with_properties
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap_servers, group_id="g")
    try:
        assert "absent" not in consumer.topics()
        consumer.subscribe(["absent"])
        consumer.poll(timeout_ms=3_000)
    finally:
        consumer.close()
    assert len(cluster_view(broker.host, broker.port, (topic,)).leaders) == 2
    assert cluster_view(broker.host, broker.port, ("absent",)).leaders == {}


def _earliest(place: Place, topic: str) -> int:
    partition = list_offsets.ListOffsetsPartition(0, timestamp=_EARLIEST)
    topics = (list_offsets.ListOffsetsTopic(topic, (partition,)),)
    (found,) = place.ask(list_offsets.API, 1, list_offsets.ListOffsetsRequest(-1, topics=topics)).topics
    (answer,) = found.partitions
    assert answer.error_code == 0
    return answer.offset


def test_records_are_never_too_old(with_properties: Broker, make_topic: TopicFactory) -> None:
    """Whatever their timestamps, which Kafka goes by; only a topic that says so itself has its old records deleted."""
    broker = with_properties
    records = encode_records([Record(None, b"old", (), n, n) for n in range(3)])  # of 1970
    with Place(broker.port, KAFKA) as place:
        kept = make_topic(on=broker)
        assert place.send(kept, _PRODUCE, records) == 0
        # A round begins with a list of what there is. By the second deletion the round of the first one has ended.
        for _ in range(2):
            deleted = make_topic(on=broker, config={"retention.ms": "604800000"})
            assert place.send(deleted, _PRODUCE, records) == 0
            wait_until(lambda deleted=deleted: _earliest(place, deleted) == 3, "the broker does not delete")  # type: ignore[misc]
        assert _earliest(place, kept) == 0


def test_every_broker_of_a_cluster_stands_on_its_own_address(cluster: Cluster, make_topic: TopicFactory) -> None:
    topic = make_topic(6)
    _produce(cluster.bootstrap_servers, topic, b"to three")
    assert _consume_one(cluster.brokers[2].bootstrap_servers, topic) == b"to three"
    for number, broker in enumerate(cluster.brokers, start=1):
        assert {host for host, _ in _listening(broker.pid)} == {f"127.0.0.{number + 1}"}
        view = cluster_view(broker.host, broker.port, (topic,))
        assert view.brokers == {known.node_id: (known.host, known.port) for known in cluster.brokers}
        assert set(view.leaders.values()) == {1, 2, 3}


def test_a_cluster_gets_back_a_broker_that_was_away(cluster: Cluster, make_topic: TopicFactory) -> None:
    topic = make_topic(3)
    away = cluster.brokers[1]
    away.stop()
    others = {broker.node_id for broker in cluster.brokers if broker.running}
    assert others == {1, 3}
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    failures: list[object] = []
    producer.produce(topic, b"meanwhile", on_delivery=lambda error, _: failures.append(error) if error else None)
    assert producer.flush(30) == 0
    assert failures == []
    cluster.start()
    assert cluster.running
    assert set(cluster_view(away.host, away.port).brokers) == {1, 2, 3}
    assert _consume_one(away.bootstrap_servers, topic) == b"meanwhile"


def test_as_many_hosts_as_brokers(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="2 hosts for 3 brokers"):
        Cluster(tmp_path, hosts=["127.0.0.2", "127.0.0.3"])
