"""Many groups of a real cluster and of ZooKeeper come to the shim, go on to the cluster, and the shim is taken out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from kazoo.client import KazooClient

from shim.demo.parts import Broker, ZooKeeper
from tests.conftest import TopicFactory
from tests.migration.adopted_groups import Offsets, commit_all, committed_of, in_zookeeper
from tests.migration.many_znodes import make_offsets
from tests.migration.test_changing_hands import Administered, Member, administered, begun, committed_all, read_again
from tests.migration.test_first_contact import produce
from tests.offsets.conftest import kazoo
from tests.waiting import wait_until

PARTITIONS: Final = 4
FIRST: Final = 100

sizes = pytest.mark.parametrize("count", [pytest.param(20, id="short"), pytest.param(1_000, marks=pytest.mark.soak)])
"""How many groups the cluster has, and how many ZooKeeper has."""


class Groups(NamedTuple):
    """``expected``: what each has committed."""

    of_cluster: Sequence[str]
    of_zookeeper: Sequence[str]
    topic: str
    expected: dict[str, dict[int, int]]

    @property
    def all(self) -> list[str]:
        return [*self.of_cluster, *self.of_zookeeper]

    def move_on(self, by: int) -> Offsets:
        """Each group's partition 0 forward, and partition 1 back."""
        for its in self.expected.values():
            its[0] += by
            its[1] -= by
        return {group: {number: its[number] for number in (0, 1)} for group, its in self.expected.items()}


@contextmanager
def adopted(
    broker: Broker, connect: str, others: KazooClient, data_dir: Path, prefix: str, topic: str, count: int
) -> Iterator[tuple[Administered, Groups]]:
    """So many groups in each place, with offsets of their own, and a shim in front that has heard of none of them."""
    cluster = [f"{prefix}-c-{number:04d}" for number in range(count)]
    zookeeper = [f"{prefix}-z-{number:04d}" for number in range(count)]
    expected = {
        group: {partition: FIRST + 7 * number + partition for partition in range(PARTITIONS)}
        for number, group in enumerate(cluster)
    }
    commit_all(broker.bootstrap_servers, expected, topic)
    make_offsets(others, zookeeper, topic, PARTITIONS, FIRST)
    expected |= {group: {partition: FIRST + partition for partition in range(PARTITIONS)} for group in zookeeper}
    groups = Groups(cluster, zookeeper, topic, expected)
    with administered(broker, data_dir, "--zookeeper", connect) as at:
        yield at, groups


@pytest.fixture
def connect(zookeeper: ZooKeeper, fresh_name: Callable[[], str]) -> str:
    name = fresh_name()
    with kazoo(zookeeper.connect_string) as client:
        client.ensure_path(f"/{name}")
    return f"{zookeeper.connect_string}/{name}"


def moved(at: Administered, move: str, groups: Sequence[str], step: str) -> None:
    """All of them, and that is where they are."""
    done = at.migrate(move, *groups, "--yes")
    assert done.status == 0, done.json["not_done"]
    assert {each["group"] for each in done.json["groups"]} == set(groups)
    assert {f"{each['offsets_storage']}{'+dual' * each['dual_commit_enabled']}" for each in done.json["groups"]} == {
        step
    }


