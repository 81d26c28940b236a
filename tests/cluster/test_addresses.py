"""No byte that a client gets names a broker: they are at 127.0.0.2 to .4, and clients are told of 127.0.0.1."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from protocol.api import Api
from protocol.errors import ErrorCode
from protocol.messages import (
    describe_cluster,
    describe_producers,
    describe_topic_partitions,
    describe_transactions,
    fetch,
    find_coordinator,
    init_producer_id,
    list_offsets,
    list_transactions,
    metadata,
    offset_for_leader_epoch,
    produce,
    share_fetch,
)
from protocol.records.batches import encode_batch
from shim.demo.parts import Cluster
from tests.cluster.asking import cluster_metadata
from tests.conftest import TopicFactory
from tests.shim_process import Shim
from tests.wire import WireClient

PARTITIONS = 6
FIRST_OF_MANY = 4  # of FindCoordinator
FIRST_BY_ID = 13  # of Produce
FIRST_WITH_ENDPOINTS = 10  # of Produce
FIRST_FETCH_BY_ID = 13
NEWEST_FETCH = 15  # that is offered; later ones name new leaders by their addresses


def find(version: int, group: str) -> find_coordinator.FindCoordinatorRequest:
    if version < FIRST_OF_MANY:
        return find_coordinator.FindCoordinatorRequest(group)
    return find_coordinator.FindCoordinatorRequest(coordinator_keys=(group, f"{group}-another"))


# (API, versions, the request in a version for a topic and a group)
ASKED: dict[str, tuple[Api[Any, Any], range, Callable[[int, str, str], Any]]] = {
    "Metadata": (
        metadata.API,
        range(14),
        lambda version, topic, _: metadata.MetadataRequest((metadata.MetadataRequestTopic(name=topic),)),
    ),
    "FindCoordinator": (find_coordinator.API, range(7), lambda version, _, group: find(version, group)),
    "DescribeCluster": (
        describe_cluster.API,
        range(3),
        lambda version, *_: describe_cluster.DescribeClusterRequest(
            include_cluster_authorized_operations=True, include_fenced_brokers=version >= 2
        ),
    ),
}


def named(cluster: Cluster, response: bytes) -> set[str]:
    """The brokers whose hosts are in these bytes, as text, or their ports, as a protocol's number."""
    return {
        broker.host
        for broker in cluster.brokers
        if broker.host.encode() in response or broker.port.to_bytes(4, "big") in response
    }


# What is asked of APIs that are passed on: at two of three brokers the leader is another one.
PASSED_ON: dict[str, tuple[Api[Any, Any], range, Callable[[int, str, str], Any]]] = {
    "ListOffsets": (
        list_offsets.API,
        range(1, 12),
        lambda version, topic, _: list_offsets.ListOffsetsRequest(
            -1, topics=(list_offsets.ListOffsetsTopic(topic, (list_offsets.ListOffsetsPartition(0, timestamp=-1),)),)
        ),
    ),
    "OffsetForLeaderEpoch": (
        offset_for_leader_epoch.API,
        range(2, 5),
        lambda version, topic, _: offset_for_leader_epoch.OffsetForLeaderEpochRequest(
            topics=(
                offset_for_leader_epoch.OffsetForLeaderTopic(
                    topic, (offset_for_leader_epoch.OffsetForLeaderPartition(0, leader_epoch=0),)
                ),
            )
        ),
    ),
    "DescribeTopicPartitions": (
        describe_topic_partitions.API,
        range(1),
        lambda version, topic, _: describe_topic_partitions.DescribeTopicPartitionsRequest(
            (describe_topic_partitions.TopicRequest(topic),)
        ),
    ),
    "DescribeProducers": (
        describe_producers.API,
        range(1),
        lambda version, topic, _: describe_producers.DescribeProducersRequest(
            (describe_producers.TopicRequest(topic, (0,)),)
        ),
    ),
    "DescribeTransactions": (
        describe_transactions.API,
        range(1),
        lambda version, topic, group: describe_transactions.DescribeTransactionsRequest((group,)),
    ),
    "ListTransactions": (
        list_transactions.API,
        range(3),
        lambda *_: list_transactions.ListTransactionsRequest((), ()),
    ),
    "InitProducerId": (
        init_producer_id.API,
        range(6),
        lambda *_: init_producer_id.InitProducerIdRequest(None, 60_000),
    ),
}


def answered(api: Api[Any, Any], version: int, request: Any, port: int, host: str = "127.0.0.1") -> bytes:
    with WireClient(port, host) as client:
        client.send(api, version, request)
        return client.receive_frame()


def shim_ports(shim: Shim, cluster: Cluster) -> list[int]:
    return [shim.port, *(shim.broker_port(broker.node_id) for broker in cluster.brokers)]


@pytest.mark.parametrize("name", ASKED)
def test_who_asks_for_brokers_is_told_of_the_shim(
    shim: Shim, cluster: Cluster, make_topic: TopicFactory, group: str, name: str
) -> None:
    api, versions, request = ASKED[name]
    topic = make_topic(PARTITIONS)
    direct = cluster.brokers[1]
    for version in versions:
        asked = request(version, topic, group)
        straight = answered(api, version, asked, direct.port, direct.host)
        assert named(cluster, straight), f"v{version}: nothing to hide, so nothing is shown by it being hidden"
        for port in shim_ports(shim, cluster):
            response = answered(api, version, asked, port)
            assert not named(cluster, response), f"v{version} at port {port}"
            assert b"127.0.0.1" in response, f"v{version} at port {port}"


