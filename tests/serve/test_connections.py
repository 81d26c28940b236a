"""Connections as the shim treats them: bad ones are cut with one line, the others notice nothing; SIGTERM drains."""

from __future__ import annotations

import random
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from protocol.errors import ErrorCode
from protocol.messages import (
    api_versions,
    find_coordinator,
    heartbeat,
    join_group,
    metadata,
    offset_commit,
    offset_fetch,
)
from shim.demo.parts import Broker
from tests.conftest import TopicFactory
from tests.shim_process import Shim
from tests.wire import WireClient


@pytest.fixture(scope="module")
def shim(broker: Broker, topic_t: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shim]:
    with Shim(broker.bootstrap_servers, tmp_path_factory.mktemp("shim") / "data") as running:
        yield running


def commit_request(group: str, offset: int) -> offset_commit.OffsetCommitRequest:
    partition = offset_commit.OffsetCommitRequestPartition(0, offset)
    return offset_commit.OffsetCommitRequest(
        group, topics=(offset_commit.OffsetCommitRequestTopic("t", partitions=(partition,)),)
    )


def commit(client: WireClient, group: str, offset: int) -> None:
    response = client.ask(offset_commit.API, 8, commit_request(group, offset))
    assert response.topics[0].partitions[0].error_code == ErrorCode.NONE


def committed(client: WireClient, group: str) -> int:
    topics = (offset_fetch.OffsetFetchRequestTopic("t", (0,)),)
    response = client.ask(offset_fetch.API, 6, offset_fetch.OffsetFetchRequest(group, topics))
    return response.topics[0].partitions[0].committed_offset


def join_request(group: str) -> join_group.JoinGroupRequest:
    protocols = (join_group.JoinGroupRequestProtocol("range", b"\0\0\0\0\0\0\0\0\0\0"),)
    return join_group.JoinGroupRequest(group, 10_000, 60_000, protocol_type="consumer", protocols=protocols)


