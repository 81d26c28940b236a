"""High-level consumers of 0.8.2 to 1.1, told nothing but a ZooKeeper that has no brokers in it, at Kafka 4.3."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest

from shim.demo.parts import Broker, Cluster, ZooKeeper
from tests.conftest import TopicFactory
from tests.legacy.parts import KAFKA_0_8, KAFKA_0_10, KAFKA_1
from tests.migration.changing_topics import grow
from tests.migration.conftest import REFRESH_MS, Registering
from tests.migration.ensemble_view import EnsembleView, looking_at
from tests.migration.modern_clients import committed, values, write
from tests.migration.old_consumer import OldConsumer
from tests.shim_process import Shim
from tests.waiting import wait_until

WRITTEN = 20
FIRST = 12

RELEASES = (KAFKA_0_8, KAFKA_0_10, KAFKA_1)
# In the short form both of the places where offsets can be, and the first and the last of the releases.
_SHORT = [(KAFKA_0_8, "zookeeper"), (KAFKA_1, "kafka+dual")]
_REST = [each for each in ((r, s) for r in RELEASES for s in ("zookeeper", "kafka+dual")) if each not in _SHORT]


class Place(NamedTuple):
    """``bootstrap``: the shim; ``zookeeper``: where it registers the cluster."""

    bootstrap: str
    zookeeper: str
    view: EnsembleView


@pytest.fixture(scope="module")
def place(broker: Broker, zookeeper: ZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    connect = f"{zookeeper.connect_string}/old-consumers"
    with (
        Shim(
            broker.bootstrap_servers,
            tmp_path_factory.mktemp("registering") / "data",
            settings={"topology.refresh.interval.ms": REFRESH_MS},
            args=["--zookeeper", connect, "--registrar"],
        ) as shim,
        looking_at(connect) as view,
    ):
        yield Place(shim.bootstrap, connect, view)


@pytest.mark.parametrize(("release", "storage"), _SHORT)
def test_comes_back_to_where_it_was(
    release: str, storage: str, place: Place, make_topic: TopicFactory, group: str
) -> None:
    _comes_back(release, storage, place, make_topic(), group)


@pytest.mark.soak
@pytest.mark.parametrize(("release", "storage"), _REST)
def test_the_others_come_back_too(
    release: str, storage: str, place: Place, make_topic: TopicFactory, group: str
) -> None:
    _comes_back(release, storage, place, make_topic(), group)


def _comes_back(release: str, storage: str, place: Place, topic: str, group: str) -> None:
    wait_until(lambda: topic in place.view.topics(), "the topic is not registered")
    write(place.bootstrap, topic, 0, range(FIRST))
    with OldConsumer(release, place.zookeeper, topic, group, storage) as consumer:
        assert [each.value for each in consumer.read(FIRST)] == values(range(FIRST))
        consumer.commit()
    assert _in_zookeeper(place, group, topic) == FIRST
    assert committed(place.bootstrap, group, topic) == FIRST, "a client of today goes on elsewhere"
    write(place.bootstrap, topic, 0, range(FIRST, WRITTEN))
    with OldConsumer(release, place.zookeeper, topic, group, storage) as consumer:
        assert [each.value for each in consumer.read(WRITTEN - FIRST)] == values(range(FIRST, WRITTEN))
        consumer.commit()
    assert _in_zookeeper(place, group, topic) == WRITTEN


def test_two_of_different_releases_share_partitions(place: Place, make_topic: TopicFactory, group: str) -> None:
    topic = make_topic(2)
    with _two_that_share(place, topic, topic, group) as (one, two):
        assert one.records[-1].partition != two.records[-1].partition


@pytest.mark.soak
def test_they_share_what_grows_and_what_is_made_later(place: Place, make_topic: TopicFactory, group: str) -> None:
    topic = make_topic(2)
    with _two_that_share(place, topic, f"{topic}.*", group) as (one, two):
        one.commit()
        two.commit()
        grow(place.bootstrap, topic, 4)
        wait_until(lambda: _shares(place, group, topic) == [2, 2], "they do not share the new partitions")
        for partition in range(4):  # of which each has two
            write(place.bootstrap, topic, partition, range(20, 21))
        assert {each.partition for each in (*one.read(2), *two.read(2))} == {0, 1, 2, 3}
        one.commit()
        two.commit()

        later = make_topic(2, name=f"{topic}-later")
        wait_until(lambda: _shares(place, group, later) == [1, 1], "they do not share the topic that was made later")
        for partition in (0, 1):
            write(place.bootstrap, later, partition, range(1))
        assert {one.read(1)[0].topic, two.read(1)[0].topic} == {later}
        one.commit()
        two.commit()
    partitions = [(each.topic, each.partition, each.offset) for each in (*one.records, *two.records)]
    assert len(partitions) == len(set(partitions)), "a record was read twice"


@pytest.mark.soak
@pytest.mark.parametrize("release", RELEASES)
def test_a_broker_is_stopped_and_started_under_a_consumer(
    release: str, cluster: Cluster, chroot: str, registering: Registering, make_topic: TopicFactory, group: str
) -> None:
    topic = make_topic(3, on=cluster)
    stopped = cluster.brokers[2]
    with registering(cluster, chroot) as shim, looking_at(chroot) as view:
        with OldConsumer(release, chroot, topic, group, "zookeeper") as consumer:
            for partition in range(3):
                write(shim.bootstrap, topic, partition, range(2))
            consumer.read(6)
            stopped.stop()
            wait_until(lambda: stopped.node_id not in view.ids(), "a broker that is down is registered")
            for partition in range(3):
                write(shim.bootstrap, topic, partition, range(2, 4))
            consumer.read(6)
            stopped.start()
            wait_until(lambda: stopped.node_id in view.ids(), "a broker that has come back is not registered")
            cluster.brokers[0].restart()  # so that the one that has come back leads
            for partition in range(3):
                write(shim.bootstrap, topic, partition, range(4, 6))
            consumer.read(6)
            consumer.commit()
        assert sorted(view.values(f"/consumers/{group}/offsets/{topic}").values()) == [b"6"] * 3
        read = [(each.partition, each.value) for each in consumer.records]
        assert sorted(read) == [(partition, value) for partition in range(3) for value in values(range(6))]


@contextmanager
def _two_that_share(place: Place, topic: str, topics: str, group: str) -> Iterator[tuple[OldConsumer, OldConsumer]]:
    """Each has a partition of the topic, and has read three records of it, the first one two more."""
    wait_until(lambda: topic in place.view.topics(), "the topic is not registered")
    with OldConsumer(KAFKA_0_8, place.zookeeper, topics, group, "zookeeper") as one:
        write(place.bootstrap, topic, 0, range(2))
        one.read(2)
        one.commit()
        with OldConsumer(KAFKA_0_10, place.zookeeper, topics, group, "zookeeper") as two:
            wait_until(lambda: _shares(place, group, topic) == [1, 1], "they do not share the partitions")
            for partition in (0, 1):
                write(place.bootstrap, topic, partition, range(10, 13))
            assert [each.value for each in one.read(3)] == [each.value for each in two.read(3)] == values(range(10, 13))
            yield one, two


def _shares(place: Place, group: str, topic: str) -> list[int]:
    """How many partitions each member owns that owns any."""
    owners = list(place.view.values(f"/consumers/{group}/owners/{topic}").values())
    return sorted(owners.count(each) for each in set(owners))


def _in_zookeeper(place: Place, group: str, topic: str) -> int:
    return int(place.view.client.get(f"/consumers/{group}/offsets/{topic}/0")[0])
