"""A topic of a group is deleted, or was long ago, while the group's offsets are in ZooKeeper, too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from shim.demo.parts import Broker, ZooKeeper
from tests.conftest import TopicFactory
from tests.hung import hung
from tests.migration.test_steps import connect, done, with_zookeeper
from tests.offsets.conftest import kazoo, put
from tests.waiting import wait_until

__all__ = ["connect"]

NONE = -1001
_QUICK = {"topology.refresh.interval.ms": 200}


def committed(bootstrap: str, group: str, topic: str) -> int | None:
    """None where nobody answers for now."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        (found,) = consumer.committed([TopicPartition(topic, 0)], 5.0)
    except KafkaException:
        return None
    finally:
        consumer.close()
    return found.offset


def test_nothing_else_of_the_group_is_changed(
    broker: Broker,
    zookeeper: ZooKeeper,
    connect: str,
    tmp_path: Path,
    make_topic: TopicFactory,
    fresh_name: Callable[[], str],
) -> None:
    """Not with a consumer in ZooKeeper, either, and ZooKeeper behind."""
    kept, deleted, group = make_topic(), make_topic(), fresh_name()
    with kazoo(connect, timeout=60) as others, with_zookeeper(broker, tmp_path / "data", connect, **_QUICK) as at:
        put(others, f"/consumers/{group}/offsets/{kept}/0", b"10")
        put(others, f"/consumers/{group}/offsets/{deleted}/0", b"77")
        for step in ("start", "advance"):
            done(at.migrate(step, group))
        others.create(f"/consumers/{group}/ids/old_1", b"{}", ephemeral=True, makepath=True)
        shim = at.shim.bootstrap
        assert (committed(shim, group, kept), committed(shim, group, deleted)) == (10, 77)
        consumer = Consumer({"bootstrap.servers": shim, "group.id": group})
        # Only a topic that the shim has seen can be gone: for a commit it looks, by itself it does from time to time.
        with pytest.raises(KafkaException, match="UNKNOWN_TOPIC_OR_PART"):
            consumer.commit(offsets=[TopicPartition(deleted, 9, 1)], asynchronous=False)
        with hung(zookeeper.pid):
            consumer.commit(offsets=[TopicPartition(kept, 0, 500)], asynchronous=False)
            admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})  # its requests end with it
            admin.delete_topics([deleted])[deleted].result(30)
            wait_until(lambda: committed(shim, group, deleted) == NONE, "its offset has not gone")
        consumer.close()
        wait_until(
            lambda: others.get(f"/consumers/{group}/offsets/{kept}/0")[0] == b"500", "the commit has not arrived"
        )
        assert committed(shim, group, kept) == 500
        wait_until(lambda: not others.exists(f"/consumers/{group}/offsets/{deleted}/0"), "it is still in ZooKeeper")
        make_topic(1, name=deleted)
        assert committed(shim, group, deleted) == NONE


def test_offsets_of_one_that_was_deleted_long_ago_keep_nobody(
    broker: Broker, connect: str, tmp_path: Path, make_topic: TopicFactory, fresh_name: Callable[[], str]
) -> None:
    topic, group = make_topic(), fresh_name()
    with kazoo(connect) as others, with_zookeeper(broker, tmp_path / "data", connect) as at:
        put(others, f"/consumers/{group}/offsets/{topic}/0", b"10")
        put(others, f"/consumers/{group}/offsets/{fresh_name()}/0", b"77")
        for step in ("start", "advance", "advance", "advance"):
            done(at.migrate(step, group))
            done(at.migrate("verify", group))
        done(at.migrate("advance", group))
        assert committed(broker.bootstrap_servers, group, topic) == 10
