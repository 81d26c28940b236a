"""A group goes back to ZooKeeper: what was written there since it left is somebody's, unless it was the shim itself."""

from __future__ import annotations

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
from shim.offsets.store import OffsetStore, Partition, StoredOffset, StoreUnavailable
from shim.offsets.zookeeper.ensemble import Ensemble
from shim.runtime import Runtime

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

    def coordinator(self, number: int) -> GroupCoordinator:
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


class Told:
    def answer(self, response: Any) -> None: ...


class Group:
    """At step kafka, having come from kafka+dual when both had ``offset``."""

    def __init__(self, offset: int, version: int) -> None:
        self.runtime, self.store = OnePartition(), Store(offset, version)
        self.dual_commit = DualCommit(
            cast(Runtime, self.runtime), cast(OffsetStore, self.store), cast(Ensemble, NeverLost())
        )

    async def at_kafka(self) -> None:
        self._step(Step.KAFKA_DUAL)
        self.commit(self.store.there[AT].offset)
        await self.dual_commit.note_all("g", self.store.there)
        self._step(Step.KAFKA)

    def _step(self, step: Step) -> None:
        self.runtime.only.take_in_hand(1, "g", Hands.SERVED, "", cast(Asker, Told()), step, from_zookeeper=True)

    def commit(self, offset: int) -> None:
        partitions = (OffsetCommitRequestPartition(0, offset),)
        request = OffsetCommitRequest("g", topics=(OffsetCommitRequestTopic("t", partitions=partitions),))
        self.runtime.only.offset_commit(2, Caller("", "", ""), 8, request, cast(Asker, Told()))


async def test_what_has_not_been_written_since_is_written_over() -> None:
    group = Group(5, 7)
    await group.at_kafka()
    group.commit(9)
    assert await group.dual_commit.bring("g") == []
    assert group.store.there == {AT: StoredOffset(9, 8)}


@pytest.mark.parametrize(("offset", "version"), [(6, 8), (5, 8), (4, 9)])
async def test_what_somebody_has_written_since_is_told(offset: int, version: int) -> None:
    group = Group(5, 7)
    await group.at_kafka()
    group.commit(9)
    group.store.there[AT] = StoredOffset(offset, version)
    (told,) = await group.dual_commit.bring("g")
    assert (told.log, told.elsewhere) == (9, offset)
    assert group.store.there == {AT: StoredOffset(offset, version)}


async def test_a_write_that_was_noted_and_not_done_is_nobody_elses() -> None:
    group = Group(5, 7)
    await group.at_kafka()
    group.commit(9)
    group.store.is_lost = True
    with pytest.raises(StoreUnavailable):
        await group.dual_commit.bring("g")
    group.store.is_lost = False
    group.commit(10)
    assert await group.dual_commit.bring("g") == []
    assert group.store.there == {AT: StoredOffset(10, 8)}
