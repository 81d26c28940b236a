"""What `plan` and `--all` offer is what `start` does, of groups too that the cluster lists without anything in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer
from kazoo.client import KazooClient

from protocol.errors import ErrorCode
from protocol.messages import delete_groups, offset_delete
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from shim.demo.parts import Broker
from tests.conftest import TopicFactory
from tests.migration.test_changing_hands import Administered
from tests.migration.test_first_contact import commit, committed, groups_at
from tests.migration.test_steps import connect, with_zookeeper
from tests.offsets.conftest import kazoo, put
from tests.wire import WireClient

__all__ = ["connect"]


class Groups(NamedTuple):
    """Whose names begin alike; ``topic`` has one partition."""

    at: Administered
    broker: Broker
    others: KazooClient
    prefix: str
    topic: str

    def name(self, kind: str) -> str:
        return f"{self.prefix}-{kind}"

    def with_nothing(self, kind: str) -> str:
        """Empty in the cluster, and without offsets: its one member has left."""
        group, assigned = self.name(kind), []
        consumer = Consumer(
            {"bootstrap.servers": self.broker.bootstrap_servers, "group.id": group, "enable.auto.commit": "false"}
        )
        consumer.subscribe([self.topic], on_assign=lambda _, partitions: assigned.extend(partitions))
        while not assigned:
            consumer.poll(0.1)
        consumer.close()
        assert group in groups_at(self.broker.bootstrap_servers)
        return group

    def with_offset(self, kind: str, offset: int = 3) -> str:
        """In the cluster."""
        commit(self.broker.bootstrap_servers, self.name(kind), self.topic, offset)
        return self.name(kind)

    def delete_offset(self, group: str) -> None:
        """In the cluster, which has the group still."""
        partitions = (OffsetDeleteRequestPartition(0),)
        request = OffsetDeleteRequest(group, (OffsetDeleteRequestTopic(self.topic, partitions),))
        with WireClient(self.broker.port) as client:
            assert client.ask(offset_delete.API, 0, request).error_code == ErrorCode.NONE
        assert group in groups_at(self.broker.bootstrap_servers)

    def broker_forgets(self, group: str) -> None:
        with WireClient(self.broker.port) as client:
            (deleted,) = client.ask(delete_groups.API, 0, DeleteGroupsRequest((group,))).results
        assert deleted.error_code == ErrorCode.NONE

    def with_offset_in_zookeeper(self, group: str, offset: int = 7) -> None:
        put(self.others, f"/consumers/{group}/offsets/{self.topic}/0", b"%d" % offset)

    def with_consumer_in_zookeeper(self, group: str) -> None:
        self.others.create(f"/consumers/{group}/ids/{group}_host-1", b"{}", ephemeral=True, makepath=True)

    def planned(self, *named: str) -> dict[str, tuple[str, str, int, str]]:
        """Of those that are named, or of all that begin alike."""
        rows = self.at.migrate("plan", *named).json["groups"]
        return {
            each["group"]: (each["offsets_storage"], each["state"], each["offsets"], each["hindrance"])
            for each in rows
            if each["group"].startswith(self.prefix)
        }

    def started(self, *args: str) -> dict[str, tuple[str, bool]]:
        """All have to be."""
        result = self.at.migrate("start", *args, "--yes")
        assert (result.status, result.json["not_done"]) == (0, [])
        return {each["group"]: (each["offsets_storage"], each["dual_commit_enabled"]) for each in result.json["groups"]}

    def why_not(self, command: str, group: str) -> Any:
        result = self.at.migrate(command, group)
        assert (result.status, result.json["groups"]) == (1, [])
        return result.json["not_done"][0]["error"]


@pytest.fixture
def groups(
    broker: Broker, connect: str, tmp_path: Path, make_topic: TopicFactory, fresh_name: Callable[[], str]
) -> Iterator[Groups]:
    with kazoo(connect) as others, with_zookeeper(broker, tmp_path / "data", connect) as at:
        yield Groups(at, broker, others, fresh_name(), make_topic())


def test_all_that_is_planned_is_started(groups: Groups) -> None:
    nothing, offset = groups.with_nothing("nothing"), groups.with_offset("offset")
    emptied, in_zookeeper = groups.with_offset("emptied"), groups.with_nothing("in-zookeeper")
    groups.delete_offset(emptied)
    groups.with_offset_in_zookeeper(in_zookeeper)
    consumers = groups.name("consumers")
    groups.with_consumer_in_zookeeper(consumers)
    assert groups.planned() == {
        offset: ("upstream", "Empty", 1, ""),
        in_zookeeper: ("zookeeper", "Empty", 1, ""),
        consumers: ("zookeeper", "Stable", 0, ""),
    }
    for group in (nothing, emptied):
        assert groups.why_not("plan", group) == groups.why_not("start", group)
    assert groups.started("--pattern", f"{groups.prefix}-*") == {
        offset: ("kafka", False),
        in_zookeeper: ("zookeeper", True),
        consumers: ("zookeeper", True),
    }


def test_one_that_had_nothing_is_offered_once_it_has_offsets(groups: Groups) -> None:
    group = groups.with_nothing("late")
    assert groups.planned() == {}
    groups.with_offset("late", 5)
    assert groups.planned() == {group: ("upstream", "Empty", 1, "")}
    assert groups.started(group) == {group: ("kafka", False)}
    assert committed(groups.at.shim.bootstrap, group, groups.topic) == 5


def test_one_that_is_passed_through_is_taken_over_with_nothing(groups: Groups) -> None:
    group = groups.with_offset("passed-through")
    assert committed(groups.at.shim.bootstrap, group, groups.topic) == 3
    groups.delete_offset(group)
    assert groups.planned() == {group: ("upstream", "Empty", 0, "")}
    assert groups.started(group) == {group: ("kafka", False)}
    assert committed(groups.at.shim.bootstrap, group, groups.topic) < 0


def test_what_start_refuses_hinders(groups: Groups) -> None:
    gone, served = groups.with_offset("gone"), groups.with_offset("served")
    assert committed(groups.at.shim.bootstrap, gone, groups.topic) == 3  # passed through from now on
    groups.broker_forgets(gone)
    groups.with_offset_in_zookeeper(gone)
    groups.started(served)
    for group in (gone, served):
        ((_, _, _, hindrance),) = groups.planned(group).values()
        assert hindrance == groups.why_not("start", group)


def test_of_a_group_that_nobody_has_it_is_said_who_was_asked(groups: Groups) -> None:
    nobody = f"neither the cluster nor ZooKeeper has offsets or members of a group {groups.name('nobody')}"
    assert [groups.why_not(move, groups.name("nobody")) for move in ("plan", "start")] == [nobody, nobody]
