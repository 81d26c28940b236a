"""A group on its way through all steps, with consumers that go on reading what is written all the time."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Final

from confluent_kafka import Consumer, Message, TopicPartition

from tests.migration.load import Deliveries, Load
from tests.migration.old_consumer import OldConsumer
from tests.migration.test_changing_hands import Member, position
from tests.migration.whole_places import PARTITIONS, WholePlace
from tests.offsets.conftest import put
from tests.waiting import wait_until

FORTH: Final = ("zookeeper", "zookeeper+dual", "kafka+dual", "kafka", "upstream+dual", "upstream")
_COMMITS_EVERY_MS: Final = 200
_NOT_KNOWN: Final = "of those with kafka it is known once they have committed"


class Counted(Member):
    """One whose values are counted among others'. ``held``: how many partitions it was given last."""

    def __init__(self, at: str, group: str, topic: str, deliveries: Deliveries) -> None:
        self._deliveries = deliveries
        self.held = 0
        super().__init__(at, group, topic)

    def took(self, message: Message) -> None:
        self._deliveries.take(message.value() or b"", position(message))

    def on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.held = len(partitions)
        super().on_assign(consumer, partitions)


@dataclasses.dataclass
class Way:
    """A group of a topic that is written to, on its way."""

    place: WholePlace
    topic: str
    group: str
    load: Load
    deliveries: Deliveries
    steps: list[str] = dataclasses.field(default_factory=list)
    """Those that it was moved by."""

    @contextmanager
    def old_consumers(self, release: str, storage: str, count: int) -> Iterator[None]:
        """All of which own partitions."""
        with ExitStack() as stack:
            for number in range(count):
                consumer = OldConsumer(
                    *(release, self.place.zookeeper, self.topic, self.group, storage),
                    commits_every_ms=_COMMITS_EVERY_MS,
                    on_record=lambda record: self.deliveries.take(record.value, (record.partition, record.offset)),
                )
                stack.enter_context(consumer)
                wait_until(partial(self._has_owners, number + 1), "they do not share the partitions")
            self.deliveries.catch_up(self.load)
            yield

    def _has_owners(self, count: int) -> bool:
        owners = self.place.view.values(f"/consumers/{self.group}/owners/{self.topic}")
        return len(owners) == PARTITIONS and len(set(owners.values())) == count

    @contextmanager
    def members(self, count: int = 2) -> Iterator[list[Counted]]:
        """Modern ones, all of which have partitions."""
        with modern(self.place.at.shim.bootstrap, self.group, self.topic, count, self.deliveries) as members:
            wait_until(lambda: self._has_settled(members, [0] * count), "they do not share the partitions")
            self.deliveries.catch_up(self.load)
            yield members

    def go(self, *steps: str) -> None:
        """Through these, one after the other."""
        for target in steps:
            now = self.place.step(self.group)
            move = "start" if now == "zookeeper" else "advance"
            if FORTH.index(target) < FORTH.index(now):
                move = "rollback"
            if now == "upstream":
                wait_until(self._is_here, "not all members are known to come through the shim")
            with self.deliveries.during(f"{now} → {target}"):
                done = self.place.at.migrate(move, self.group)
                if done.status and _NOT_KNOWN in done.stdout:  # it commits from time to time
                    wait_until(partial(self._goes, move), done.stdout)
                else:
                    assert done.status == 0, done.stdout + done.stderr
            assert self.place.step(self.group) == target
            self.steps.append(f"{now} → {target}")
            self.deliveries.catch_up(self.load)
            self._commits_go_on(target)
            self.verify(target)

    def _is_here(self) -> bool:
        (planned,) = self.place.at.migrate("plan", self.group).json["groups"]
        return bool(planned["members_here"] == planned["members"])

    def change_hands(self, target: str, members: list[Counted]) -> None:
        """There its members join again, all of them."""
        before = [member.assigned for member in members]
        self.go(target)
        wait_until(lambda: self._has_settled(members, before), f"the group has not come to rest at {target}")
        # In each partition what is delivered again comes before what is written from here on.
        self.deliveries.catch_up(self.load)

    def _has_settled(self, members: list[Counted], before: list[int]) -> bool:
        status = self.place.at.status(self.group)
        return (
            all(now.assigned > then for now, then in zip(members, before, strict=True))
            and all(member.held for member in members)
            and sum(member.held for member in members) == PARTITIONS
            and (status["state"], status["members"]) == ("Stable", len(members))
        )

    def _goes(self, move: str) -> bool:
        return self.place.at.migrate(move, self.group).status == 0

    def _commits_go_on(self, at: str) -> None:
        """All that has been written by now is delivered and committed at this place."""
        due = self.load.written
        wait_until(lambda: sum(self.place.at.offsets(self.group).values()) >= due, f"nothing is committed at {at}")

    def verify(self, at: str) -> None:
        if at == "upstream":
            return  # one place
        verified = self.place.at.migrate("verify", self.group)
        assert verified.status == 0, (at, verified)
        assert verified.json["groups"][0]["offsets"] == PARTITIONS


@contextmanager
def modern(bootstrap: str, group: str, topic: str, count: int, deliveries: Deliveries) -> Iterator[list[Counted]]:
    members: list[Counted] = []
    with ExitStack() as stack:
        for _ in range(count):
            member = Counted(bootstrap, group, topic, deliveries)
            members.append(member)
            stack.callback(member.stop)
        wait_until(lambda: all(member.assigned for member in members), "not all have joined")
        yield members


@contextmanager
def on_its_way(place: WholePlace, name: str) -> Iterator[Way]:
    """Its consumers were in ZooKeeper before, and have read nothing."""
    topic, deliveries = place.make_topic(name), Deliveries()
    for partition in range(PARTITIONS):
        put(place.view.client, f"/consumers/{name}/offsets/{topic}/{partition}", b"0")
    with Load(place.at.shim.bootstrap, topic, PARTITIONS) as load:
        yield Way(place, topic, name, load, deliveries)
        print(f"\n{name}: {load.written} values\n{deliveries.report()}")
