"""Groups are taken over from the cluster and given back: each goes on where it stood, never with two coordinators."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from shim.demo.parts import Broker, Cluster, free_port
from tests.admin.live.running import in_a_process, offset_shim
from tests.admin.running import Result
from tests.conftest import TopicFactory
from tests.migration.test_first_contact import TIMEOUT_S, commit, committed, consumed, groups_at, produce
from tests.shim_process import Shim
from tests.waiting import wait_until

_QUICK: Final = {"group.handover.timeout.ms": 20_000}


class Administered:
    """A shim, and the commands at its admin port."""

    def __init__(self, shim: Shim, admin: str) -> None:
        self.shim = shim
        self.address = admin

    def migrate(self, step: str, *args: str) -> Result:
        return offset_shim("migrate", step, *args, "--json", "--admin", self.address)

    def status(self, group: str) -> dict[str, Any]:
        (found,) = self.migrate("status", group).json["groups"]
        return dict(found)

    def offsets(self, group: str) -> dict[tuple[str, int], int]:
        described = offset_shim("groups", "describe", group, "--json", "--admin", self.address).json
        return {(each["topic"], each["partition"]): each["offset"] for each in described["offsets"]}


@contextmanager
def administered(broker: Broker | Cluster, data_dir: Path, *more: str, **settings: str | int) -> Iterator[Administered]:
    admin = f"127.0.0.1:{free_port()}"
    args, with_settings = ["--admin", admin, *more], {**_QUICK, **settings}
    with Shim(broker.bootstrap_servers, data_dir, args=args, settings=with_settings, passes_groups=True) as shim:
        yield Administered(shim, admin)


class Member:
    """A consumer that goes on until it is stopped; commits what it has read, and remembers it."""

    def __init__(self, at: str, group: str, topic: str, **settings: str | int) -> None:
        self.values: list[bytes] = []
        self.positions: list[tuple[int, int]] = []
        """Of the values: partition and offset."""
        self.without_offset: list[str] = []
        """What it was told of partitions of which it was given no offset, with `auto.offset.reset` = error."""
        self.assigned = 0
        self.lost = 0
        self.not_committed = 0
        self.acknowledged: dict[int, int] = {}
        """By partition, the furthest offset of which it was told that it is committed."""
        self._stopped = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": at,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": "false",
                "heartbeat.interval.ms": 200,
                "session.timeout.ms": 6000,
                **settings,
            }
        )
        self._consumer.subscribe([topic], on_assign=self.on_assign, on_lost=self._lost)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.assigned += 1

    def _lost(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.lost += 1

    def _run(self) -> None:
        while not self._stopped.is_set():
            message = self._consumer.poll(0.1)
            error = None if message is None else message.error()
            if error is not None and error.code() == KafkaError._AUTO_OFFSET_RESET:
                self.without_offset.append(error.str())
            if message is not None and error is None:
                at = position(message)
                self.took(message)
                try:
                    self._consumer.commit(message=message, asynchronous=False)
                except KafkaException:
                    self.not_committed += 1
                else:
                    self.acknowledged[at[0]] = max(at[1] + 1, self.acknowledged.get(at[0], 0))
        self._consumer.close()

    def took(self, message: Message) -> None:
        """In another thread, before it is committed."""
        self.values.append(message.value() or b"")
        self.positions.append(position(message))

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()


def position(message: Message) -> tuple[int, int]:
    """Of one that was delivered, partition and offset."""
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    return partition, offset


def read_again(members: Sequence[Member]) -> list[tuple[int, int]]:
    """Positions that were read more than once."""
    read = Counter(each for member in members for each in member.positions)
    return [each for each, times in read.items() if times > 1]


def begun(broker: Broker, group: str, topic: str, partitions: int) -> dict[str, str]:
    """The cluster has an offset of the group for each partition, 0, and the members' settings: none of them is ever to
    be without.

    Where there is none, librdkafka 2.16.0 asks the leader where to begin. When that is answered after the partition was
    revoked it asks again 500 ms later, and believes that answer: it fetches from there, be the partition another's, or
    its own again with an offset that the coordinator has told it. What it has fetched of another's partition it may
    hand out when it is assigned next, on a busy machine.
    """
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    try:
        consumer.commit(offsets=[TopicPartition(topic, each, 0) for each in range(partitions)], asynchronous=False)
    finally:
        consumer.close()
    return {"auto.offset.reset": "error"}


def test_a_group_without_members_is_taken_over_and_given_back(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, fresh_name: Callable[[], str]
) -> None:
    topic, group = make_topic(3), fresh_name()
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    consumer.commit(
        offsets=[TopicPartition(topic, number, 10 + number, metadata=f"m{number}") for number in range(3)],
        asynchronous=False,
    )
    consumer.close()
    with administered(broker, tmp_path / "data") as at:
        (planned,) = at.migrate("plan", group).json["groups"]
        assert (planned["state"], planned["members"], planned["offsets"], planned["hindrance"]) == ("Empty", 0, 3, "")
        assert at.migrate("start", group).status == 0
        assert at.status(group)["offsets_storage"] == "kafka"
        (planned,) = at.migrate("plan", group).json["groups"]
        assert (planned["offsets_storage"], planned["state"], planned["offsets"]) == ("kafka", "Empty", 3)
        assert planned["hindrance"] == f"group {group} is served by the shim already, at kafka"
        assert at.offsets(group) == {(topic, number): 10 + number for number in range(3)}
        assert committed(at.shim.bootstrap, group, topic) == 10
        commit(at.shim.bootstrap, group, topic, 20)
        at.shim.kill()
        at.shim.start()
        assert committed(at.shim.bootstrap, group, topic) == 20
        again = at.migrate("start", group)
        assert again.status == 1
        assert "served by the shim already" in again.stdout + again.stderr
        assert "advance" not in again.stdout + again.stderr, "that would be on to upstream, and nobody has to"
        assert at.migrate("rollback", group).status == 0
        assert at.status(group)["offsets_storage"] == "upstream"
        assert committed(broker.bootstrap_servers, group, topic) == 20
        assert at.offsets(group) == {(topic, 0): 20, (topic, 1): 11, (topic, 2): 12}
        commit(broker.bootstrap_servers, group, topic, 5)  # a rewind is one
        assert committed(at.shim.bootstrap, group, topic) == 5
        assert at.migrate("start", group).status == 0
        assert committed(at.shim.bootstrap, group, topic) == 5
        at.shim.stop()
    # Without the shim it would go on where it was handed back last.
    assert consumed_offset(broker, group, topic) == 5


def consumed_offset(broker: Broker, group: str, topic: str) -> int:
    return committed(broker.bootstrap_servers, group, topic)


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_members_go_on_while_their_group_changes_hands(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, fresh_name: Callable[[], str], strategy: str
) -> None:
    topic, group = make_topic(4), fresh_name()
    written = 0

    def write() -> None:
        nonlocal written
        produce(broker.bootstrap_servers, topic, *(b"%d" % number for number in range(written, written + 100)))
        written += 100

    # It is the cluster's, as it has been there before.
    settings = {"partition.assignment.strategy": strategy, **begun(broker, group, topic, 4)}
    write()
    consumed(broker.bootstrap_servers, group, topic, 1)
    with administered(broker, tmp_path / "data") as at:
        members = [Member(at.shim.bootstrap, group, topic, **settings) for _ in range(2)]

        def read() -> set[bytes]:
            assert [each for member in members for each in member.without_offset] == []
            return {value for member in members for value in member.values}

        try:
            wait_until(lambda: all(member.assigned for member in members) and len(read()) >= written - 1)
            assert at.status(group)["offsets_storage"] == "upstream"
            (planned,) = at.migrate("plan", group).json["groups"]
            assert (planned["members"], planned["members_here"], planned["hindrance"]) == (2, 2, "")
            write()
            assert at.migrate("start", group).status == 0
            write()
            wait_until(lambda: len(read()) >= written - 1)
            described = at.status(group)
            assert (described["offsets_storage"], described["members"]) == ("kafka", 2)
            not_committed = sum(member.not_committed for member in members)
            # Cooperative members go on while they join, and then a commit may be told of a rebalance, as by a broker.
            assert strategy != "range" or not_committed == 0
            assert len(read_again(members)) <= not_committed, read_again(members)
            assert [member.lost for member in members] == [0, 0]
            write()
            rolled_back = at.migrate("rollback", group)
            assert rolled_back.status == 0
            (row,) = rolled_back.json["groups"]
            assert row["members"] or row["alarm"].startswith("2 members on the way: "), "nobody has left"
            write()
            wait_until(lambda: len(read()) >= written - 1)
            wait_until(lambda: at.status(group)["members"] == 2)
            assert at.status(group)["offsets_storage"] == "upstream"
        finally:
            for member in members:
                member.stop()
        assert len(read()) == written - 1
        # The cluster's coordinator does not know them: cooperative members have lost what they held.
        assert len(read_again(members)) <= sum(member.not_committed for member in members), read_again(members)
        assert strategy != "range" or sum(member.lost + member.not_committed for member in members) == 0
        found = committed_all(broker, group, topic, 4)
    acknowledged = [max(member.acknowledged.get(number, 0) for member in members) for number in range(4)]
    assert all(its >= known for its, known in zip(found, acknowledged, strict=True)), (found, acknowledged)
    # The last one of a partition may be among those that were told of a rebalance.
    assert written - sum(member.not_committed for member in members) <= sum(found) <= written, found


def committed_all(broker: Broker, group: str, topic: str, partitions: int) -> list[int]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    try:
        found = consumer.committed([TopicPartition(topic, number) for number in range(partitions)], TIMEOUT_S)
    finally:
        consumer.close()
    return [each.offset for each in found]


def test_a_group_with_a_member_past_the_shim_stays_where_it_is(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, fresh_name: Callable[[], str]
) -> None:
    topic, group = make_topic(2), fresh_name()
    direct = Member(broker.bootstrap_servers, group, topic, **{"client.id": "stranger"})
    try:
        wait_until(lambda: direct.assigned > 0)
        with administered(broker, tmp_path / "data") as at:
            here = Member(at.shim.bootstrap, group, topic)
            try:
                wait_until(lambda: here.assigned > 0 and direct.assigned > 1)
                refused = at.migrate("start", group)
                assert refused.status == 1
                assert "1 of its members do not come through this shim: stranger at" in refused.stdout + refused.stderr
                assert at.status(group)["offsets_storage"] == "upstream"
                produce(broker.bootstrap_servers, topic, *(b"%d" % number for number in range(50)))
                wait_until(lambda: len({*here.values, *direct.values}) == 50)
                # And the other way round: the shim serves, and somebody joins at the cluster.
                direct.stop()
                wait_until(lambda: at.migrate("start", group).status == 0)
                other = Member(broker.bootstrap_servers, group, topic)
                try:
                    wait_until(lambda: other.assigned > 0)
                    refused = at.migrate("rollback", group)
                    assert refused.status == 1
                    assert "has 1 member in the cluster, past the shim" in refused.stdout + refused.stderr
                finally:
                    other.stop()
            finally:
                here.stop()
    finally:
        direct.stop()


def test_a_member_that_does_not_come_keeps_the_group_where_it_is(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, fresh_name: Callable[[], str]
) -> None:
    topic, group = make_topic(2), fresh_name()
    produce(broker.bootstrap_servers, topic, b"0")
    assert consumed(broker.bootstrap_servers, group, topic, 1) == [b"0"]
    with administered(broker, tmp_path / "data", **{"group.handover.timeout.ms": 2_000}) as at:
        # It is told at its next heartbeat, which comes late.
        late: dict[str, str | int] = {
            "client.id": "late",
            "heartbeat.interval.ms": 60_000,
            "session.timeout.ms": 120_000,
        }
        slow = Member(at.shim.bootstrap, group, topic, **late)
        try:
            wait_until(lambda: slow.assigned > 0 and at.status(group)["members"] == 1)
            wait_until(lambda: at.migrate("plan", group).json["groups"][0]["members_here"] == 1)
            with ThreadPoolExecutor(1) as beside:
                starting = beside.submit(in_a_process, "migrate", "start", group, "--json", "--admin", at.address)
                awaited = "it changes hands as soon as these have joined again: late at /127.0.0.1"
                wait_until(lambda: at.status(group)["alarm"] == awaited)
                refused = starting.result()
            assert refused.status == 1
            assert at.status(group)["alarm"] == ""
            why = f"group {group}: not all of its members were there within 2 s: late at /127.0.0.1 missing"
            assert why in refused.stdout + refused.stderr
            assert f"WARNING {why}: given up, it stays where it is" in at.shim.log()
            produce(broker.bootstrap_servers, topic, b"1", b"2")
            wait_until(lambda: len(slow.values) == 2)
            assert at.status(group)["offsets_storage"] == "upstream"
            assert group in groups_at(broker.bootstrap_servers)
        finally:
            slow.stop()


def test_all_that_are_to_be_taken_over_at_once(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, fresh_name: Callable[[], str]
) -> None:
    topic, prefix = make_topic(), fresh_name()
    groups = [f"{prefix}-{number}" for number in range(20)]
    for number, group in enumerate(groups):
        commit(broker.bootstrap_servers, group, topic, number)
    with administered(broker, tmp_path / "data") as at:
        for group in groups:
            commit_through = committed(at.shim.bootstrap, group, topic)
            assert commit_through == groups.index(group)
        done = at.migrate("start", *groups)
        assert done.status == 0, done.stderr
        assert {each["offsets_storage"] for each in done.json["groups"]} == {"kafka"}
        for number, group in enumerate(groups):
            assert committed(at.shim.bootstrap, group, topic) == number


def test_of_a_group_that_nobody_has_it_is_said_who_was_asked(
    broker: Broker, tmp_path: Path, fresh_name: Callable[[], str]
) -> None:
    group = fresh_name()
    nobody = f"the cluster has no offsets or members of a group {group}, and this shim runs without a ZooKeeper"
    with administered(broker, tmp_path / "data") as at:
        for move in ("plan", "start"):
            (found,) = at.migrate(move, group).json["not_done"]
            assert found["error"] == nobody
        told = offset_shim("groups", "delete", group, "--yes", "--admin", at.address)
        assert (told.status, nobody in told.stderr) == (1, True)
