"""Groups of the consumer protocol (KIP-848): they are the cluster's, and their members go through the shim to it."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient

from protocol.errors import ErrorCode
from protocol.messages import consumer_group_heartbeat
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from shim.demo.parts import Broker, free_port
from tests.admin.live.running import offset_shim
from tests.conftest import TopicFactory
from tests.java_tools import console_consumer
from tests.migration.consumer_members import Member, until
from tests.migration.modern_clients import values, write
from tests.migration.test_changing_hands import Administered, administered
from tests.migration.test_first_contact import commit, committed
from tests.shim_process import Shim
from tests.waiting import wait_until
from tests.wire import WireClient


@pytest.fixture
def group(broker: Broker, fresh_name: Callable[[], str]) -> Iterator[str]:
    """It is gone in the end: a plan of all has a hindrance for it, in other tests, too."""
    name = fresh_name()
    yield name
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    if name in {each.group_id for each in admin.list_consumer_groups().result(30).valid}:
        admin.delete_consumer_groups([name])[name].result(30)


def came(at: str, group: str, topic: str, protocol: str) -> None:
    """Its one member came, committed 7, and has left."""
    assigned: list[TopicPartition] = []
    consumer = Consumer(
        {"bootstrap.servers": at, "group.id": group, "group.protocol": protocol, "enable.auto.commit": "false"}
    )
    try:
        consumer.subscribe([topic], on_assign=lambda _, partitions: assigned.extend(partitions))
        while not assigned:
            consumer.poll(0.1)
        consumer.commit(offsets=[TopicPartition(topic, 0, 7)], asynchronous=False)
    finally:
        consumer.close()


def share_both(*members: Member) -> None:
    """Wait until the two partitions are assigned, all of them to somebody."""
    until(lambda: all(shares := [each.assigned for each in members]) and sum(map(len, shares)) == 2)


def test_a_new_one_goes_through_to_the_cluster(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str
) -> None:
    """With two members that share it; one has come before the shim is killed, and goes on behind that."""
    topic = make_topic(partitions=2)
    with (
        administered(broker, tmp_path / "data") as at,
        closing(Member({"bootstrap.servers": at.shim.bootstrap}, group, topic)) as first,
    ):
        share_both(first)
        (planned,) = at.migrate("plan", group).json["groups"]
        assert (planned["members"], planned["members_here"]) == (1, 1)
        told = at.status(group)
        assert (told["offsets_storage"], told["state"], told["type"], told["members"]) == (
            ("upstream", "Stable", "Consumer", 1)
        )
        assert told["cause"] == "its clients have the consumer protocol (KIP-848), which the cluster serves"
        described = offset_shim("groups", "describe", group, "--json", "--admin", at.address).json
        (member,) = described["member_details"]
        assert member["partitions"] == [{"topic": topic, "partition": number} for number in range(2)]
        first.commit(topic, 3)
        at.shim.kill()
        at.shim.restart()
        with closing(Member({"bootstrap.servers": at.shim.bootstrap}, group, topic)) as second:
            share_both(first, second)
            first.commit(topic, 5)
            second.commit(topic, 5)
        assert not first.errors + second.errors
        # One of the classic protocol joins them, as brokers let it: there are never two coordinators.
        with closing(Member({"bootstrap.servers": at.shim.bootstrap}, group, topic, "classic")) as classic:
            share_both(first, classic)
        for asked in (at.shim.bootstrap, broker.bootstrap_servers):
            assert committed(asked, group, topic) == 5
        assert at.status(group)["offsets_storage"] == "upstream"


def test_offsets_of_one_with_members_are_reset_when_these_have_left(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str
) -> None:
    """Until then it is told when they were heard of last, and how long they stay where they are dead."""
    topic = make_topic()
    with administered(broker, tmp_path / "data") as at:
        reset = ("groups", "reset", group, "--to-earliest", "--topic", topic, "--admin", at.address)
        write(at.shim.bootstrap, topic, 0, range(5))
        with closing(Member({"bootstrap.servers": at.shim.bootstrap}, group, topic)) as member:
            until(lambda: bool(member.assigned))
            member.commit(topic, 3)
            refused = offset_shim(*reset, "--yes")
            assert refused.status == 1
            assert re.search(
                r"it has 1 member \(it is Stable\): rdkafka at /127\.0\.0\.1 \(last heard of \d+ s ago\)\. Stop them "
                r"first; one that is dead is gone 45 s after it was last heard of, unless the brokers' "
                r"group\.consumer\.session\.timeout\.ms says otherwise",
                refused.stderr,
            ), refused
        assert offset_shim(*reset, "--yes").status == 0
        assert committed(broker.bootstrap_servers, group, topic) == 0
        assert at.status(group)["type"] == "Consumer"


def test_javas_goes_through_too(broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str) -> None:
    topic = make_topic()
    by_protocol = {"group.protocol": "consumer"}
    with administered(broker, tmp_path / "data") as at:
        write(at.shim.bootstrap, topic, 0, range(5))
        read = console_consumer(at.shim.bootstrap, topic, max_messages=5, group=group, properties=by_protocol)
        assert read == values(range(5))
        assert committed(broker.bootstrap_servers, group, topic) == 5
        assert at.status(group)["type"] == "Consumer"


def test_one_that_is_served_is_refused_until_it_is_given_back(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str
) -> None:
    topic = make_topic()
    with administered(broker, tmp_path / "data") as at:
        came(at.shim.bootstrap, group, topic, "classic")
        with closing(Member({"bootstrap.servers": at.shim.bootstrap}, group, topic)) as member:
            until(lambda: bool(member.assigned or member.errors))
            (error,) = member.errors
            assert error.code() == KafkaError._FATAL
            assert "The group id does not exist" in error.str()
        # What librdkafka does not show of the answer stands in the log.
        (warned,) = (line for line in at.shim.log().splitlines() if f" WARNING group {group}: " in line)
        assert "comes with the consumer protocol (KIP-848), and is refused" in warned
        assert warned.endswith(
            "use group.protocol=classic, or have it given back to the cluster (offset-shim migrate rollback, until it "
            "is upstream)"
        )

        (back,) = at.migrate("rollback", group, "--yes").json["groups"]
        assert back["offsets_storage"] == "upstream"
        with closing(Member({"bootstrap.servers": at.shim.bootstrap}, group, topic)) as member:
            until(lambda: bool(member.assigned or member.errors))
            assert not member.errors
            assert at.status(group)["type"] == "Consumer"
            assert committed(at.shim.bootstrap, group, topic) == 7


_HELD_UP: Final = """
import asyncio
import logging
from shim.migration.moving.locks import LockedGroup
from shim.net.session import ClientSession

