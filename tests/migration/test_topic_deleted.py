"""A topic of a group is deleted, or was long ago, while the group's offsets are in ZooKeeper, too; or it is made anew
just before the group is moved."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from shim.demo.parts import Broker, ZooKeeper
from tests.conftest import TopicFactory
from tests.hung import hung
from tests.migration.test_changing_hands import administered
from tests.migration.test_steps import connect, done, with_zookeeper
from tests.offsets.conftest import kazoo, put
from tests.serve.test_topics import delete
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


_RARELY = {"topology.refresh.interval.ms": 600_000}
"""The shim does not look by itself."""


def _commit(bootstrap: str, group: str, *offsets: TopicPartition) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        consumer.commit(offsets=list(offsets), asynchronous=False)
    finally:
        consumer.close()


def test_what_was_committed_for_the_old_topic_is_not_given_back_to_the_cluster(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, fresh_name: Callable[[], str]
) -> None:
    """It would stay there: the shim has nothing to do with it any more."""
    kept, topic, group = make_topic(), make_topic(), fresh_name()
    brokers = broker.bootstrap_servers
    _commit(brokers, group, TopicPartition(topic, 0, 77), TopicPartition(kept, 0, 5))
    with administered(broker, tmp_path / "data", **_RARELY) as at:
        done(at.migrate("start", group))
        delete(broker, topic)
        make_topic(1, name=topic)
        done(at.migrate("rollback", group))
        assert (committed(brokers, group, topic), committed(brokers, group, kept)) == (NONE, 5)


def test_what_was_committed_for_the_new_topic_is_taken_over_and_stays(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, fresh_name: Callable[[], str]
) -> None:
    """Where the shim knows the old one, of another group, and not yet the new one."""
    topic, group, other = make_topic(), fresh_name(), fresh_name()
    brokers = broker.bootstrap_servers
    _commit(brokers, other, TopicPartition(topic, 0, 77))
    with administered(broker, tmp_path / "data", **_RARELY) as at:
        done(at.migrate("start", other))
        done(at.migrate("rollback", other))
        delete(broker, topic)
        make_topic(1, name=topic)
        _commit(brokers, group, TopicPartition(topic, 0, 3))
        done(at.migrate("start", group))
        done(at.migrate("rollback", group))
        assert committed(brokers, group, topic) == 3
