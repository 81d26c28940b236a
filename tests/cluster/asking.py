"""Questions to one port of the shim, or to a broker, by our own protocol package."""

from __future__ import annotations

from collections.abc import Mapping

from protocol.errors import ErrorCode
from protocol.messages import find_coordinator, list_groups, metadata, offset_fetch
from tests.wire import WireClient


def coordinator(port: int, group: str) -> tuple[int, str, int]:
    """Node id, host and port."""
    with WireClient(port) as client:
        found = client.ask(find_coordinator.API, 2, find_coordinator.FindCoordinatorRequest(group))
    assert found.error_code == ErrorCode.NONE
    return found.node_id, found.host, found.port


def listed_groups(port: int) -> list[str]:
    with WireClient(port) as client:
        response = client.ask(list_groups.API, 4, list_groups.ListGroupsRequest())
    assert response.error_code == ErrorCode.NONE
    return [group.group_id for group in response.groups]


def committed_offsets(port: int, group: str) -> Mapping[int, int]:
    """By partition of the group's one topic; a partition without an offset is left out."""
    with WireClient(port) as client:
        response = client.ask(
            offset_fetch.API,
            8,
            offset_fetch.OffsetFetchRequest(groups=(offset_fetch.OffsetFetchRequestGroup(group, topics=None),)),
        )
    (found,) = response.groups
    assert found.error_code == ErrorCode.NONE
    assert len(found.topics) <= 1
    return {p.partition_index: p.committed_offset for topic in found.topics for p in topic.partitions}


def cluster_metadata(port: int, topic: str, host: str = "127.0.0.1") -> metadata.MetadataResponse:
    with WireClient(port, host) as client:
        request = metadata.MetadataRequest((metadata.MetadataRequestTopic(name=topic),), False)
        return client.ask(metadata.API, 12, request)


def leaders(port: int, topic: str) -> Mapping[int, int]:
    """Node id by partition."""
    (found,) = cluster_metadata(port, topic).topics
    return {partition.partition_index: partition.leader_id for partition in found.partitions}
