"""Clients of today and of old through the shim in front of old brokers: 2.8.2, 1.1.1, 0.10.2.2, 0.8.2.2.

Fetch v0-3 is translated to v10 and Produce v0-2 to v3 where the broker has these; 1.1.1 has no such Fetch, and 0.10.2.2
neither: they are asked as the client asks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pytest
from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kafka.errors import GroupAuthorizationFailedError

from protocol.api import Api
from protocol.messages import api_versions, fetch, list_offsets, produce
from protocol.records.batches import Record
from protocol.records.message_sets import decode_message_set, encode_message_set
from tests.legacy.parts import KAFKA_0_8, KAFKA_0_10, KAFKA_1, KAFKA_2, LegacyBroker
from tests.old_brokers.conftest import Behind
from tests.old_brokers.modern_clients import AIOKAFKA, CONFLUENT_KAFKA, KAFKA_PYTHON, ModernClient
from tests.old_clients import scenario
from tests.old_clients.client import OldClient
from tests.old_clients.go_and_python import GO_AND_PYTHON_CLIENTS
from tests.old_clients.scenario import Target, no_zookeeper
from tests.protocol_live.place import Place
from tests.shim_process import Shim
from tests.waiting import wait_until
from tests.wire import WireClient
from tests.workers.conftest import shim_of
from tests.workers.groups import of_both

_COUNT: Final = 20
_FIRST: Final = 12
_RECORDS: Final = [(b"key %d" % i, b"value %d" % i) for i in range(_COUNT)]
_EXPECTED: Final = [(i, key, value) for i, (key, value) in enumerate(_RECORDS)]
# Brokers that can be asked whether they have an authorizer (DescribeAcls: KIP-140, Kafka 0.11).
_SERVED: Final = pytest.mark.parametrize("behind", [KAFKA_2, KAFKA_1], indirect=True)
_TOO_OLD_FOR_GROUPS: Final = pytest.mark.parametrize("behind", [KAFKA_0_10], indirect=True)
_OF_0_10: Final = (CONFLUENT_KAFKA, KAFKA_PYTHON)
"""aiokafka 0.14 does not write to 0.10 without the shim either: CorruptRecordException."""


def _new_topic(broker: LegacyBroker) -> str:
    with Place(broker.port, broker.release) as place:
        return place.new_topic()


def _name(client: ModernClient | OldClient) -> str:
    return client.name


@_SERVED
@pytest.mark.parametrize("client", [CONFLUENT_KAFKA, KAFKA_PYTHON, AIOKAFKA], ids=_name)
def test_a_client_of_today_returns_to_its_offsets(behind: Behind, client: ModernClient, group: str) -> None:
    topic = _new_topic(behind.broker)
    bootstrap = behind.shim.bootstrap
    assert client.produce(bootstrap, topic, _RECORDS) == list(range(_COUNT))
    assert client.consume(bootstrap, topic, group, _FIRST) == _EXPECTED[:_FIRST]
    assert client.consume(bootstrap, topic, group, _COUNT - _FIRST) == _EXPECTED[_FIRST:]


@_SERVED
def test_an_admin_client_of_today(behind: Behind, group: str, topic: str) -> None:
    bootstrap = behind.shim.bootstrap
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    CONFLUENT_KAFKA.produce(bootstrap, topic, _RECORDS)
    CONFLUENT_KAFKA.consume(bootstrap, topic, group, _FIRST)
    described = admin.describe_consumer_groups([group])[group].result(30)
    assert described.state.name == "EMPTY"
    (offsets,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    assert [each.offset for each in offsets.result(30).topic_partitions or []] == [_FIRST]
    assert admin.delete_consumer_groups([group])[group].result(30) is None
    assert admin.delete_topics([topic])[topic].result(30) is None


def _made_anew(bootstrap: str, groups: Sequence[str], topic: str) -> list[int]:
    """What is committed by each for a topic that was just made, where an AdminClient has deleted one of that name."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    consumers = [Consumer({"bootstrap.servers": bootstrap, "group.id": group}) for group in groups]

    def commit(offset: int) -> None:
        for each in consumers:
            wait_until(lambda each=each: _committed(each, topic, offset), "the topic is not there yet")  # type: ignore[misc]

    def fetch() -> list[int]:
        return [each.committed([TopicPartition(topic, 0)], 30)[0].offset for each in consumers]

    try:
        commit(77)
        assert set(fetch()) == {77}
        admin.delete_topics([topic])[topic].result(30)
        wait_until(lambda: _is_made(admin, topic), "the old topic is not gone")
        offsets = fetch()
        commit(3)
        assert set(fetch()) == {3}
        return offsets
    finally:
        for each in consumers:
            each.close()


def _committed(consumer: Consumer, topic: str, offset: int) -> bool:
    try:
        consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    except KafkaException:
        return False
    return True


def _is_made(admin: AdminClient, topic: str) -> bool:
    try:
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
        return False  # the old one's files are still being deleted
    return True


@_SERVED
def test_a_topic_that_a_client_deletes_and_makes_anew(behind: Behind, group: str, topic: str) -> None:
    assert _made_anew(behind.shim.bootstrap, [group], topic) == [OFFSET_INVALID]
    assert f"topic {topic} has been deleted" in behind.shim.log()


