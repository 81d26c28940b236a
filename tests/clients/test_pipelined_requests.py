"""Requests of every kind in one go, as clients send them: the responses come in that order, as a broker's do."""

from collections.abc import Callable
from itertools import permutations

import pytest

from protocol.messages import offset_commit, offset_fetch
from protocol.messages.api_versions import API as API_VERSIONS
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.find_coordinator import API as FIND_COORDINATOR
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.heartbeat import API as HEARTBEAT
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.metadata import API as METADATA
from protocol.messages.metadata import MetadataRequest
from shim.demo.parts import Broker
from tests.conftest import TopicFactory
from tests.shim_process import Shim
from tests.wire import WireClient

_CLIENT_ID = "pipelined"


def _passed_through(correlation_id: int) -> bytes:
    """ListTransactions v0 with no filters, which the shim does not read beyond its header."""
    api_key_and_version, client_id_null_no_tags, no_filters_no_tags = (
        b"\x00\x42\x00\x00",
        b"\xff\xff\x00",
        b"\x01\x01\x00",
    )
    body = api_key_and_version + correlation_id.to_bytes(4, "big") + client_id_null_no_tags + no_filters_no_tags
    return len(body).to_bytes(4, "big") + body


_REQUESTS: dict[str, Callable[[int], bytes]] = {
    "passed through": _passed_through,
    "asked, FindCoordinator": lambda number: FIND_COORDINATOR.request_frame(
        4, number, _CLIENT_ID, FindCoordinatorRequest(key_type=0, coordinator_keys=("nobody",))
    ),
    "asked, ApiVersions": lambda number: API_VERSIONS.request_frame(
        3, number, _CLIENT_ID, ApiVersionsRequest(_CLIENT_ID, "1")
    ),
    "rewritten": lambda number: METADATA.request_frame(12, number, _CLIENT_ID, MetadataRequest(topics=())),
    "served": lambda number: HEARTBEAT.request_frame(4, number, _CLIENT_ID, HeartbeatRequest("nobody", 1, "nobody")),
}


@pytest.mark.parametrize("through", ["shim", "broker"])
def test_answered_in_their_order(through: str, shim: Shim, broker: Broker) -> None:
    port = {"shim": shim.broker_port(broker.node_id), "broker": broker.port}[through]
    for order in permutations(_REQUESTS):
        with WireClient(port) as client:
            client.socket.sendall(b"".join(_REQUESTS[kind](number) for number, kind in enumerate(order)))
            for number in range(len(order)):
                try:
                    answered = int.from_bytes(client.receive_frame()[:4], "big")
                except TimeoutError:
                    pytest.fail(f"{order}: no answer to the one at position {number}")
                assert answered == number, order


@pytest.mark.parametrize("through", ["shim", "broker"])
def test_reads_are_of_the_commits_before_them(
    through: str, shim: Shim, broker: Broker, make_topic: TopicFactory, group: str
) -> None:
    """Whatever is taken together of what was sent together."""
    port = {"shim": shim.broker_port(broker.node_id), "broker": broker.port}[through]
    topic = make_topic()

    def commit(number: int) -> bytes:
        partitions = (offset_commit.OffsetCommitRequestPartition(0, number),)
        topics = (offset_commit.OffsetCommitRequestTopic(topic, partitions=partitions),)
        return offset_commit.API.request_frame(
            9, number, _CLIENT_ID, offset_commit.OffsetCommitRequest(group, topics=topics)
        )

    def read(number: int) -> bytes:
        topics = (offset_fetch.OffsetFetchRequestTopics(topic, partition_indexes=(0,)),)
        groups = (offset_fetch.OffsetFetchRequestGroup(group, topics=topics),)
        return offset_fetch.API.request_frame(9, number, _CLIENT_ID, offset_fetch.OffsetFetchRequest(groups=groups))

    with WireClient(port) as client:
        for kinds in ("C", "CCRRRHRRCRRCCCRHR" * 5):  # the topic is looked up for the first one
            sent, wanted = b"", list[int | None]()
            for number, kind in enumerate(kinds):
                sent += {"C": commit, "R": read, "H": _REQUESTS["served"]}[kind](number)
                wanted.append(kinds.rindex("C", 0, number + 1) if kind == "R" else None)
            client.socket.sendall(sent)
            for number, due in enumerate(wanted):
                answer = client.receive_frame()
                assert int.from_bytes(answer[:4], "big") == number
                if due is not None:
                    _, response = offset_fetch.API.parse_response(9, answer)
                    assert response.groups[0].topics[0].partitions[0].committed_offset == due
