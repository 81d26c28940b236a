"""The whole migration, as it is documented, under constant load: old consumers and modern ones, all steps and back."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from shim.counted import counted
from shim.demo.parts import Broker
from tests.legacy.parts import KAFKA_0_8, KAFKA_0_10, KAFKA_1
from tests.migration.load import Deliveries
from tests.migration.way import FORTH, Way, modern, on_its_way
from tests.migration.whole_places import WholePlace, at_kafka_3, at_kafka_4
from tests.waiting import wait_until

_STORAGES: Final = ("zookeeper", "kafka+dual", "kafka")
_SHORT: Final = [(KAFKA_0_8, "zookeeper"), (KAFKA_1, "kafka+dual")]
_ALL: Final = [(release, storage) for release in (KAFKA_0_8, KAFKA_0_10, KAFKA_1) for storage in _STORAGES]


def consumers_of_zookeeper(place: WholePlace, release: str, name: str, count: int) -> None:
    """They cannot go further than `kafka` with dual commit; modern ones take over there, and they again from these."""
    with on_its_way(place, name) as way:
        with way.old_consumers(release, "zookeeper", count):
            way.go("zookeeper+dual", "kafka+dual")
            refused = place.at.migrate("advance", way.group)
            assert refused.status == 1
            assert f"has {counted(count, 'consumer')} in ZooKeeper that" in refused.json["not_done"][0]["error"]
            way.go("zookeeper+dual", "zookeeper", "zookeeper+dual", "kafka+dual")
        with way.deliveries.during("old consumers → modern ones"), way.members() as members:
            before = [member.assigned for member in members]
            way.go("kafka", "upstream+dual")
            assert [member.assigned for member in members] == before, "a member was made to join again"
            without = rebalances_without_the_shim(way)
            way.change_hands("upstream", members)
            way.change_hands("upstream+dual", members)
            before = [member.assigned for member in members]
            way.go("kafka", "kafka+dual")
            assert [member.assigned for member in members] == before, "a member was made to join again"
        with way.deliveries.during("modern consumers → old ones"), way.old_consumers(release, "zookeeper", count):
            way.go("zookeeper+dual", "zookeeper")
            way.load.end()
            way.deliveries.catch_up(way.load)
        assert sum(place.offsets_in_zookeeper(way.group, way.topic).values()) == way.load.written
        changing_hands = ("upstream+dual → upstream", "upstream → upstream+dual")
        no_duplicates_but(way, *changing_hands)
        assert all(way.deliveries.duplicates[step] <= without for step in changing_hands), way.deliveries.report()


def consumers_of_kafka(place: WholePlace, release: str, storage: str, name: str, count: int) -> None:
    """One and the same goes all the way, and back."""
    with on_its_way(place, name) as way:
        with way.old_consumers(release, storage, count):
            way.go("zookeeper+dual", "kafka+dual")
            way.go(*FORTH[3:])
            way.go(*reversed(FORTH[:-1]))
            way.load.end()
            way.deliveries.catch_up(way.load)
        wait_until(
            lambda: sum(place.offsets_in_zookeeper(way.group, way.topic).values()) == way.load.written,
            "what was committed last is not in ZooKeeper",
        )
        no_duplicates_but(way)


def no_duplicates_but(way: Way, *steps: str) -> None:
    counted = {step: way.deliveries.duplicates[step] for step in way.steps if step not in steps}
    assert not any(counted.values()), way.deliveries.report()


def rebalances_without_the_shim(way: Way) -> int:
    """The most duplicates of one: of members of another group, at the brokers, to which one comes and goes."""
    deliveries, group, at = Deliveries(), f"{way.group}-direct", way.place.directly
    with modern(at, group, way.topic, 2, deliveries) as members, ExitStack() as third:
        deliveries.catch_up(way.load)
        with deliveries.during("one joins"):
            third.enter_context(modern(at, group, way.topic, 1, deliveries))
            deliveries.catch_up(way.load)
        with deliveries.during("one leaves"):
            before = [member.assigned for member in members]
            third.close()
            wait_until(
                lambda: all(now.assigned > then for now, then in zip(members, before, strict=True)), "no rebalance"
            )
            deliveries.catch_up(way.load)
    print(f"\nwithout the shim:\n{deliveries.report()}")
    return max(deliveries.duplicates.values())


def whole_way(place: WholePlace, release: str, storage: str, name: str, count: int) -> None:
    if storage == "zookeeper":
        consumers_of_zookeeper(place, release, name, count)
    else:
        consumers_of_kafka(place, release, storage, name, count)


@pytest.mark.parametrize(("release", "storage"), _SHORT)
def test_at_kafka_4(
    release: str, storage: str, broker: Broker, chroot: str, tmp_path: Path, fresh_name: Callable[[], str]
) -> None:
    with at_kafka_4(broker, chroot, tmp_path / "data") as place:
        whole_way(place, release, storage, fresh_name(), 1)


@pytest.mark.soak
@pytest.mark.parametrize(("release", "storage"), [each for each in _ALL if each not in _SHORT])
def test_all_others_at_kafka_4(
    release: str, storage: str, broker: Broker, chroot: str, tmp_path: Path, fresh_name: Callable[[], str]
) -> None:
    with at_kafka_4(broker, chroot, tmp_path / "data") as place:
        whole_way(place, release, storage, fresh_name(), 2)


@pytest.mark.soak
@pytest.mark.parametrize(("release", "storage"), _ALL)
def test_at_kafka_3(release: str, storage: str, tmp_path: Path, fresh_name: Callable[[], str]) -> None:
    with at_kafka_3(tmp_path) as place:
        whole_way(place, release, storage, fresh_name(), 2)