ask, quiet, is_waited_for = ClientSession.ask, LockedGroup.quiet, asyncio.Event()

def held_up(self, frame, *, prompt=True):
    if b"joining-late" not in bytes(frame[:80]):
        return ask(self, frame, prompt=prompt)
    logging.getLogger("held_up").info("it is held up")

    async def later():
        await is_waited_for.wait()
        return await ask(self, frame, prompt=prompt)

    return later()

def looked_at(self):
    if not self._placement.idle.is_set():
        is_waited_for.set()
    return quiet(self)

ClientSession.ask, LockedGroup.quiet = held_up, looked_at
"""


def test_a_heartbeat_on_its_way_is_waited_for_when_a_group_is_taken_over(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str
) -> None:
    """With it the cluster gives partitions, while the shim would have the group by then."""
    topic, admin = make_topic(), f"127.0.0.1:{free_port()}"
    commit(broker.bootstrap_servers, group, topic, 5)
    args = ["--admin", admin]
    with Shim(broker.bootstrap_servers, tmp_path / "data", args=args, late_patch=_HELD_UP, passes_groups=True) as shim:
        at = Administered(shim, admin)
        commit(shim.bootstrap, group, topic, 5)
        with WireClient(shim.broker_port(broker.node_id), client_id="joining-late") as client:
            joining = ConsumerGroupHeartbeatRequest(
                *(group, str(uuid.uuid4()), 0, None, None, 60_000, (topic,)), topic_partitions=()
            )
            client.send(consumer_group_heartbeat.API, 1, joining)
            wait_until(lambda: "it is held up" in shim.log())
            (refused,) = at.migrate("start", group, "--yes").json["not_done"]
            _, joined = client.receive(consumer_group_heartbeat.API, 1)
            told = at.status(group)
            client.ask(consumer_group_heartbeat.API, 1, joining._replace(member_epoch=-1))
        assert joined.error_code == ErrorCode.NONE
        assert "the consumer protocol (KIP-848)" in refused["error"]
        assert (told["offsets_storage"], told["type"]) == ("upstream", "Consumer")


def test_one_that_is_empty_stays_until_its_clients_have_changed(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str
) -> None:
    topic = make_topic()
    came(broker.bootstrap_servers, group, topic, "consumer")
    with administered(broker, tmp_path / "data") as at:
        (planned,) = (each for each in at.migrate("plan").json["groups"] if each["group"] == group)
        assert (planned["state"], planned["offsets"]) == ("Empty", 1)
        assert "group.protocol=classic" in planned["hindrance"]
        (refused,) = at.migrate("start", group, "--yes").json["not_done"]
        assert refused["error"] == f"group {group}: {planned['hindrance']}"
        (told,) = (each for each in at.migrate("status").json["groups"] if each["group"] == group)
        assert (told["offsets_storage"], told["state"], told["type"]) == ("upstream", "Empty", "Consumer")
        described = offset_shim("groups", "describe", group, "--admin", at.address).stdout
        assert "state: Empty, Consumer, 0 members" in described
        assert committed(at.shim.bootstrap, group, topic) == 7

        came(at.shim.bootstrap, group, topic, "classic")
        (planned,) = at.migrate("plan", group).json["groups"]
        assert (planned["state"], planned["hindrance"]) == ("Empty", "")
        (started,) = at.migrate("start", group, "--yes").json["groups"]
        assert (started["offsets_storage"], started["type"]) == ("kafka", "Classic")
        assert committed(at.shim.bootstrap, group, topic) == 7


def test_a_start_of_all_leaves_it_alone(broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str) -> None:
    """Where it is not named that is no failure."""
    topic = make_topic()
    came(broker.bootstrap_servers, group, topic, "consumer")
    others = [f"{group}-{number}" for number in range(3)]
    for other in others:
        commit(broker.bootstrap_servers, other, topic, 5)
    with administered(broker, tmp_path / "data") as at:
        ours = ("--pattern", f"{group}*")
        plan = at.migrate("plan", *ours)
        assert (plan.status, [each["group"] for each in plan.json["groups"]]) == (0, [group, *others])
        (left,) = plan.json["left_alone"]
        assert left == {"group": group, "why": plan.json["groups"][0]["hindrance"]}
        assert "the consumer protocol (KIP-848)" in left["why"]
        started = at.migrate("start", *ours, "--yes")
        assert (started.status, [each["group"] for each in started.json["groups"]]) == (0, others)
        assert (started.json["not_done"], started.json["left_alone"]) == ([], [left])
        assert at.migrate("plan", group).status == 1
        named = at.migrate("start", group, "--yes")
        assert (named.status, [each["kind"] for each in named.json["not_done"]]) == (1, ["refused"])


def test_one_with_members_is_told_as_the_cluster_has_it(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str
) -> None:
    topic = make_topic()
    came(broker.bootstrap_servers, group, topic, "consumer")
    assigned: list[TopicPartition] = []
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": group, "group.protocol": "consumer"}
    consumer = Consumer(settings)
    try:
        consumer.subscribe([topic], on_assign=lambda _, partitions: assigned.extend(partitions))
        while not assigned:
            consumer.poll(0.1)
        with administered(broker, tmp_path / "data") as at:
            (planned,) = at.migrate("plan", group).json["groups"]
            assert "group.protocol=classic" in planned["hindrance"]
            (refused,) = at.migrate("start", group, "--yes").json["not_done"]
            assert refused["error"] == f"group {group}: {planned['hindrance']}"
            told = at.status(group)
            assert (told["state"], told["type"], told["members"]) == ("Stable", "Consumer", 1)
    finally:
        consumer.close()
