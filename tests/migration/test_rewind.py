"""Back to an earlier offset while a group's offsets are in two places: it stays there in both of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from shim.demo.parts import Broker
from tests.legacy.parts import KAFKA_1
from tests.migration.modern_clients import write
from tests.migration.old_consumer import OldConsumer
from tests.migration.whole_places import PARTITIONS, WholePlace, at_kafka_4
from tests.offsets.conftest import put
from tests.waiting import wait_until

_TIMEOUT_S = 30.0
_WRITTEN = 20
_COMMITTED = 15
_REWOUND = {0: 5, 1: 3, 2: 7}


@pytest.mark.parametrize("steps", [["start"], ["start", "advance"]], ids=["zookeeper+dual", "kafka+dual"])
def test_it_stays_one(
    steps: list[str], broker: Broker, chroot: str, tmp_path: Path, fresh_name: Callable[[], str]
) -> None:
    name = fresh_name()
    with at_kafka_4(broker, chroot, tmp_path / "data") as place:
        place.make_topic(name)
        for partition in range(PARTITIONS):
            write(place.at.shim.bootstrap, name, partition, range(_WRITTEN))
            _write_to_zookeeper(place, name, partition, _COMMITTED)
        for step in steps:
            assert place.at.migrate(step, name).status == 0
        _reset_by_a_tool(place, name, 0, _REWOUND[0])
        _write_to_zookeeper(place, name, 1, _REWOUND[1])
        _is_in_both(place, name, {0: _REWOUND[0], 1: _REWOUND[1], 2: _COMMITTED})
        place.at.shim.kill()
        _write_to_zookeeper(place, name, 2, _REWOUND[2])
        place.at.shim.start()
        _is_in_both(place, name, _REWOUND)
        assert _first_read_today(place, name) == _REWOUND
        if place.step(name) == "zookeeper+dual":
            return
        # It takes the higher one of the two places.
        with OldConsumer(KAFKA_1, place.zookeeper, name, name, "kafka+dual") as consumer:
            read = consumer.read(sum(_WRITTEN - offset for offset in _REWOUND.values()))
        first = {each.partition: each.offset for each in reversed(read)}
        assert first == _REWOUND
        _is_in_both(place, name, _REWOUND)


def _reset_by_a_tool(place: WholePlace, group: str, partition: int, offset: int) -> None:
    """As `kafka-consumer-groups --reset-offsets` does."""
    admin = AdminClient({"bootstrap.servers": place.at.shim.bootstrap})
    to = ConsumerGroupTopicPartitions(group, [TopicPartition(group, partition, offset)])
    result = admin.alter_consumer_group_offsets([to])[group].result(_TIMEOUT_S)
    assert [each.error for each in result.topic_partitions] == [None]


def _write_to_zookeeper(place: WholePlace, group: str, partition: int, offset: int) -> None:
    put(place.view.client, f"/consumers/{group}/offsets/{group}/{partition}", b"%d" % offset)


def _is_in_both(place: WholePlace, group: str, expected: dict[int, int]) -> None:
    wait_until(lambda: _in_log(place, group) == expected, f"the log has not {expected}")
    wait_until(lambda: place.offsets_in_zookeeper(group, group) == expected, f"ZooKeeper has not {expected}")
    verified = place.at.migrate("verify", group)
    assert verified.status == 0, verified
    assert _in_log(place, group) == place.offsets_in_zookeeper(group, group) == expected


def _in_log(place: WholePlace, group: str) -> dict[int, int]:
    return {partition: offset for (_, partition), offset in place.at.offsets(group).items()}


def _first_read_today(place: WholePlace, group: str) -> dict[int, int]:
    """By partition, the offset of the first record that a consumer of today is given, which commits nothing."""
    consumer = Consumer(
        {
            "bootstrap.servers": place.at.shim.bootstrap,
            "group.id": group,
            "auto.offset.reset": "error",
            "enable.auto.commit": "false",
        }
    )
    consumer.subscribe([group])
    first: dict[int, int] = {}
    try:
        while len(first) < PARTITIONS:
            message = consumer.poll(_TIMEOUT_S)
            assert message is not None, first
            assert message.error() is None
            first.setdefault(message.partition() or 0, message.offset() or 0)
    finally:
        consumer.close()
    return first
