"""A group whose offsets are in ZooKeeper goes to `kafka` step by step, on to the cluster, and all the way back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from kazoo.client import KazooClient

from protocol.errors import ErrorCode
from protocol.messages import offset_commit
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from shim.demo.parts import Broker, ZooKeeper
from tests.admin.live.running import offset_shim
from tests.conftest import TopicFactory
from tests.migration.test_changing_hands import Administered, Member, administered
from tests.migration.test_first_contact import TIMEOUT_S
from tests.migration.test_transactions import begun
from tests.offsets.conftest import kazoo, put
from tests.waiting import wait_until
from tests.wire import WireClient

STEPS = [
    ("zookeeper", False),
    ("zookeeper", True),
    ("kafka", True),
    ("kafka", False),
    ("upstream", True),
    ("upstream", False),
]
PARTITIONS = 3


class Group:
    """A group as each of its places has it. ``directly``: a connection to the brokers."""

    def __init__(self, at: Administered, directly: str, others: KazooClient, name: str, topic: str) -> None:
        self.at = at
        self.name = name
        self.topic = topic
        self.directly = directly
        self._others = others

    def write_to_zookeeper(self, partition: int, offset: int) -> None:
        """As an old consumer does."""
        put(self._others, self._path(partition), b"%d" % offset)

    def commit(self, partition: int, offset: int) -> None:
        """Through the shim."""
        _commit(self.at.shim.bootstrap, self.name, TopicPartition(self.topic, partition, offset))

    def commit_directly(self, partition: int, offset: int) -> None:
        """At the brokers."""
        _commit(self.directly, self.name, TopicPartition(self.topic, partition, offset))

    def commit_as_of_old(self, partition: int, offset: int) -> None:
        """Through the shim, as a consumer of 0.9 to 1.1 with `offsets.storage=kafka` does."""
        partitions = (OffsetCommitRequestPartition(partition, offset),)
        request = OffsetCommitRequest(self.name, topics=(OffsetCommitRequestTopic(self.topic, partitions=partitions),))
        with WireClient(self.at.shim.port) as client:
            ((answered,),) = (topic.partitions for topic in client.ask(offset_commit.API, 2, request).topics)
        assert answered.error_code == ErrorCode.NONE

    def consumer_comes(self, consumer: str, owns: int) -> None:
        """Somebody in ZooKeeper claims a partition, and has it alone."""
        of_group = f"/consumers/{self.name}"
        owner = f"{of_group}/owners/{self.topic}/{owns}"
        if not self._others.exists(f"{of_group}/ids/{consumer}"):
            self._others.create(f"{of_group}/ids/{consumer}", b"{}", ephemeral=True, makepath=True)
        if self._others.exists(owner):
            self._others.delete(owner)
        self._others.create(owner, f"{consumer}-0".encode(), ephemeral=True, makepath=True)

    def through_shim(self) -> list[int]:
        return _committed(self.at.shim.bootstrap, self.name, self.topic)

    def in_cluster(self) -> list[int]:
        return _committed(self.directly, self.name, self.topic)

    def in_zookeeper(self) -> list[int]:
        return [int(self._others.get(self._path(partition))[0]) for partition in range(PARTITIONS)]

    def step(self) -> tuple[str, bool]:
        status = self.at.status(self.name)
        return status["offsets_storage"], status["dual_commit_enabled"]

    def _path(self, partition: int) -> str:
        return f"/consumers/{self.name}/offsets/{self.topic}/{partition}"


def _commit(bootstrap: str, group: str, *offsets: TopicPartition) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        consumer.commit(offsets=list(offsets), asynchronous=False)
    finally:
        consumer.close()


def _committed(bootstrap: str, group: str, topic: str) -> list[int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        found = consumer.committed([TopicPartition(topic, number) for number in range(PARTITIONS)], 30.0)
    finally:
        consumer.close()
    return [each.offset for each in found]


@pytest.fixture
def connect(zookeeper: ZooKeeper, fresh_name: Callable[[], str]) -> str:
    """A connect string whose chroot there is."""
    name = fresh_name()
    with kazoo(zookeeper.connect_string) as client:
        client.ensure_path(f"/{name}")
    return f"{zookeeper.connect_string}/{name}"


@contextmanager
def with_zookeeper(broker: Broker, data_dir: Path, connect: str, **settings: Any) -> Iterator[Administered]:
    with administered(broker, data_dir, "--zookeeper", connect, **settings) as at:
        yield at


@pytest.fixture
def group(
    broker: Broker, connect: str, tmp_path: Path, make_topic: TopicFactory, fresh_name: Callable[[], str]
) -> Iterator[Group]:
    """Its offsets are 10, 11 and 12, in ZooKeeper."""
    with (
        kazoo(connect) as others,
        with_zookeeper(broker, tmp_path / "data", connect) as at,
    ):
        made = Group(at, broker.bootstrap_servers, others, fresh_name(), make_topic(PARTITIONS))
        for partition in range(PARTITIONS):
            made.write_to_zookeeper(partition, 10 + partition)
        yield made


def done(result: Any) -> None:
    assert result.status == 0, result


def test_a_consumer_with_dual_commit_of_its_own_is_no_reason_to_stay(group: Group) -> None:
    """It writes to ZooKeeper the same as the shim does: another version, and nothing else."""
    done(group.at.migrate("start", group.name))
    done(group.at.migrate("advance", group.name))
    group.commit(0, 20)
    wait_until(lambda: group.in_zookeeper()[0] == 20, "it is not in ZooKeeper")
    group.write_to_zookeeper(0, 20)
    done(group.at.migrate("advance", group.name))
    group.commit(0, 21)
    done(group.at.migrate("rollback", group.name))
    assert (group.step(), group.in_zookeeper()[0]) == (("kafka", True), 21)


def test_all_steps_and_back(group: Group) -> None:
    (planned,) = group.at.migrate("plan", group.name).json["groups"]
    assert (planned["offsets_storage"], planned["offsets"], planned["hindrance"]) == ("zookeeper", PARTITIONS, "")
    done(group.at.migrate("start", group.name))
    assert group.step() == STEPS[1]
    expected = [10, 11, 12]
    for step in STEPS[1:]:
        if step != STEPS[1]:
            _foresee(group, "advance", step)
            done(group.at.migrate("advance", group.name))
        expected = _at_its_step(group, step, expected)
    for step in reversed(STEPS[:-1]):
        _foresee(group, "rollback", step)
        done(group.at.migrate("rollback", group.name))
        expected = _at_its_step(group, step, expected)
    refused = group.at.migrate("rollback", group.name)
    assert refused.status == 1
    assert "is at zookeeper: there is no step before that" in refused.json["not_done"][0]["error"]


def _foresee(group: Group, move: str, step: tuple[str, bool]) -> None:
    """A dry run says so, and leaves the group where it is."""
    before = group.step()
    told = group.at.migrate(move, group.name, "--dry-run")
    done(told)
    (row,) = told.json["groups"]
    written = [f"{storage}+dual" if dual else storage for storage, dual in (before, step)]
    assert ([row["at"], row["to"]], row["differing"], row["hindrance"]) == (written, 0, "")
    assert group.step() == before


def _at_its_step(group: Group, step: tuple[str, bool], before: list[int]) -> list[int]:
    """Whoever may commit does, rewinds among it, and all places that have to have it do. Gives what they have."""
    assert group.step() == step
    assert group.through_shim() == before, step
    expected = [before[0] + 100, before[1] - 1, before[2]]
    for partition in (0, 1):
        group.commit(partition, expected[partition])
    assert group.through_shim() == expected, step
    if step in STEPS[:3]:
        wait_until(lambda: group.in_zookeeper() == expected, f"{step}: ZooKeeper has something else than {expected}")
        expected[2] += 5 if expected[2] < 20 else -7
        group.write_to_zookeeper(2, expected[2])
        assert group.through_shim() == expected
    if step[0] == "upstream":
        assert group.in_cluster() == expected
    else:
        wait_until(lambda: group.in_cluster() == expected, f"{step}: the cluster has something else than {expected}")
    if step != STEPS[-1]:
        verified = group.at.migrate("verify", group.name)
        done(verified)
        assert verified.json["groups"][0]["differing"] == 0
    return expected


def test_what_is_answered_at_zookeeper_is_there(group: Group) -> None:
    done(group.at.migrate("start", group.name))
    for offset in (20, 21, 5):
        group.commit(1, offset)
        assert group.in_zookeeper() == [10, offset, 12]
        group.write_to_zookeeper(0, offset)
        assert group.through_shim() == [offset, offset, 12]
        group.write_to_zookeeper(0, 10)


def test_a_step_is_refused_while_places_differ(group: Group) -> None:
    done(group.at.migrate("start", group.name))
    done(group.at.migrate("advance", group.name))
    done(group.at.migrate("advance", group.name))
    assert group.step() == ("kafka", False)
    group.write_to_zookeeper(1, 99)  # nobody looks there any more
    assert group.through_shim() == [10, 11, 12]
    refused = group.at.migrate("rollback", group.name)
    assert refused.status == 1
    assert f"{group.topic}-1 is 11 in the log and 99 in zookeeper" in refused.json["not_done"][0]["error"]
    assert group.step() == ("kafka", False)
    group.commit(1, 99)
    done(group.at.migrate("rollback", group.name))
    assert group.step() == ("kafka", True)


def test_the_step_to_the_cluster_is_refused_while_a_member_is_there(group: Group) -> None:
    done(group.at.migrate("start", group.name))
    done(group.at.migrate("advance", group.name))
    done(group.at.migrate("advance", group.name))
    member = Member(group.directly, group.name, group.topic, **{"client.id": "stray"})
    try:
        wait_until(lambda: member.assigned > 0, "it has not joined")
        group.commit(0, 20)
        who = f"group {group.name}: it has 1 member in the cluster, past the shim: stray at /127.0.0.1; stop them there"
        assert who in not_advanced(group, ("kafka", False))
        compared = group.at.migrate("verify", group.name)
        assert (compared.status, "has members in the cluster, past the shim" in compared.stdout) == (1, True), compared
    finally:
        member.stop()
    wait_until(lambda: group.at.migrate("advance", group.name).status == 0, "it is still refused")
    assert group.in_cluster()[0] == 20
    member = Member(group.directly, group.name, group.topic, **{"client.id": "stray"})
    try:
        wait_until(lambda: member.assigned > 0, "it has not joined")
        assert who in not_advanced(group, ("upstream", True))
        ((row,),) = (group.at.migrate("advance", group.name, "--dry-run").json["groups"],)
        assert who in row["hindrance"]
    finally:
        member.stop()


def test_the_step_back_is_refused_while_a_transaction_has_not_ended(group: Group) -> None:
    group.write_to_zookeeper(0, 5)
    done(group.at.migrate("start", group.name))
    done(group.at.migrate("advance", group.name))
    producer = begun(group.at.shim.bootstrap, group.name, group.topic, 0, 9)
    refused = group.at.migrate("rollback", group.name)
    assert refused.status == 1
    assert "a transaction with offsets of it has not ended yet" in refused.stdout
    producer.commit_transaction(TIMEOUT_S)
    wait_until(lambda: group.at.migrate("rollback", group.name).status == 0)
    assert group.in_zookeeper()[0] == 9


def test_a_step_is_refused_while_the_cluster_has_something_else(group: Group) -> None:
    for move in ("start", "advance", "advance", "advance"):
        done(group.at.migrate(move, group.name))
    assert group.step() == ("upstream", True)
    for move, last in (("advance", 50), ("rollback", 60)):
        before = group.through_shim()[1]
        group.commit_directly(1, 99)
        foreseen = group.at.migrate(move, group.name, "--dry-run")
        assert (foreseen.status, foreseen.json["groups"][0]["differing"]) == (1, 1)
        refused = group.at.migrate(move, group.name)
        assert refused.status == 1
        assert f"{group.topic}-1 is {before} in the log and 99 in upstream" in refused.json["not_done"][0]["error"]
        assert group.step() == ("upstream", True)
        group.commit(1, last)
        assert group.in_cluster() == group.through_shim() == [10, last, 12]
    done(group.at.migrate("advance", group.name))
    assert group.in_cluster() == [10, 60, 12]


def test_consumers_in_zookeeper_keep_it_there_until_they_commit_here(group: Group) -> None:
    for move in ("start", "advance"):
        done(group.at.migrate(move, group.name))
    group.consumer_comes("old_1-host-1", owns=0)
    foreseen = group.at.migrate("advance", group.name, "--dry-run")
    assert foreseen.status == 1
    assert "not known to commit to the shim: old_1-host-1" in foreseen.json["groups"][0]["hindrance"]
    assert "1 consumer in ZooKeeper that is not known to commit" in not_advanced(group)
    group.commit(0, 20)  # some tool
    assert "1 consumer in ZooKeeper that is not known to commit" in not_advanced(group)
    group.commit_as_of_old(1, 20)  # somebody else's partition
    assert "not known to commit to the shim: old_1-host-1." in not_advanced(group)
    group.commit_as_of_old(0, 21)
    group.consumer_comes("old_2-host-2", owns=2)
    assert "not known to commit to the shim: old_2-host-2." in not_advanced(group)
    group.commit_as_of_old(2, 22)
    group.consumer_comes("old_2-host-2", owns=0)  # a rebalance: what the first one has committed is not of this one
    assert "not known to commit to the shim: old_1-host-1." in not_advanced(group)
    group.consumer_comes("old_1-host-1", owns=0)
    assert "not known to commit to the shim: old_1-host-1." in not_advanced(group)
    group.commit_as_of_old(0, 23)
    done(group.at.migrate("advance", group.name))
    assert group.step() == ("kafka", False)
    assert group.through_shim() == [23, 20, 22]


def not_advanced(group: Group, step: tuple[str, bool] = ("kafka", True)) -> str:
    refused = group.at.migrate("advance", group.name)
    assert (refused.status, group.step()) == (1, step)
    return str(refused.json["not_done"][0]["error"])


def test_a_client_of_today_makes_nothing_anew(group: Group) -> None:
    """One that the shim has never heard of goes on where its offsets are."""
    assert group.through_shim() == [10, 11, 12]
    assert group.step() == ("zookeeper", False)
    group.commit(2, 50)
    assert group.in_zookeeper() == [10, 11, 50]


def test_a_deleted_group_is_deleted_everywhere(group: Group) -> None:
    done(group.at.migrate("start", group.name))
    done(group.at.migrate("advance", group.name))
    group.commit(0, 77)
    wait_until(lambda: group.in_zookeeper()[0] == 77, "it is not there")
    group._others.create(f"/consumers/{group.name}/ids/old_1", b"{}", ephemeral=True, makepath=True)
    admin = AdminClient({"bootstrap.servers": group.at.shim.bootstrap})
    with pytest.raises(KafkaException, match="NON_EMPTY"):
        admin.delete_consumer_groups([group.name])[group.name].result(30)
    group._others.delete(f"/consumers/{group.name}/ids/old_1")
    admin.delete_consumer_groups([group.name])[group.name].result(30)
    wait_until(lambda: not group._others.exists(f"/consumers/{group.name}"), "its znodes are there")
    assert group.through_shim() == [-1001] * PARTITIONS
    wait_until(lambda: group.in_cluster() == [-1001] * PARTITIONS, "the cluster has it")


def test_zookeeper_away(group: Group, zookeeper: ZooKeeper) -> None:
    """At `kafka` with dual commit clients do not notice; ZooKeeper has it when it is back."""
    done(group.at.migrate("start", group.name))
    done(group.at.migrate("advance", group.name))
    zookeeper.stop()
    try:
        group.commit(0, 500)
        assert group.through_shim() == [500, 11, 12]
        wait_until(lambda: group.at.status(group.name)["lag_seconds"] is not None, "nothing says that it is behind")
    finally:
        zookeeper.start()
    wait_until(lambda: _or_none(group.in_zookeeper) == [500, 11, 12], "it has not come there")
    wait_until(lambda: group.at.status(group.name)["lag_seconds"] is None, "it is behind")


def test_what_zookeeper_has_is_not_known(group: Group, zookeeper: ZooKeeper) -> None:
    """Where it is right a reset is refused, and the shim says at its end which groups lack something there."""
    done(group.at.migrate("start", group.name))
    zookeeper.stop()
    try:
        look = ("groups", "reset", group.name, "--to-latest", "--all-topics", "--dry-run", "--admin", group.at.address)
        wait_until(lambda: group.at.status(group.name)["alarm"], "nobody has noticed")
        refused = offset_shim(*look)
        assert f"Error: what group {group.name} has in ZooKeeper is not known: " in refused.stderr
        with pytest.raises(KafkaException):
            group.commit(0, 500)
        assert group.at.shim.stop() == 0
    finally:
        zookeeper.start()
    last = f"WARNING offsets in ZooKeeper may not be those of the log: 1 group: {group.name} ("
    assert last in group.at.shim.log()
    assert "offsets in ZooKeeper are kept up again" not in group.at.shim.log(), "they are not"


def _or_none(look: Callable[[], list[int]]) -> list[int] | None:
    try:
        return look()
    except Exception:
        return None