@sizes
def test_all_groups_come_and_go(
    broker: Broker,
    connect: str,
    tmp_path: Path,
    make_topic: TopicFactory,
    fresh_name: Callable[[], str],
    count: int,
) -> None:
    """Then the shim is removed, and clients go to the brokers."""
    topic, prefix = make_topic(PARTITIONS), fresh_name()
    with (
        kazoo(connect) as others,
        adopted(broker, connect, others, tmp_path / "data", prefix, topic, count) as (at, groups),
    ):

        def same() -> None:
            assert committed_of(at.shim.bootstrap, groups.all, topic) == groups.expected

        planned = at.migrate("plan", "--pattern", f"{prefix}-*").json["groups"]
        assert {each["group"]: (each["offsets_storage"], each["offsets"], each["hindrance"]) for each in planned} == {
            **dict.fromkeys(groups.of_cluster, ("upstream", PARTITIONS, "")),
            **dict.fromkeys(groups.of_zookeeper, ("zookeeper", PARTITIONS, "")),
        }
        same()
        # One after the other: at any time some are here, and others are not yet.
        for first, last in ((0, count // 3), (count // 3, count)):
            moved(at, "start", groups.of_cluster[first:last], "kafka")
            moved(at, "start", groups.of_zookeeper[first:last], "zookeeper+dual")
            same()
            commit_all(at.shim.bootstrap, groups.move_on(1), topic)
            same()
        for step in ("kafka+dual", "kafka", "upstream+dual"):
            moved(at, "advance", groups.of_zookeeper, step)
            commit_all(at.shim.bootstrap, groups.move_on(1), topic)
            same()
        moved(at, "advance", groups.of_zookeeper, "upstream")
        moved(at, "rollback", groups.of_cluster, "upstream")
        same()
        assert at.shim.stop() == 0
        assert committed_of(broker.bootstrap_servers, groups.all, topic) == groups.expected
        commit_all(broker.bootstrap_servers, groups.move_on(1), topic)
        assert committed_of(broker.bootstrap_servers, groups.all, topic) == groups.expected


@sizes
def test_the_shim_is_taken_away_in_an_emergency(
    broker: Broker,
    connect: str,
    tmp_path: Path,
    make_topic: TopicFactory,
    fresh_name: Callable[[], str],
    count: int,
) -> None:
    """Nobody has handed anything back: the cluster has it all the same, and ZooKeeper what is its."""
    topic, prefix = make_topic(PARTITIONS), fresh_name()
    with (
        kazoo(connect) as others,
        adopted(broker, connect, others, tmp_path / "data", prefix, topic, count) as (at, groups),
    ):
        moved(at, "start", groups.all[:count], "kafka")
        moved(at, "start", groups.of_zookeeper, "zookeeper+dual")
        moved(at, "advance", groups.of_zookeeper, "kafka+dual")
        commit_all(at.shim.bootstrap, groups.move_on(3), topic)
        wait_until(lambda: committed_of(broker.bootstrap_servers, groups.all, topic) == groups.expected)
        wait_until(lambda: in_zookeeper(others, groups.of_zookeeper, topic).items() <= groups.expected.items())
        at.shim.kill()
        assert committed_of(broker.bootstrap_servers, groups.all, topic) == groups.expected
        assert in_zookeeper(others, groups.of_zookeeper, topic).items() <= groups.expected.items()


def test_members_move_to_the_shim_one_after_the_other(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, fresh_name: Callable[[], str]
) -> None:
    """Partly at the brokers and partly through the shim they are one group with one coordinator; then all are here, the
    group is taken over, given back, and they go to the brokers again: each record is read once."""
    topic, group = make_topic(PARTITIONS), fresh_name()
    settings = begun(broker, group, topic, PARTITIONS)
    members: list[Member] = []
    written = 0

    def joined(at: str) -> Member:
        members.append(Member(at, group, topic, **settings))
        return members[-1]

    def write() -> None:
        nonlocal written
        produce(broker.bootstrap_servers, topic, *(b"%d" % number for number in range(written, written + 60)))
        written += 60
        wait_until(lambda: len({value for member in members for value in member.values}) == written)

    try:
        first, second = (joined(broker.bootstrap_servers) for _ in range(2))
        wait_until(lambda: all(member.assigned for member in members))
        write()
        with administered(broker, tmp_path / "data") as at:

            def has_two(step: str) -> None:
                wait_until(lambda: at.status(group)["members"] == 2 and at.status(group)["state"] == "Stable")
                assert at.status(group)["offsets_storage"] == step
                write()

            first.stop()
            third = joined(at.shim.bootstrap)
            wait_until(lambda: third.assigned > 0)
            has_two("upstream")
            refused = at.migrate("start", group)
            assert refused.status == 1
            assert "1 of its members do not come through this shim" in refused.json["not_done"][0]["error"]
            second.stop()
            joined(at.shim.bootstrap)
            has_two("upstream")
            assert at.migrate("start", group).status == 0
            has_two("kafka")
            assert at.migrate("rollback", group).status == 0
            has_two("upstream")
            third.stop()
            fifth = joined(broker.bootstrap_servers)
            wait_until(lambda: fifth.assigned > 0)
            has_two("upstream")
            members[3].stop()
            joined(broker.bootstrap_servers)
            write()
        write()
    finally:
        for member in members:
            member.stop()
    assert [each for member in members for each in member.without_offset] == []
    assert len(read_again(members)) <= sum(member.not_committed for member in members), read_again(members)
    assert sum(committed_all(broker, group, topic, PARTITIONS)) == written
