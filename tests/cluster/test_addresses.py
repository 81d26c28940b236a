"""No byte that a client gets names a broker: they are at 127.0.0.2 to .4, and clients are told of 127.0.0.1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from protocol.api import Api
from protocol.errors import ErrorCode
from protocol.messages import describe_cluster, find_coordinator, metadata, produce
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
    """The brokers whose hosts are in these bytes."""
    return {broker.host for broker in cluster.brokers if broker.host.encode() in response}


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
