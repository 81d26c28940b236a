"""The main job with every client: produce, share a topic in a group, leave, come back at the committed offset."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

import pytest

from shim.demo.parts import Broker
from tests.clients.client_table import CLIENTS, CONFLUENT_KAFKA, Client
from tests.clients.group_view import GroupView, generations
from tests.clients.programs import Program, Programs
from tests.conftest import TopicFactory
from tests.shim_process import Shim

_PARTITIONS = 4
_RECORDS, _MORE = 10_000, 1_000
_LEAVES_AFTER = 200  # records that each of the two members has read
_INITIAL_REBALANCE_DELAY_MS = 3_000  # Kafka's default


@pytest.mark.parametrize("client", CLIENTS, ids=[client.name for client in CLIENTS])
def test_share_leave_and_come_back(
    client: Client, broker: Broker, shim: Shim, programs: Programs, make_topic: TopicFactory, group: str
) -> None:
    share_leave_and_come_back(client, broker, shim, programs, make_topic(_PARTITIONS), group)


def test_with_the_initial_rebalance_delay_of_kafka(
    broker: Broker, tmp_path: Path, programs: Programs, make_topic: TopicFactory, group: str
) -> None:
    topic = make_topic(_PARTITIONS)
    settings: dict[str, str | int] = {
        "group.initial.rebalance.delay.ms": _INITIAL_REBALANCE_DELAY_MS,
        "offsets.mirror.upstream": "false",
    }
    with Shim(broker.bootstrap_servers, tmp_path / "data", settings=settings) as shim:
        share_leave_and_come_back(CONFLUENT_KAFKA, broker, shim, programs, topic, group)
        created, first, *_ = generations(shim.segments(broker), group)
    assert (created.number, first.number) == (0, 1)
    assert first.timestamp - created.timestamp >= _INITIAL_REBALANCE_DELAY_MS


def share_leave_and_come_back(
    client: Client, broker: Broker, shim: Shim, programs: Programs, topic: str, group: str
) -> None:
    broker_port = shim.broker_port(broker.node_id)
    at_shim, at_broker = GroupView(shim.bootstrap, group), GroupView(broker.bootstrap_servers, group)

    def start_member(name: str) -> Program:
        return programs.start(f"{client.name}-{name}", client.consume(shim.bootstrap, topic, group))

    def start_producer() -> Program:
        return programs.start(f"{client.name}-producer", client.produce(shim.bootstrap, topic))

    def wait_seen_connected(program: Program) -> None:
        programs.wait("a look at its connection to the broker's port", lambda: broker_port in program.remote_ports)

    def finish_producing(producer: Program) -> None:
        wait_seen_connected(producer)
        producer.end_input()
        assert programs.wait_end(producer) == 0, producer.report()

    def leave(member: Program) -> None:
        wait_seen_connected(member)
        member.terminate()
        assert programs.wait_end(member) == client.left, member.report()

    # Two members share the topic.
    first, second = start_member("first"), start_member("second")
    programs.wait("two members, two partitions each", lambda: at_shim.shared_by(2, _PARTITIONS))
    shares = at_shim.assigned().members
    producer = start_producer()
    numbers = range(_RECORDS)
    producer.write(_lines(numbers[: _RECORDS // 2]))
    programs.wait("both members read", lambda: min(len(first.records), len(second.records)) >= _LEAVES_AFTER)
    of_first, of_second = first.partitions, second.partitions
    assert any(of_first <= one and of_second <= other for one, other in (shares, shares[::-1]))

    # One leaves while records go on coming; the other takes its partitions over.
    wait_seen_connected(first)
    first.terminate()
    producer.write(_lines(numbers[_RECORDS // 2 :]))
    finish_producing(producer)
    assert programs.wait_end(first) == client.left, first.report()
    programs.wait("one member, all partitions", lambda: at_shim.shared_by(1, _PARTITIONS))
    programs.wait("every record read", lambda: _all_read([first, second], _RECORDS))
    leave(second)
    assert second.partitions == set(range(_PARTITIONS))
    assert sorted({int(record.value) for record in first.records + second.records}) == list(numbers)

    # The shim has what was committed; the broker has never heard of the group.
    committed = at_shim.committed()
    assert committed == _offsets_after([first, second])
    assert sum(committed.values()) == _RECORDS
    assert at_shim.listed()
    assert not at_broker.listed()
    assert at_broker.committed() == {}

    # The group comes back, and goes on at exactly the committed offsets.
    producer = start_producer()
    more = range(_RECORDS, _RECORDS + _MORE)
    producer.write(_lines(more))
    finish_producing(producer)
    back = start_member("back")
    programs.wait("the new records read", lambda: _all_read([back], _MORE))
    leave(back)
    after = at_shim.committed()
    new = [(partition, offset) for partition in after for offset in range(committed[partition], after[partition])]
    assert sorted(record[:2] for record in back.records) == sorted(new)
    assert sorted(int(record.value) for record in back.records) == list(more)
    assert at_broker.committed() == {}

    # Each of these changes was a rebalance, to a generation of its own: two members, one, none, one again, none.
    written = generations(shim.segments(broker), group)
    numbered = [generation.number for generation in written]
    assert numbered == sorted(set(numbered))
    assert [members for members, _ in groupby(generation.members for generation in written)][-5:] == [2, 1, 0, 1, 0]

    # Nobody was ever connected to anything but the shim.
    for program in programs.all:
        assert program.remote_ports <= {shim.port, broker_port}, program.report()


def _lines(numbers: Iterable[int]) -> list[str]:
    return [f"key-{number}\t{number}" for number in numbers]


def _all_read(members: Sequence[Program], count: int) -> bool:
    """Whether the members have read `count` different records together."""
    if sum(len(member.records) for member in members) < count:
        return False  # it is asked at each record
    return len({record[:2] for member in members for record in member.records}) >= count


def _offsets_after(members: Sequence[Program]) -> dict[int, int]:
    """Of each partition, the offset after the last record read."""
    return dict(sorted((record.partition, record.offset + 1) for member in members for record in member.records))