HOSTILE = {
    "tls": (b"\x16\x03\x01\x00\xf4\x01\x00\x00\xf0\x03\x03" + bytes(200), "a TLS hello on a plaintext port"),
    "http": (b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n", "an HTTP request on a Kafka port"),
    "2 GB": (struct.pack(">i", 2**31 - 1), "larger than socket.request.max.bytes"),
    "negative": (struct.pack(">i", -5) + bytes(30), "a request of -5 bytes"),
    "unknown api": (struct.pack(">ihhi", 10, 999, 0, 1) + b"\0\0", "api key 999 version 0 is not served"),
    "new commit": (struct.pack(">ihhi", 10, 8, 10, 1) + b"\0\0", "api key 8 version 10 is not served"),
    "of brokers among themselves": (struct.pack(">ihhi", 10, 83, 0, 1) + b"\0\0", "api key 83 version 0 is not served"),
    "cut commit": (struct.pack(">ihhi", 10, 8, 2, 1) + b"\0\0", "malformed request"),
    "huge array": (
        struct.pack(">ihhihhiihqi", 38, 8, 2, 1, 0, 1, 0, 0, 0, 0, 2**31 - 1) + bytes(8),
        "malformed request",
    ),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_bad_client_is_cut_off_with_one_line_and_others_notice_nothing(shim: Shim, group: str, kind: str) -> None:
    data, reason = HOSTILE[kind]
    with WireClient(shim.port) as good:
        commit(good, group, 1)
        before = shim.log().count(reason)
        with WireClient(shim.port) as bad:
            peer = "{}:{}".format(*bad.socket.getsockname())
            bad.socket.sendall(data)
            assert bad.ended()
        commit(good, group, 2)
        assert committed(good, group) == 2
    lines = [line for line in shim.log().splitlines() if peer in line]
    assert len(lines) == 1, lines
    assert reason in lines[0]
    assert shim.log().count(reason) == before + 1


def test_random_bytes_never_hurt_others(shim: Shim, group: str) -> None:
    rng = random.Random(20)
    with WireClient(shim.port) as good:
        for turn in range(200):
            with WireClient(shim.port) as bad:
                bad.socket.sendall(rng.randbytes(rng.randint(1, 400)))
            commit(good, group, turn)
        assert committed(good, group) == 199
    assert "Traceback" not in shim.log()


def test_a_client_that_goes_away_while_it_waits_leaves_nothing_behind(shim: Shim, group: str) -> None:
    with WireClient(shim.port) as client:
        client.send(join_group.API, 3, join_request(group))
    with WireClient(shim.port) as good:
        response = good.ask(join_group.API, 3, join_request(group + "-2"))
        assert response.error_code == ErrorCode.NONE
    assert "Traceback" not in shim.log()


def test_answers_come_in_the_order_of_requests(shim: Shim, broker: Broker, group: str) -> None:
    """Those that are served, rewritten and passed on, mixed, sent at once."""
    every_api = metadata.MetadataRequest(topics=())
    with WireClient(shim.port + 1 + broker.node_id) as client:
        for turn in range(50):
            sent = [
                client.send(metadata.API, 9, every_api),
                client.send(offset_commit.API, 8, commit_request(group, turn)),
                client.send(api_versions.API, 3, api_versions.ApiVersionsRequest("test", "1")),
                client.send(heartbeat.API, 4, heartbeat.HeartbeatRequest(group, 1, "nobody")),
                client.send(find_coordinator.API, 3, find_coordinator.FindCoordinatorRequest(group)),
                client.send(offset_commit.API, 8, commit_request(group, turn + 1)),
            ]
            received = [
                client.receive(metadata.API, 9)[0],
                client.receive(offset_commit.API, 8)[0],
                client.receive(api_versions.API, 3)[0],
                client.receive(heartbeat.API, 4)[0],
                client.receive(find_coordinator.API, 3)[0],
                client.receive(offset_commit.API, 8)[0],
            ]
            assert received == sent
        assert committed(client, group) == 50


def test_api_versions_newer_than_the_shim_knows(shim: Shim) -> None:
    with WireClient(shim.port) as client:
        client.socket.sendall(struct.pack(">ihhih", 12, 18, 77, 5, -1) + b"\0\0")
        correlation_id, response = api_versions.API.parse_response(0, client.receive_frame())
        assert (correlation_id, response.error_code) == (5, ErrorCode.UNSUPPORTED_VERSION)
        assert response.api_keys == (api_versions.ApiVersion(18, 0, 4),)
        answer = client.ask(api_versions.API, 4, api_versions.ApiVersionsRequest("test", "1"))
        offered = {key.api_key: (key.min_version, key.max_version) for key in answer.api_keys}
        assert offered[0][0] == 0, "librdkafka stops compressing when Produce is not offered from 0"
        assert offered[1][1] == 15
        assert offered[8] == (0, 9)
        assert not offered.keys() & set(range(83, 88)), "what share coordinators are asked by brokers"


def fetch_frame(topic: str, correlation_id: int, wait_ms: int) -> bytes:
    """Fetch v4 of one partition from its beginning, waiting for a megabyte."""
    name = topic.encode()
    body = struct.pack(">hhih", 1, 4, correlation_id, -1) + struct.pack(">iiiib", -1, wait_ms, 1 << 20, 1 << 20, 0)
    body += struct.pack(">ih", 1, len(name)) + name + struct.pack(">iiqi", 1, 0, 0, 1 << 20)
    return struct.pack(">i", len(body)) + body


def test_sigterm_drains(broker: Broker, topic_t: str, make_topic: TopicFactory, tmp_path: Path, group: str) -> None:
    """A parked join, a fetch that the broker holds, and commits: all answered, then exit 0."""
    topic = make_topic()
    with Shim(
        broker.bootstrap_servers, tmp_path / "data", settings={"group.initial.rebalance.delay.ms": 60_000}
    ) as shim:
        node_port = shim.port + 1 + broker.node_id
        with WireClient(node_port) as joiner, WireClient(node_port) as fetcher, WireClient(node_port) as committer:
            commit(committer, group, 1)
            joiner.send(join_group.API, 3, join_request(group))
            fetcher.socket.sendall(fetch_frame(topic, 7, 1500))
            # Behind these two in the same connection order is certain: the shim has read the join and the fetch.
            with WireClient(node_port) as prober:
                commit(prober, group + "-2", 1)
            for offset in range(2, 100):
                committer.send(offset_commit.API, 8, commit_request(group + "-3", offset))
            acknowledged = 0
            exit_code: list[int | None] = []
            stopper = threading.Thread(target=lambda: exit_code.append(shim.stop()))
            stopper.start()
            _, response = joiner.receive(join_group.API, 3)
            assert response.error_code == ErrorCode.NOT_COORDINATOR
            assert struct.unpack_from(">i", fetcher.receive_frame())[0] == 7
            for _ in range(2, 100):
                try:
                    _, answer = committer.receive(offset_commit.API, 8)
                except ConnectionError:
                    break
                if answer.topics[0].partitions[0].error_code == ErrorCode.NONE:
                    acknowledged += 1
            stopper.join()
        assert exit_code == [0]
        assert shim.log().count("the cluster's own offsets are those of the log: 3 groups") == 1, "its last word"
        shim.start()
        with WireClient(shim.port) as client:
            assert committed(client, group) == 1
            assert committed(client, group + "-3") >= (acknowledged + 1 if acknowledged else -1)


@pytest.mark.parametrize("version", range(7))
def test_find_coordinator_names_a_broker_of_metadata_at_the_shims_port(
    shim: Shim, broker: Broker, group: str, version: int
) -> None:
    with WireClient(shim.port) as client:
        if version < 4:
            one = client.ask(find_coordinator.API, version, find_coordinator.FindCoordinatorRequest(group))
            found = [(one.error_code, one.node_id, one.host, one.port)]
        else:
            request = find_coordinator.FindCoordinatorRequest(coordinator_keys=(group, group + "-2"))
            many = client.ask(find_coordinator.API, version, request).coordinators
            assert [c.key for c in many] == [group, group + "-2"]
            found = [(c.error_code, c.node_id, c.host, c.port) for c in many]
        assert set(found) == {(ErrorCode.NONE, broker.node_id, "127.0.0.1", shim.broker_port(broker.node_id))}


@pytest.mark.parametrize("version", range(14))
def test_metadata_names_every_broker_at_the_shims_port(shim: Shim, broker: Broker, version: int) -> None:
    with WireClient(shim.port) as client:
        answer = client.ask(metadata.API, version, metadata.MetadataRequest(topics=()))
    assert [(b.node_id, b.host, b.port) for b in answer.brokers] == [
        (broker.node_id, "127.0.0.1", shim.broker_port(broker.node_id))
    ]


def test_a_commit_is_served_on_every_port_of_the_shim(shim: Shim, broker: Broker, group: str) -> None:
    with WireClient(shim.port) as bootstrap, WireClient(shim.broker_port(broker.node_id)) as node:
        commit(bootstrap, group, 5)
        assert committed(node, group) == 5


def test_a_request_that_the_shim_passes_on_itself_keeps_its_place_before_a_fetch(
    shim: Shim, broker: Broker, make_topic: TopicFactory, group: str
) -> None:
    """Sent together: were the broker asked later, its answer would be stuck behind a fetch that waits for this one."""
    topic = make_topic()
    with WireClient(shim.broker_port(broker.node_id)) as client:
        request = find_coordinator.API.request_frame(3, 1, "wire", find_coordinator.FindCoordinatorRequest(group))
        client.socket.sendall(request + fetch_frame(topic, 2, 200) + request)
        frames = [client.receive_frame() for _ in range(3)]
    assert [struct.unpack_from(">i", frame)[0] for frame in frames] == [1, 2, 1]
