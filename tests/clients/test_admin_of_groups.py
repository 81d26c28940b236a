"""Deleting groups and offsets, and resetting them: the same commands through the shim and at the broker, side by side.

`kafka-consumer-groups` has to print the same, and end the same, whichever it talks to; the admin clients have to tell
the same. Each place has a group of the same name; neither knows the other's.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from protocol.messages.find_coordinator import API as FIND_COORDINATOR
from protocol.messages.find_coordinator import FindCoordinatorRequest
from shim.demo.parts import Broker, tools
from tests.clients.group_commands import Ended, GroupCommands
from tests.clients.group_view import GroupView
from tests.conftest import TopicFactory
from tests.shim_process import Shim
from tests.waiting import wait_until
from tests.wire import WireClient

_ADMIN = str(Path(__file__).with_name("AdminOfGroups.java"))
_TIMEOUT_S = 60.0
_PARTITIONS, _RECORDS = 2, 10
_HOUR_MS = 3_600_000
# READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS and ALTER_CONFIGS: all that there is for a group, where there are no ACLs.
_EVERY_OPERATION = {"READ", "DELETE", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"}


@pytest.fixture(autouse=True, scope="module")
def _coordinators_there(broker: Broker) -> None:
    """The broker makes its offsets topic when it is first asked for a coordinator; not every client waits for that."""
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=("any",))
    with WireClient(broker.port) as client:
        wait_until(lambda: not client.ask(FIND_COORDINATOR, 4, request).coordinators[0].error_code, "no coordinator")


@pytest.fixture
def topic_of_hours(make_topic: TopicFactory, broker: Broker) -> tuple[str, int]:
    """A topic whose partitions have ten records, one an hour, and the time of the first."""
    topic = make_topic(_PARTITIONS)
    first = time.time_ns() // 1_000_000 - _RECORDS * _HOUR_MS
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for partition in range(_PARTITIONS):
        for number in range(_RECORDS):
            producer.produce(topic, b"x", partition=partition, timestamp=first + number * _HOUR_MS)
    assert producer.flush(_TIMEOUT_S) == 0
    return topic, first


@contextmanager
def member(bootstrap: str, group: str, topic: str) -> Iterator[None]:
    """A member of the group, with all of the topic's partitions assigned."""
    settings = {"group.id": group, "client.id": "member", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
    assigned = threading.Event()
    consumer.subscribe([topic], on_assign=lambda *_: assigned.set())
    deadline = time.monotonic() + _TIMEOUT_S
    try:
        while not assigned.is_set():
            assert time.monotonic() < deadline, "no assignment"
            consumer.poll(0.1)
        yield
    finally:
        consumer.close()


def test_kafka_consumer_groups_does_the_same_as_at_a_broker(
    broker: Broker,
    shim: Shim,
    topic_of_hours: tuple[str, int],
    make_topic: TopicFactory,
    group: str,
    tmp_path: Path,
    group_commands: GroupCommands,
) -> None:
    topic, first = topic_of_hours
    other = make_topic(1)
    plan = tmp_path / "plan.csv"
    plan.write_text(f"{topic},0,4\n{topic},1,6\n")
    fifth = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime((first + 5 * _HOUR_MS) / 1000 + 1))
    of_group = ["--group", group]
    reset = [*of_group, "--reset-offsets", "--topic", topic]
    # What is done, and where the two partitions are to be led, None where that is nowhere. Each is tried dry first.
    resets: list[tuple[list[str], list[int] | None]] = [
        ([*reset, "--to-latest"], [10, 10]),
        ([*reset, "--to-earliest"], [0, 0]),
        ([*reset, "--to-offset", "7"], [7, 7]),
        ([*reset, "--to-offset", "1000"], [10, 10]),
        ([*reset, "--shift-by", "-3"], [7, 7]),
        ([*reset, "--shift-by", "-100"], [0, 0]),
        ([*reset, "--by-duration", "PT3H30M"], [7, 7]),
        ([*reset, "--to-datetime", fifth], [6, 6]),
        ([*of_group, "--reset-offsets", "--all-topics", "--shift-by", "2"], [8, 8]),
        ([*of_group, "--reset-offsets", "--topic", f"{topic}:1", "--to-offset", "3"], [3]),
        ([*of_group, "--reset-offsets", "--from-file", str(plan)], [4, 6]),
        ([*reset, "--to-current"], [4, 6]),
        ([*of_group, "--reset-offsets", "--topic", "no-such-topic", "--to-earliest"], None),
    ]
    commands = [["--describe", *of_group], ["--delete", *of_group], ["--delete-offsets", *of_group, "--topic", topic]]
    before = len(commands)
    for asked, _ in resets:
        commands += [[*asked, "--dry-run"], [*asked, "--execute"], ["--describe", *of_group]]
    behind = len(commands)
    commands += [
        [*reset, "--to-earliest", "--export", "--dry-run"],
        [*of_group, "--reset-offsets", "--all-topics", "--to-current", "--export", "--dry-run"],
        *(["--describe", *of_group, *what] for what in (["--offsets"], ["--members"], ["--members", "--verbose"])),
        *(["--describe", *of_group, *what] for what in (["--state"], ["--state", "--verbose"], ["--verbose"])),
        ["--delete-offsets", *of_group, "--topic", f"{topic}:1"],
        ["--describe", *of_group],
        ["--delete-offsets", *of_group, "--topic", f"{topic}:1"],
        ["--delete-offsets", *of_group, "--topic", topic, "--topic", other],
        ["--describe", *of_group],
        [*reset, "--to-latest", "--execute"],
        ["--delete", *of_group, "--group", f"{group}-unknown"],
        ["--delete", *of_group],
        ["--describe", *of_group],
    ]
    through_shim, at_broker = (group_commands.run_all(place.bootstrap, commands) for place in (shim, _At(broker)))
    for command, ours, theirs in zip(commands, through_shim, at_broker, strict=True):
        assert ours == theirs, command

    # That what both of them do is what was asked for.
    for (asked, expected), at in zip(resets, range(before, behind, 3), strict=True):
        dry, done, described = through_shim[at : at + 3]
        assert dry == done, asked
        if expected is None:
            continue
        assert [int(row[3]) for row in sorted(done.rows(group))] == expected, asked
        current = [int(row[3]) for row in sorted(described.rows(group))]
        assert (current if len(expected) == 2 else current[1:]) == expected, asked
    left = through_shim[behind:]
    assert sorted(line for line in left[0].lines if topic in line) == [f'"{topic}",0,0', f'"{topic}",1,0']
    one_deleted, none_left = (ended.rows(group) for ended in (left[9], left[12]))
    assert [row[2] for row in one_deleted] == ["0"]
    assert none_left == []
    one_of_two, gone, not_found = left[-3:]
    assert [line for line in one_of_two.lines if line.endswith(f"successfully: '{group}'")]
    assert all(
        any("GroupIdNotFoundException" in line for line in ended.lines) for ended in (one_of_two, gone, not_found)
    )
    assert not GroupView(shim.bootstrap, group).listed()


