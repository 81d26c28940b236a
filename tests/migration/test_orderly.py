"""A shim that is stopped in good order leaves everything where others find it; one that is started wrongly does not
begin."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from shim.demo.parts import Broker, StartFailed, ZooKeeper
from tests.conftest import TopicFactory
from tests.migration.test_first_contact import committed
from tests.offsets.conftest import kazoo, put
from tests.shim_process import Shim


def test_what_is_committed_last_is_in_the_cluster_when_it_has_ended(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, fresh_name: Callable[[], str]
) -> None:
    topic, groups = make_topic(), [fresh_name() for _ in range(20)]
    with Shim(broker.bootstrap_servers, tmp_path / "data") as shim:
        consumers = [Consumer({"bootstrap.servers": shim.bootstrap, "group.id": each}) for each in groups]
        for offset in (1, 2):  # the second one right before the end
            for consumer in consumers:
                consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
        assert shim.stop() == 0
        for consumer in consumers:
            consumer.close()
        assert [committed(broker.bootstrap_servers, each, topic) for each in groups] == [2] * len(groups)


def test_another_chroot_than_before_is_a_mistake(
    broker: Broker, zookeeper: ZooKeeper, tmp_path: Path, make_topic: TopicFactory, fresh_name: Callable[[], str]
) -> None:
    """Where a group's offsets are not found they would be written anew."""
    topic, group, right, wrong = make_topic(), fresh_name(), fresh_name(), fresh_name()
    with kazoo(zookeeper.connect_string) as others:
        put(others, f"/{right}/consumers/{group}/offsets/{topic}/0", b"7")
        others.ensure_path(f"/{wrong}")
        at = zookeeper.connect_string
        with Shim(broker.bootstrap_servers, tmp_path / "data", args=["--zookeeper", f"{at}/{right}"]) as shim:
            assert committed(shim.bootstrap, group, topic) == 7
        wrongly = Shim(broker.bootstrap_servers, tmp_path / "data", args=["--zookeeper", f"{at}/{wrong}"])
        try:
            wrongly.start()
        except StartFailed:
            assert f"below /{right}, --zookeeper names /{wrong}" in wrongly.log()
        else:
            wrongly.stop()
            raise AssertionError("it has started")
        assert others.get_children(f"/{wrong}") == []
