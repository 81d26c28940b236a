"""What the shim writes to ZooKeeper: what was written there meanwhile is somebody's, unless it was the shim itself."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Any, Final, cast

import pytest

from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.own.state_log import Hands, Step
from shim.coordinator import Asker, Caller, GroupCoordinator
from shim.migration.dual.dual_commit import DualCommit
from shim.offsets.store import Moved, OffsetStore, Partition, StoreConflict, StoredOffset, StoreUnavailable
from shim.offsets.zookeeper.ensemble import Ensemble
from shim.runtime import Runtime
from tests.migration.simulated.virtual_time import run

AT: Final = ("t", 0)


class OnePartition:
    """Of the runtime what dual commit asks of it, with nothing that takes time."""

    num_partitions = 1

    def __init__(self) -> None:
        self.only = GroupCoordinator()
        self._now = 0

    def watch(self, watcher: Any) -> None:
        """It is never loaded anew."""

    def partition_of(self, group: str) -> int:
        return 0

    def coordinator_of(self, group: str) -> GroupCoordinator:
        return self.only

    async def settled(self, number: int) -> None: ...

    def submit(self, number: int, operation: Any, ticket: Any, after_flight: bool = True) -> None:
        self._now += 1
        for asker, response in operation(self.only, self._now, ticket).answers:
            asker.answer(response)


class NeverLost:
    def watch_session(self, listener: Any) -> None:
        """Its session never ends."""


class Store:
    """One znode, and whether it can be written."""

    def __init__(self, offset: int, version: int) -> None:
        self.there = {AT: StoredOffset(offset, version)}
        self.is_lost = False

    async def fetch(self, group: str, topics: Collection[str] | None = None) -> dict[Partition, StoredOffset]:
        return dict(self.there)

    async def commit(self, group: str, offsets: Mapping[Partition, StoredOffset]) -> dict[Partition, int]:
        if self.is_lost:
            raise StoreUnavailable("ZooKeeper was lost on the way")
        written = {}
        for at, each in offsets.items():
            assert each.version is not None
            self.there[at] = StoredOffset(each.offset, each.version + 1)
            written[at] = each.version + 1
        return written


class Busy(Store):
    """Somebody commits these partitions one by one, and comes in each time between reading and writing."""

    def __init__(self, *others: Partition) -> None:
        super().__init__(5, 7)
        self.others = list(others)

    async def commit(self, group: str, offsets: Mapping[Partition, StoredOffset]) -> dict[Partition, int]:
        await asyncio.sleep(0.01)
        if not self.others:
            return await super().commit(group, offsets)
        at = self.others.pop()
        before = self.there.get(at)
        self.there[at] = StoredOffset(9, 0 if before is None or before.version is None else before.version + 1)
        raise StoreConflict(group, {at: Moved(9, self.there[at].version or 0)}, {})


class Told:
    def answer(self, response: Any) -> None: ...


class Group:
    """At step kafka, having come from kafka+dual when both had ``offset``."""

    def __init__(self, store: Store) -> None:
        self.runtime, self.store = OnePartition(), store
        self.dual_commit = DualCommit(
            cast(Runtime, self.runtime), cast(OffsetStore, self.store), cast(Ensemble, NeverLost())
        )

    async def at_kafka(self) -> None:
        await self.at_both()
        self._step(Step.KAFKA)

    async def at_both(self) -> None:
        self._step(Step.KAFKA_DUAL)
        self.commit(self.store.there[AT].offset)
        await self.dual_commit.note_all("g", self.store.there)

    def _step(self, step: Step) -> None:
        self.runtime.only.take_in_hand(1, "g", Hands.SERVED, "", cast(Asker, Told()), step, from_zookeeper=True)

    def commit(self, offset: int, *numbers: int) -> None:
        partitions = tuple(OffsetCommitRequestPartition(number, offset) for number in numbers or [0])
        request = OffsetCommitRequest("g", topics=(OffsetCommitRequestTopic("t", partitions=partitions),))
        self.runtime.only.offset_commit(2, Caller("", "", ""), 8, request, cast(Asker, Told()))


async def test_what_has_not_been_written_since_is_written_over() -> None:
    group = Group(Store(5, 7))
    await group.at_kafka()
    group.commit(9)
    assert await group.dual_commit.bring("g") == []
    assert group.store.there == {AT: StoredOffset(9, 8)}


@pytest.mark.parametrize(("offset", "version"), [(6, 8), (5, 8), (4, 9)])
async def test_what_somebody_has_written_since_is_told(offset: int, version: int) -> None:
    group = Group(Store(5, 7))
    await group.at_kafka()
    group.commit(9)
    group.store.there[AT] = StoredOffset(offset, version)
    (told,) = await group.dual_commit.bring("g")
    assert (told.log, told.elsewhere) == (9, offset)
    assert group.store.there == {AT: StoredOffset(offset, version)}


async def test_what_somebody_has_deleted_and_created_anew_is_told() -> None:
    group = Group(Store(5, 1))
    await group.at_kafka()
    group.commit(9)
    group.store.there[AT] = StoredOffset(6, 0)
    (told,) = await group.dual_commit.bring("g")
    assert (told.log, told.elsewhere) == (9, 6)
    assert group.store.there == {AT: StoredOffset(6, 0)}


async def test_a_write_that_was_noted_and_not_done_is_nobody_elses() -> None:
    group = Group(Store(5, 7))
    await group.at_kafka()
    group.commit(9)
    group.store.is_lost = True
    with pytest.raises(StoreUnavailable):
        await group.dual_commit.bring("g")
    group.store.is_lost = False
    group.commit(10)
    assert await group.dual_commit.bring("g") == []
    assert group.store.there == {AT: StoredOffset(10, 8)}


def test_somebody_commits_many_partitions_while_they_are_written() -> None:
    async def both_agree() -> None:
        group = Group(Busy(*(("t", number) for number in range(40))))
        await group.at_both()
        group.commit(6, *range(40))
        await group.dual_commit.refresh("g")
        assert group.store.there.keys() == {("t", number) for number in range(40)}
        assert (await group.dual_commit.compare("g"))[1] == []
        group.dual_commit.leave("g")

    run(both_agree())


def test_somebody_commits_without_end_while_it_is_written() -> None:
    async def told() -> None:
        group = Group(Busy(*([AT] * 100_000)))
        await group.at_both()
        group.commit(6, 0, 1)
        with pytest.raises(StoreUnavailable, match="all the time"):
            await group.dual_commit.refresh("g")
        group.dual_commit.leave("g")

    run(told())