def test_kafka_consumer_groups_with_members(
    broker: Broker,
    shim: Shim,
    topic_of_hours: tuple[str, int],
    make_topic: TopicFactory,
    group: str,
    group_commands: GroupCommands,
) -> None:
    topic, _ = topic_of_hours
    other = make_topic(1)
    of_group = ["--group", group]
    before = [[*of_group, "--reset-offsets", "--topic", name, "--to-earliest", "--execute"] for name in (topic, other)]
    commands = [
        ["--delete", *of_group],
        ["--delete-offsets", *of_group, "--topic", topic, "--topic", other],
        [*of_group, "--reset-offsets", "--topic", topic, "--to-latest", "--execute"],
        [*of_group, "--reset-offsets", "--topic", topic, "--to-latest", "--dry-run"],
        ["--describe", *of_group],
        *(["--describe", *of_group, *what] for what in (["--members"], ["--members", "--verbose"], ["--state"])),
        ["--describe", *of_group, "--verbose"],
    ]
    lists = [
        ["--list"],
        *(["--list", "--state", *states] for states in ([], ["stable"], ["Empty"], ["Dead,PreparingRebalance"])),
        *(["--list", "--type", *types] for types in ([], ["classic"], ["consumer"], ["Classic,Consumer"])),
        ["--list", "--type", "classic", "--state", "Stable"],
    ]
    told = []
    for place in (shim, _At(broker)):
        group_commands.run_all(place.bootstrap, before)
        with member(place.bootstrap, group, topic):
            ended = group_commands.run_all(place.bootstrap, commands + lists)
        # There may be groups of other tests at the one, and not at the other.
        told.append(
            ended[: len(commands)]
            + [Ended(status, [line for line in lines if group in line]) for status, lines in ended[len(commands) :]]
        )
    for command, ours, theirs in zip(commands + lists, *told, strict=True):
        assert ours == theirs, command
    deleted, offsets_deleted, was_reset, *_ = told[0]
    assert any("GroupNotEmptyException" in line for line in deleted.lines)
    assert any("GroupSubscribedToTopicException" in line for line in offsets_deleted.lines)
    assert any("current state is Stable" in line for line in was_reset.lines)
    assert GroupView(shim.bootstrap, group).committed().keys() >= {0, 1}
    listed = [bool(ended.lines) for ended in told[0][len(commands) :]]
    assert listed == [True, True, True, False, False, True, True, False, True, True]


class _At(NamedTuple):
    broker: Broker

    @property
    def bootstrap(self) -> str:
        return self.broker.bootstrap_servers