def test_the_brokers_named_are_the_shims_ports(shim: Shim, cluster: Cluster, make_topic: TopicFactory) -> None:
    told = cluster_metadata(shim.port, make_topic(PARTITIONS)).brokers
    assert {(broker.node_id, broker.host, broker.port) for broker in told} == {
        (broker.node_id, "127.0.0.1", shim.broker_port(broker.node_id)) for broker in cluster.brokers
    }


@pytest.mark.parametrize("name", PASSED_ON)
def test_what_is_passed_on_names_no_broker(
    shim: Shim, cluster: Cluster, make_topic: TopicFactory, group: str, name: str
) -> None:
    api, versions, request = PASSED_ON[name]
    topic = make_topic(PARTITIONS)
    for version in versions:
        for port in shim_ports(shim, cluster):
            response = answered(api, version, request(version, topic, group), port)
            assert not named(cluster, response), f"v{version} at port {port}"


@pytest.mark.parametrize("version", range(4, 17))
def test_a_consumer_at_a_stale_leader_is_told_no_address(
    shim: Shim, cluster: Cluster, make_topic: TopicFactory, version: int
) -> None:
    # Of one replica: others would let it read (KIP-392).
    (topic,) = cluster_metadata(shim.port, make_topic(PARTITIONS, replication_factor=1)).topics
    partition = topic.partitions[0]
    stale = next(broker for broker in cluster.brokers if broker.node_id != partition.leader_id)
    request = fetch.FetchRequest(
        replica_id=-1,
        topics=(
            fetch.FetchTopic(
                **({"topic_id": topic.topic_id} if version >= FIRST_FETCH_BY_ID else {"topic": topic.name}),
                partitions=(fetch.FetchPartition(partition.partition_index, partition_max_bytes=1_000),),
            ),
        ),
    )
    straight = answered(fetch.API, version, request, stale.port, stale.host)
    if version > NEWEST_FETCH:
        assert named(cluster, straight), "nothing to hide: it could be offered"
        with pytest.raises(ConnectionError):
            answered(fetch.API, version, request, shim.broker_port(stale.node_id))
        return
    response = answered(fetch.API, version, request, shim.broker_port(stale.node_id))
    (told,) = fetch.API.parse_response(version, response)[1].responses
    assert told.partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not named(cluster, response)


@pytest.mark.parametrize("version", range(3, 14))
def test_a_producer_at_a_stale_leader_is_told_of_the_new_ones_port(
    shim: Shim, cluster: Cluster, make_topic: TopicFactory, version: int
) -> None:
    (topic,) = cluster_metadata(shim.port, make_topic(PARTITIONS)).topics
    partition = topic.partitions[0]
    stale = next(broker for broker in cluster.brokers if broker.node_id != partition.leader_id)
    batch = encode_batch(0, [(b"key", b"value")], 1_767_225_600_000)
    named_topic = {"topic_id": topic.topic_id} if version >= FIRST_BY_ID else {"name": topic.name}
    request = produce.ProduceRequest(
        acks=-1,
        timeout_ms=5_000,
        topic_data=(
            produce.TopicProduceData(
                **named_topic, partition_data=(produce.PartitionProduceData(partition.partition_index, batch),)
            ),
        ),
    )
    frame = answered(produce.API, version, request, shim.broker_port(stale.node_id))
    _, response = produce.API.parse_response(version, frame)
    assert response.responses[0].partition_responses[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not named(cluster, frame)
    straight = answered(produce.API, version, request, stale.port, stale.host)
    if version >= FIRST_WITH_ENDPOINTS:
        assert named(cluster, straight), "nothing to hide, so nothing is shown by it being hidden"
        (endpoint,) = response.node_endpoints
        node_id = partition.leader_id
        assert (endpoint.node_id, endpoint.host, endpoint.port) == (node_id, "127.0.0.1", shim.broker_port(node_id))
    else:
        assert not named(cluster, straight)


@pytest.mark.parametrize("version", [1, 2])
def test_a_share_consumer_at_a_stale_leader_is_told_of_the_new_ones_port(
    shim: Shim, cluster: Cluster, make_topic: TopicFactory, group: str, version: int
) -> None:
    (topic,) = cluster_metadata(shim.port, make_topic(PARTITIONS)).topics
    partition = topic.partitions[0]
    stale = next(broker for broker in cluster.brokers if broker.node_id != partition.leader_id)
    fetches = share_fetch.ShareFetchRequest(
        *(group, str(uuid.uuid4()), 0, 500, 1),
        max_records=10,
        batch_size=10,
        topics=(share_fetch.FetchTopic(topic.topic_id, (share_fetch.FetchPartition(partition.partition_index, ()),)),),
    )
    frame = answered(share_fetch.API, version, fetches, shim.broker_port(stale.node_id))
    _, response = share_fetch.API.parse_response(version, frame)
    assert response.responses[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not named(cluster, frame)
    straight = answered(share_fetch.API, version, fetches, stale.port, stale.host)
    assert named(cluster, straight), "nothing to hide, so nothing is shown by it being hidden"
    (endpoint,) = response.node_endpoints
    node_id = partition.leader_id
    assert (endpoint.node_id, endpoint.host, endpoint.port) == (node_id, "127.0.0.1", shim.broker_port(node_id))
