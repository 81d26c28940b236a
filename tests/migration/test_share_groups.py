"""Share groups (KIP-932): they are the cluster's, and their members go through the shim to it."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import KafkaException, ShareConsumer, TopicPartition

from protocol.errors import ErrorCode
from protocol.messages import delete_groups, share_group_heartbeat
from protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from shim.demo.parts import Broker
from shim.demo.parts.tools import java_tool
from tests.admin.live.running import offset_shim
from tests.conftest import TopicFactory
from tests.java_tools import RunningTool
from tests.migration.modern_clients import values, write
from tests.migration.test_changing_hands import administered
from tests.migration.test_first_contact import commit, committed
from tests.waiting import wait_until
from tests.wire import WireClient

_CONSOLE: Final = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
_GROUPS: Final = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"


@pytest.fixture
def group(broker: Broker, fresh_name: Callable[[], str]) -> Iterator[str]:
    """It is gone in the end: a plan of all has a hindrance for it, in other tests, too."""
    name = fresh_name()
    yield name
    deleted(broker, name)


def deleted(broker: Broker, group: str) -> None:
    with WireClient(broker.port) as client:
        client.ask(delete_groups.API, 2, delete_groups.DeleteGroupsRequest((group,)))


def beat(port: int, group: str, member: str, epoch: int, topic: str) -> ShareGroupHeartbeatResponse:
    with WireClient(port) as client:
        request = ShareGroupHeartbeatRequest(group, member, epoch, subscribed_topic_names=(topic,))
        return client.ask(share_group_heartbeat.API, 1, request)


def test_javas_tools_go_through_to_the_cluster(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str
) -> None:
    topic = make_topic()
    with administered(broker, tmp_path / "data") as at:
        bootstrap = ("--bootstrap-server", at.shim.bootstrap)
        with RunningTool(_CONSOLE, *bootstrap, "--topic", topic, "--group", group) as consumer:
            # It begins where the topic ends when it is first asked for, which nobody tells.
            read: list[str] = []
            written = 0
            while not read:
                write(at.shim.bootstrap, topic, 0, range(written, written := written + 10))
                try:
                    read.append(consumer.read_line(1.0) or "")
                except TimeoutError:
                    continue
            (first,) = read
            rest = values(range(written))
            assert first in rest
            rest = rest[rest.index(first) + 1 :]
            assert consumer.read_lines(len(rest)) == rest
            told = at.status(group)
            assert (told["offsets_storage"], told["state"], told["type"]) == ("upstream", "Stable", "Share")
            assert told["cause"] == "its clients have the protocol of share groups (KIP-932), which the cluster serves"
            described = offset_shim("groups", "describe", group, "--json", "--admin", at.address).json
            (member,) = described["member_details"]
            assert (member["partitions"], described["offsets"]) == ([{"topic": topic, "partition": 0}], [])
            shown = offset_shim("groups", "describe", group, "--admin", at.address).stdout.splitlines()
            assert shown[-2].endswith(f" {topic}:0")
            assert shown[-1].startswith("no committed offsets: where a share group stands kafka-share-groups.sh ")
            (planned,) = at.migrate("plan", group).json["groups"]
            assert "the protocol of share groups (KIP-932)" in planned["hindrance"]
            (refused,) = at.migrate("start", group, "--yes").json["not_done"]
            assert refused["error"] == f"group {group}: {planned['hindrance']}"
            at.shim.kill()
            at.shim.restart()
            write(at.shim.bootstrap, topic, 0, range(written, written + 10))
            missing = set(values(range(written, written + 10)))
            while missing:  # what was not acknowledged yet comes again
                missing.discard(consumer.read_line() or "")
        # Nobody is in it any more; it is one all the same, and is looked after through the shim.
        (planned,) = at.migrate("plan", group).json["groups"]
        assert planned["state"] == "Empty"
        assert planned["hindrance"] == refused["error"].removeprefix(f"group {group}: ")
        described = java_tool(_GROUPS, *bootstrap, "--describe", "--group", group, "--offsets").stdout
        assert [line.split()[:3] for line in described.splitlines() if line.startswith(group)] == [[group, topic, "0"]]
        java_tool(
            _GROUPS, *bootstrap, "--reset-offsets", "--to-earliest", "--execute", "--topic", topic, "--group", group
        )
        with ShareConsumer({"bootstrap.servers": at.shim.bootstrap, "group.id": group}) as librdkafkas:
            librdkafkas.subscribe([topic])
            again: list[str] = []
            deadline = time.monotonic() + 60
            while len(again) < written + 10:
                assert time.monotonic() < deadline
                again += [(message.value() or b"").decode() for message in librdkafkas.poll(0.1)]
            assert again == values(range(written + 10))
            assert librdkafkas.commit_sync() == {TopicPartition(topic, 0): None}
        java_tool(_GROUPS, *bootstrap, "--delete", "--group", group)
        assert group not in java_tool(_GROUPS, *bootstrap, "--list").stdout


def test_one_is_the_clusters_where_new_groups_are_passed_through(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str
) -> None:
    topic = make_topic()
    with (
        administered(broker, tmp_path / "data", **{"group.new.served": "false"}) as at,
        ShareConsumer({"bootstrap.servers": at.shim.bootstrap, "group.id": group}) as consumer,
    ):
        consumer.subscribe([topic])
        read: list[str] = []
        deadline = time.monotonic() + 60
        for written in count(step=10):
            assert time.monotonic() < deadline
            write(at.shim.bootstrap, topic, 0, range(written, written + 10))
            read += [(message.value() or b"").decode() for message in consumer.poll(1.0)]
            if read:
                break
        told = at.status(group)
        assert (told["offsets_storage"], told["state"], told["type"]) == ("upstream", "Stable", "Share")
        assert told["cause"] == "its clients have the protocol of share groups (KIP-932), which the cluster serves"


def test_one_that_nobody_is_in_is_the_clusters(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str
) -> None:
    """There are no committed offsets to know it by; and clients of the classic protocol would have two coordinators."""
    topic, member = make_topic(), str(uuid.uuid4())
    joined = beat(broker.port, group, member, 0, topic)
    assert joined.error_code == ErrorCode.NONE
    assert beat(broker.port, group, member, -1, topic).error_code == ErrorCode.NONE
    with administered(broker, tmp_path / "data") as at:
        for look in ((), ("--dry-run",)):
            reset = offset_shim(
                "groups", "reset", group, "--to-earliest", "--topic", topic, *look, "--admin", at.address
            )
            assert reset.status == 1
            assert f"group {group} is a share group, whose offsets are no committed ones" in reset.stderr
        with pytest.raises(KafkaException, match="The group id does not exist"):
            commit(at.shim.bootstrap, group, topic, 5)
        told = at.status(group)
        assert (told["offsets_storage"], told["state"], told["type"]) == ("upstream", "Empty", "Share")
        assert told["cause"] == "the cluster has a share group of that name"


def test_one_that_is_served_is_not_given_to_a_cluster_that_has_a_share_group_of_that_name(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str
) -> None:
    """It has no place for committed offsets, and refuses them in the words that it has for a group that is gone."""
    topic, member = make_topic(), str(uuid.uuid4())
    with administered(broker, tmp_path / "data") as at:
        commit(at.shim.bootstrap, group, topic, 5)
        wait_until(lambda: committed(broker.bootstrap_servers, group, topic) == 5, "the cluster does not have it")
        deleted(broker, group)
        assert beat(broker.port, group, member, 0, topic).error_code == ErrorCode.NONE
        assert beat(broker.port, group, member, -1, topic).error_code == ErrorCode.NONE
        commit(at.shim.bootstrap, group, topic, 6)
        wait_until(
            lambda: at.status(group)["alarm"].endswith(
                "GROUP_ID_NOT_FOUND: the cluster has a share group of that name"
            ),
            "the mirror does not say so",
        )
        for step in ("advance", "rollback"):
            (refused,) = at.migrate(step, group, "--yes").json["not_done"]
            assert refused["error"] == f"group {group}: the cluster has a share group of that name; delete it there"
        assert beat(broker.port, group, member, 0, topic).error_code == ErrorCode.NONE
        (refused,) = at.migrate("rollback", group, "--yes").json["not_done"]
        assert "where it is a group of the protocol of share groups (KIP-932): wire at" in refused["error"]
        assert "give them another group id, and delete the group there" in refused["error"]
        assert at.status(group)["offsets_storage"] == "kafka"
        assert committed(at.shim.bootstrap, group, topic) == 6
        assert beat(broker.port, group, member, -1, topic).error_code == ErrorCode.NONE
        deleted(broker, group)
        wait_until(lambda: committed(broker.bootstrap_servers, group, topic) == 6, "the cluster does not have it")
        wait_until(lambda: at.status(group)["alarm"] == "", "there is an alarm yet")
        (given_back,) = at.migrate("rollback", group, "--yes").json["groups"]
        assert given_back["offsets_storage"] == "upstream"
        assert committed(at.shim.bootstrap, group, topic) == 6


def test_one_that_is_served_does_not_become_one(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str
) -> None:
    topic = make_topic()
    with administered(broker, tmp_path / "data") as at:
        commit(at.shim.bootstrap, group, topic, 5)
        refused = beat(at.shim.broker_port(broker.node_id), group, str(uuid.uuid4()), 0, topic)
        assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert refused.error_message is not None
        assert f"Group {group} is served by offset-shim" in refused.error_message
        assert "use another group.id" in refused.error_message
        assert committed(at.shim.bootstrap, group, topic) == 5