def test_the_admin_client_of_confluent_kafka(
    broker: Broker, shim: Shim, topic_of_hours: tuple[str, int], group: str
) -> None:
    topic, _ = topic_of_hours
    told = []
    for place in (_At(broker), shim):
        admin = AdminClient({"bootstrap.servers": place.bootstrap})
        said: list[Any] = []

        def offsets(admin: AdminClient = admin) -> list[tuple[int, int]]:
            asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
            return sorted((p.partition, p.offset) for p in asked[group].result(_TIMEOUT_S).topic_partitions)

        def delete(name: str, admin: AdminClient = admin) -> str:
            try:
                admin.delete_consumer_groups([name])[name].result(_TIMEOUT_S)
            except KafkaException as error:
                return str(error.args[0].name())
            return "deleted"

        def alter(offset: int, admin: AdminClient = admin) -> list[str | None]:
            partitions = [TopicPartition(topic, partition, offset) for partition in range(_PARTITIONS)]
            asked = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, partitions)])
            try:
                altered = asked[group].result(_TIMEOUT_S).topic_partitions
            except KafkaException as error:
                return [str(error.args[0].name())]
            return [p.error.name() if p.error is not None else None for p in altered]

        said += [delete(group), alter(3), offsets()]
        with member(place.bootstrap, group, topic):
            said += [delete(group), alter(4), offsets()]
            described = admin.describe_consumer_groups([group], include_authorized_operations=True)[group]
            said.append({operation.name for operation in described.result(_TIMEOUT_S).authorized_operations})
        said += [alter(5), offsets(), delete(group), delete(group), offsets()]
        told.append(said)
    assert told[0] == told[1]
    assert told[0] == [
        *("GROUP_ID_NOT_FOUND", [None, None], [(0, 3), (1, 3)]),
        *("NON_EMPTY_GROUP", told[0][4], [(0, 3), (1, 3)]),
        _EVERY_OPERATION,
        *([None, None], [(0, 5), (1, 5)], "deleted", "GROUP_ID_NOT_FOUND", []),
    ]
    assert set(told[0][4]) <= {"UNKNOWN_MEMBER_ID", "_FAIL"}


def test_the_admin_client_of_kafka_python(
    broker: Broker, shim: Shim, topic_of_hours: tuple[str, int], group: str
) -> None:
    topic, _ = topic_of_hours

    def told(when: str, bootstrap: str) -> list[Any]:
        # A process of its own: its connections outlive its `close` otherwise.
        command = [sys.executable, "-m", "tests.clients.kafka_python_admin", when, bootstrap, group, topic]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert ended.returncode == 0, ended.stderr
        answer: list[Any] = json.loads(ended.stdout)
        return answer

    everything = []
    for place in (_At(broker), shim):
        said = told("alone", place.bootstrap)
        with member(place.bootstrap, group, topic):
            said += told("beside", place.bootstrap)
        everything.append([*said, *told("after", place.bootstrap)])
    assert everything[0] == everything[1]
    assert everything[0] == [
        *(["NoError"], [[0, 3], [1, 3]], [[0, 10, "NoError"], [1, 0, "NoError"]], [[0, 10], [1, 10]]),
        *([["", "Empty", "classic"]] * 3, ["NoError"], [[0, 10]]),
        *(["GroupSubscribedToTopicError"], {group: "NonEmptyGroupError"}, "Stable", sorted(_EVERY_OPERATION)),
        *([["consumer", "Stable", "classic"]] * 3, ["UnknownMemberIdError"], ["UnknownMemberIdError"]),
        *({group: "OK", f"{group}-unknown": "GroupIdNotFoundError"}, []),
    ]


def test_the_admin_client_of_kafka(broker: Broker, shim: Shim, topic_of_hours: tuple[str, int], group: str) -> None:
    topic, _ = topic_of_hours
    at_broker, at_shim = (
        tools.java_tool(_ADMIN, place.bootstrap, group, topic).stdout.splitlines() for place in (_At(broker), shim)
    )
    assert at_shim == at_broker
    # That it is what was asked for, and not the same failure at both.
    told = [line.split(": ") for line in at_shim]
    assert [came[-1] for what, *came in told if what == "offsets"] == [
        *("[0=3/Optional[0]/why, 1=4/Optional.empty/]", "[0=3/Optional[0]/why]"),
        *("[0=7/Optional[0]/why, 1=8/Optional.empty/]", "[]"),
    ]
    assert [came[0] for what, *came in told if what == "beside members"] == [
        *("offsets", "listed", "described", "described as classic", "alter", "delete offsets", "delete"),
    ]
    beside = dict(came for what, *came in told if what == "beside members")
    assert beside["offsets"] == "1"
    assert beside["described"].startswith("[Stable, Classic, false, range,")
    assert beside["described as classic"] == "[Stable, consumer, range, false, 2]"
    assert [beside[what] for what in ("alter", "delete offsets", "delete")] == [
        *("UnknownMemberIdException", "GroupSubscribedToTopicException", "GroupNotEmptyException"),
    ]
    rest = {what: came for what, *came in told}
    assert rest["remove a member that there is not"] == ["UnknownMemberIdException"]
    assert rest["delete, and one that there is not"] == ["[it null, the other GroupIdNotFoundException]"]
    assert rest["listed"] == ["[]"]
