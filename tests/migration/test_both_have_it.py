"""A group of which the cluster and ZooKeeper both have offsets: somebody says which are right."""

from __future__ import annotations

from pathlib import Path

import pytest

from shim.demo.parts import Broker
from tests.conftest import TopicFactory
from tests.migration.test_changing_hands import Member
from tests.migration.test_steps import Group, connect, with_zookeeper
from tests.offsets.conftest import kazoo
from tests.waiting import wait_until

__all__ = ["connect"]


def with_other_offsets(group: Group) -> None:
    """21, 22 and 23 in the cluster, 10, 11 and 12 in ZooKeeper."""
    for partition in range(3):
        group.commit_directly(partition, 21 + partition)
        group.write_to_zookeeper(partition, 10 + partition)


@pytest.mark.parametrize(
    ("source", "offsets", "step"),
    [("upstream", [21, 22, 23], ("kafka", False)), ("zookeeper", [10, 11, 12], ("zookeeper", True))],
)
def test_the_one_that_is_named_is_right(
    broker: Broker,
    connect: str,
    tmp_path: Path,
    make_topic: TopicFactory,
    group: str,
    source: str,
    offsets: list[int],
    step: tuple[str, bool],
) -> None:
    with (
        kazoo(connect) as others,
        with_zookeeper(broker, tmp_path / "data", connect) as at,
    ):
        its = Group(at, broker.bootstrap_servers, others, group, make_topic(3))
        with_other_offsets(its)
        assert its.through_shim() == [21, 22, 23]  # passed through
        refused = at.migrate("start", group)
        assert refused.status == 1
        assert f"{its.topic}-0 is 21 in the cluster and 10 in ZooKeeper" in refused.json["not_done"][0]["error"]
        (planned,) = at.migrate("plan", group).json["groups"]
        assert "and they differ" in planned["hindrance"]
        assert at.migrate("start", group, "--from", source).status == 0
        assert its.step() == step
        assert its.through_shim() == offsets
        wait_until(lambda: its.in_cluster() == offsets, "the cluster has other offsets")
        assert its.in_zookeeper() == [10, 11, 12]
        again = at.migrate("start", group, "--from", source)
        assert (again.status, again.json["groups"]) == (1, [])
        at.shim.kill()
        at.shim.start()
        assert (its.step(), its.through_shim()) == (step, offsets)


def test_where_they_are_the_same_nobody_has_to_say_it(
    broker: Broker, connect: str, tmp_path: Path, make_topic: TopicFactory, group: str
) -> None:
    with kazoo(connect) as others, with_zookeeper(broker, tmp_path / "data", connect) as at:
        its = Group(at, broker.bootstrap_servers, others, group, make_topic(3))
        for partition in range(3):
            its.commit_directly(partition, 5)
            its.write_to_zookeeper(partition, 5)
        assert at.migrate("start", group).status == 0
        assert (its.step(), its.through_shim()) == (("kafka", False), [5, 5, 5])


def test_not_from_zookeeper_while_somebody_goes_by_the_clusters(
    broker: Broker, connect: str, tmp_path: Path, make_topic: TopicFactory, group: str
) -> None:
    with kazoo(connect) as others, with_zookeeper(broker, tmp_path / "data", connect) as at:
        its = Group(at, broker.bootstrap_servers, others, group, make_topic(3))
        nothing = at.migrate("start", group, "--from", "zookeeper")
        assert nothing.status == 1
        with_other_offsets(its)
        member = Member(at.shim.bootstrap, group, its.topic)
        try:
            wait_until(lambda: member.assigned > 0, "it is given nothing")
            refused = at.migrate("start", group, "--from", "zookeeper")
            assert (refused.status, its.step()) == (1, ("upstream", False))
            assert (
                "has 1 member in the cluster: they go on from its offsets there" in refused.json["not_done"][0]["error"]
            )
        finally:
            member.stop()