def test_each_worker_knows_of_a_topic_that_was_made_anew(
    tmp_path: Path, topic: str, fresh_name: Callable[[], str]
) -> None:
    groups = of_both(fresh_name(), 2)
    (tmp_path / "broker").mkdir()
    with (
        LegacyBroker(tmp_path / "broker", KAFKA_1) as broker,
        TemporaryDirectory(prefix="workers-") as folder,
        shim_of(broker, Path(folder) / "data", 2) as shim,
    ):
        assert _made_anew(shim.bootstrap, groups, topic) == [OFFSET_INVALID] * len(groups)
        assert shim.log().count(f"topic {topic} has been deleted") == len(groups)


@pytest.mark.parametrize("behind", [pytest.param(KAFKA_2, marks=pytest.mark.soak), KAFKA_1], indirect=True)
@pytest.mark.parametrize("client", GO_AND_PYTHON_CLIENTS, ids=_name)
def test_an_old_client_returns_to_its_offsets(behind: Behind, client: OldClient, group: str) -> None:
    scenario.run(client, Target(behind.broker.release, behind.shim.bootstrap, no_zookeeper), "gzip", group)


@_TOO_OLD_FOR_GROUPS
@pytest.mark.parametrize("client", _OF_0_10, ids=_name)
def test_a_client_of_today_reads_and_writes_at_0_10(behind: Behind, client: ModernClient) -> None:
    topic = _new_topic(behind.broker)
    bootstrap = behind.shim.bootstrap
    assert client.produce(bootstrap, topic, _RECORDS) == list(range(_COUNT))
    assert client.consume(bootstrap, topic, None, _COUNT) == _EXPECTED


@_TOO_OLD_FOR_GROUPS
def test_no_group_is_served_at_0_10(behind: Behind, group: str) -> None:
    topic = _new_topic(behind.broker)
    with pytest.raises(GroupAuthorizationFailedError):
        KAFKA_PYTHON.consume(behind.shim.bootstrap, topic, group, 1)
    assert "no group is served: a broker is older than 2.4" in behind.shim.log()


def test_before_0_10_no_broker_is_found(tmp_path: Path) -> None:
    (tmp_path / "broker").mkdir()
    with LegacyBroker(tmp_path / "broker", KAFKA_0_8) as broker:
        shim = Shim(broker.bootstrap_servers, tmp_path / "data")
        shim.launch()
        try:
            shim.wait_logged(f"{broker.bootstrap_servers}: ApiVersions: closed the connection")
            assert "no broker can be reached, trying again" in shim.log()
        finally:
            shim.kill()


# Versions that brokers dropped later, as the broker itself answers them


def _answers(port: int, topic: str, asks_first: bool) -> list[tuple[str, int, Any]]:
    """Of one connection, to requests of versions that were dropped later."""
    answers: list[tuple[str, int, Any]] = []
    with WireClient(port) as client:

        def ask(api: Api[Any, Any], version: int, request: Any) -> Any:
            answer = client.ask(api, version, request)
            answers.append((api.name, version, repr(answer).replace(topic, "topic")))
            return answer

        if asks_first:
            client.ask(api_versions.API, 0, api_versions.ApiVersionsRequest())
        for version in range(3):
            magic = 1 if version == 2 else 0
            records = [Record(b"k", b"%d" % i, (), 1_700_000_000_000 + i if magic else -1, i) for i in range(3)]
            ask(produce.API, version, _produce(topic, encode_message_set(records, magic), acks=-1))
        # Nothing is answered to this one: what comes next is the answer to what is asked next.
        client.send(produce.API, 1, _produce(topic, encode_message_set([Record(b"k", b"v", (), -1, 0)], 0), acks=0))
        answers += [(fetch.API.name, version, _fetched(client, version, topic)) for version in range(4)]
        for timestamp in (-1, -2):
            partition = list_offsets.ListOffsetsPartition(0, timestamp=timestamp, max_num_offsets=2)
            ask(
                list_offsets.API,
                0,
                list_offsets.ListOffsetsRequest(
                    replica_id=-1, topics=(list_offsets.ListOffsetsTopic(topic, (partition,)),)
                ),
            )
    return answers


def _produce(topic: str, records: bytes, acks: int) -> produce.ProduceRequest:
    partition = produce.PartitionProduceData(0, records)
    return produce.ProduceRequest(
        acks=acks, timeout_ms=10_000, topic_data=(produce.TopicProduceData(topic, partition_data=(partition,)),)
    )


def _fetched(client: WireClient, version: int, topic: str) -> list[Record]:
    """All that is in the topic. A broker that converts gives as many bytes as it has itself, whether that is all or
    not."""
    records: list[Record] = []
    high_watermark = 1
    while len(records) < high_watermark:
        wanted = fetch.FetchPartition(0, fetch_offset=len(records), partition_max_bytes=100_000)
        request = fetch.FetchRequest(
            max_wait_ms=1_000, min_bytes=1, topics=(fetch.FetchTopic(topic, partitions=(wanted,)),)
        )
        ((found,),) = (each.partitions for each in client.ask(fetch.API, version, request).responses)
        assert found.error_code == 0
        assert found.records is not None
        high_watermark = found.high_watermark
        new = [each for each in decode_message_set(found.records).records if each.offset >= len(records)]
        assert new
        records += new
    return records


@pytest.mark.parametrize("asks_first", [False, True], ids=["at once", "after ApiVersions"])
@pytest.mark.parametrize("behind", [KAFKA_2, KAFKA_1, KAFKA_0_10], indirect=True)
def test_dropped_versions_are_answered_as_by_the_broker(behind: Behind, asks_first: bool) -> None:
    answers = []
    for port in (behind.broker.port, behind.shim.broker_port(1)):
        topic = _new_topic(behind.broker)
        answers.append(_answers(port, topic, asks_first))
    direct, through = answers
    assert through == direct
