"""What the smaller APIs answered in the versions that are gone: a 3.9 broker and the shim say the same."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from compat import acls, same_bytes
from protocol.apis import ApiKey
from protocol.errors import ErrorCode
from protocol.messages import (
    create_topics,
    delete_topics,
    describe_acls,
    describe_configs,
    find_coordinator,
    list_offsets,
    offset_commit,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
)
from protocol.records.batches import Record
from protocol.records.message_sets import encode_message_set
from shim.demo.parts import Broker
from tests.legacy.parts import KAFKA_3, LegacyBroker
from tests.old_clients.places import make_topics
from tests.shim_process import Shim
from tests.waiting import wait_until
from tests.wire import WireClient

TOPIC = "small"
COUNT = 5
Two = tuple[WireClient, WireClient]


@pytest.fixture(scope="module")
def ports(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    """The old broker's, and the shim's before the new one, with a topic of some records each."""
    folder = tmp_path_factory.mktemp("small")
    with LegacyBroker(folder / "old", KAFKA_3) as old, Shim(broker.bootstrap_servers, folder / "data") as shim:
        ports = old.port, shim.broker_port(broker.node_id)
        for made_at, port in zip((old.port, broker.port), ports, strict=True):
            make_topics(made_at, [TOPIC])
            data = encode_message_set([Record(b"k", b"v", offset=offset) for offset in range(COUNT)], 0)
            partition = produce.PartitionProduceData(0, data)
            topic = produce.TopicProduceData(TOPIC, partition_data=(partition,))
            with WireClient(port) as client:
                (answer,) = client.ask(produce.API, 0, produce.ProduceRequest(None, 1, 9_000, (topic,))).responses
            assert answer.partition_responses[0][:3] == (0, ErrorCode.NONE, 0)
        yield ports


@pytest.fixture
def two(ports: tuple[int, int]) -> Iterator[Two]:
    with WireClient(ports[0]) as old, WireClient(ports[1]) as shim:
        yield old, shim


@pytest.mark.parametrize("version", range(2))
def test_topics_are_made_and_deleted(version: int, two: Two) -> None:
    made = create_topics.CreatableTopic(f"made-{version}", 2, 1, (), ())
    bad = create_topics.CreatableTopic("bad", 2, 7, (), ())
    for topics in ((made, bad), (made,)):
        request = create_topics.CreateTopicsRequest(topics, timeout_ms=10_000)
        old, shim = (client.ask(create_topics.API, version, request) for client in two)
        assert {(topic.name, topic.error_code) for topic in shim.topics} == {
            (topic.name, topic.error_code) for topic in old.topics
        }
    gone = delete_topics.DeleteTopicsRequest(topic_names=(f"made-{version}", "nowhere"), timeout_ms=10_000)
    results = [client.ask(delete_topics.API, 0, gone).responses for client in two]
    assert {each[:3] for each in results[0]} == {each[:3] for each in results[1]}


@pytest.mark.parametrize("version", range(2))
def test_offsets_of_leader_epochs(version: int, two: Two) -> None:
    module = offset_for_leader_epoch
    partitions = tuple(module.OffsetForLeaderPartition(0, leader_epoch=epoch) for epoch in (0,))
    topics = tuple(module.OffsetForLeaderTopic(name, partitions) for name in (TOPIC, "nowhere"))
    request = module.OffsetForLeaderEpochRequest(topics=topics)
    old, shim = (client.ask(module.API, version, request) for client in two)
    assert set(shim.topics) == set(old.topics)


@pytest.mark.parametrize("timestamp", [-1, -2])
@pytest.mark.parametrize("most", [0, 1, 2, 9])
def test_lists_of_offsets(timestamp: int, most: int, two: Two) -> None:
    partition = list_offsets.ListOffsetsPartition(0, timestamp=timestamp, max_num_offsets=most)
    topics = tuple(list_offsets.ListOffsetsTopic(name, (partition,)) for name in (TOPIC, "nowhere"))
    old, shim = (
        client.ask(list_offsets.API, 0, list_offsets.ListOffsetsRequest(-1, topics=topics)).topics for client in two
    )
    assert set(shim) == set(old)


def test_offsets_in_version_0_and_1(two: Two) -> None:
    """A 3.9 broker keeps those of v0 in ZooKeeper, without metadata."""
    asked = (offset_fetch.OffsetFetchRequestTopic(TOPIC, (0, 1)),)
    for version, metadata in enumerate(["", "m"]):
        partition = offset_commit.OffsetCommitRequestPartition(0, 3, committed_metadata=metadata)
        topics = (offset_commit.OffsetCommitRequestTopic(TOPIC, partitions=(partition,)),)
        group = f"group-{version}"
        wait_until(partial(_have_coordinators, two, group))
        answers = []
        for client in two:
            request = offset_fetch.OffsetFetchRequest(group, asked)
            before = client.ask(offset_fetch.API, version, request)
            committed = client.ask(offset_commit.API, version, offset_commit.OffsetCommitRequest(group, topics=topics))
            answers.append((before, committed, client.ask(offset_fetch.API, version, request)))
        assert answers[0] == answers[1]


def _have_coordinators(two: Two, group: str) -> bool:
    """The first to ask has the offsets topic made, which takes a moment."""
    errors = set()
    for client in two:
        errors.add(client.ask(find_coordinator.API, 0, find_coordinator.FindCoordinatorRequest(group)).error_code)
        asked = offset_fetch.OffsetFetchRequest(group, (offset_fetch.OffsetFetchRequestTopic(TOPIC, (0,)),))
        (topic,) = client.ask(offset_fetch.API, 1, asked).topics
        errors.add(topic.partitions[0].error_code)
    return errors == {ErrorCode.NONE}


@pytest.mark.parametrize("resource", [(2, TOPIC), (4, "1")])
def test_configs_say_what_is_the_default(resource: tuple[int, str], two: Two) -> None:
    """3.9 says so of nothing, in v0."""
    module = describe_configs
    request = module.DescribeConfigsRequest((module.DescribeConfigsResource(*resource, None),))
    old, shim = (client.ask(module.API, 0, request).results[0] for client in two)
    assert (old.error_code, old.configs != ()) == (shim.error_code, shim.configs != ()) == (0, True)
    newer = two[1].ask(module.API, 1, request).results[0]
    default = {each.name for each in newer.configs if each.config_source == 5}
    assert {each.name for each in shim.configs if each.is_default} >= default
    assert all(each.is_default for each in shim.configs) == (resource[0] == 2)


def test_acls_without_an_authorizer(two: Two) -> None:
    creation = acls.CreateAclsRequest((acls.AclCreation(2, TOPIC, acls.LITERAL, "User:a", "*", 3, 3),))
    deletion = acls.DeleteAclsRequest((acls.DeleteAclsFilter(2, TOPIC, acls.LITERAL, None, None, 1, 1),))
    everything = describe_acls.DescribeAclsRequest(1, None, 3, None, None, 1, 1)
    created = [client.ask(acls.CREATE_ACLS, 0, creation) for client in two]
    deleted = [client.ask(acls.DELETE_ACLS, 0, deletion) for client in two]
    assert created[0] == created[1]
    assert deleted[0] == deleted[1]
    codes = {client.ask(describe_acls.API, 0, everything).error_code for client in two}
    assert codes == {ErrorCode.SECURITY_DISABLED}


@pytest.mark.parametrize("key", [ApiKey.DESCRIBE_LOG_DIRS, ApiKey.DESCRIBE_DELEGATION_TOKEN])
def test_those_whose_bytes_have_not_changed(key: ApiKey, two: Two) -> None:
    """Asked for all there is: in both the error comes early, and the directories differ."""
    (api,) = (translation.api for translation in same_bytes.TRANSLATIONS if translation.api.key == key)
    old, shim = (client.ask(api, 0, b"\xff\xff\xff\xff") for client in two)
    assert old[:10] == shim[:10]
