"""Flights by themselves, to topics whose answers come when the test says so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from protocol.errors import ErrorCode
from protocol.offsets_log import OffsetCommitKey, OffsetCommitValue
from protocol.own.record_sets import RecordSet
from shim.boottime import boottime
from shim.coordinator import GroupCoordinator
from shim.kafka_log.history.writing import HistoryTopic
from shim.kafka_log.owning.outcomes import Fenced
from shim.kafka_log.owning.owned_topic import OwnedTopic
from shim.kafka_log.producing.in_turn import OnCompletion
from shim.kafka_log.writing.flights import TopicFlights
from shim.runtime import Clock
from shim.runtime import snapshots as snapshots_module
from shim.runtime.backend import Reports
from shim.runtime.flight import Flight
from shim.runtime.snapshots import Dump, End, Snapshots
from shim.upstream import UpstreamError
from tests.coordinator.driving import new_coordinator
from tests.waiting import turns_of_the_loop

RECORDS: list[tuple[bytes, bytes | None]] = [(b"k", b"v")]


class HeldTopic:
    """Whatever is written waits until the test settles it."""

    def __init__(self) -> None:
        self.under_way: dict[int, list[RecordSet]] = {}
        self.leased: set[int] = set()
        self.sent_in_time = True
        self._on_completion: dict[int, OnCompletion] = {}
        self._over: dict[int, asyncio.Event] = {}

    async def write(
        self, writes: Mapping[int, Sequence[RecordSet]], _timestamp_ms: int, on_completion: OnCompletion
    ) -> None:
        assert self.under_way.keys().isdisjoint(writes), "one call at a time of each partition"
        over = [self._over.setdefault(number, asyncio.Event()) for number in writes]
        for number, sets in writes.items():
            self.under_way[number] = list(sets)
            self._on_completion[number] = on_completion
        for each in over:
            await each.wait()

    def complete(self, number: int, trouble: UpstreamError | None = None) -> None:
        del self.under_way[number]
        self._over.pop(number).set()
        self._on_completion.pop(number)({number: trouble})

    def may_tell(self, number: int) -> bool:
        return number in self.leased

    def may_tell_behind(self, number: int, decided_at: float) -> bool:
        assert decided_at <= boottime()
        return number in self.under_way and self.sent_in_time

    def idle(self, _seconds: float) -> list[int]:
        return []


class Told:
    def __init__(self) -> None:
        self.said: Any = None

    def answer(self, response: Any) -> None:
        assert self.said is None
        self.said = response

    def fail(self, error: ErrorCode) -> None:
        self.answer(error)


class Flying:
    def __init__(self) -> None:
        self.failed: dict[int, Exception] = {}
        self.landed: list[int] = []
        self.offsets, self.history = HeldTopic(), HeldTopic()
        self.flights = TopicFlights(
            cast(OwnedTopic, self.offsets),
            cast(HistoryTopic, self.history),
            Clock(),
            60.0,
            Reports(lambda _: None, self._note, lambda: None, self.landed.append),
        )
        self.flights.claim_again_seconds = 3600.0

    def _note(self, failed: Mapping[int, Exception], flight: Flight | None) -> None:
        self.failed |= failed
        for number in failed:
            for ticket in (*self.flights.lost(number), *(flight.lost(number) if flight is not None else ())):
                ticket.fail(ErrorCode.NOT_COORDINATOR)

    def waits(self, number: int) -> Told:
        told, flight = Told(), self.flights.awaited(number)
        assert flight is not None
        flight.hold(number, told, "told")
        return told


@asynccontextmanager
async def flying() -> AsyncIterator[Flying]:
    its = Flying()
    running = asyncio.create_task(its.flights.run())
    await turns_of_the_loop()
    yield its
    its.flights.stop()
    await running
    assert its.flights.all_written


async def test_no_partition_waits_for_another() -> None:
    async with flying() as its:
        for number in (0, 1):
            its.flights.append(number, RECORDS, [])
        first = its.waits(0)
        await turns_of_the_loop()
        its.flights.append(0, RECORDS, [])
        second = its.waits(0)
        await turns_of_the_loop()
        assert its.offsets.under_way.keys() == {0, 1}
        its.offsets.complete(0)
        assert (first.said, second.said) == ("told", None)
        await turns_of_the_loop()
        assert its.offsets.under_way.keys() == {0, 1}, "the next of the one that has landed"
        its.offsets.complete(0)
        assert second.said == "told"
        its.offsets.complete(1)


async def test_what_is_told_waits_for_a_claim_where_the_lease_has_ended() -> None:
    async with flying() as its:
        assert not its.flights.may_tell(0)
        told = [its.waits(0), its.waits(0)]
        await turns_of_the_loop()
        assert its.offsets.under_way == {0: []}, "one for all"
        behind = its.waits(0)
        its.offsets.sent_in_time = False
        later = its.waits(0)
        its.offsets.leased.add(0)
        its.offsets.complete(0)
        assert [each.said for each in (*told, behind, later)] == ["told", "told", "told", None]
        await turns_of_the_loop()
        its.offsets.complete(0)
        assert later.said == "told"
        assert its.flights.may_tell(0)
        assert its.flights.awaited(0) is None


async def test_within_the_lease_it_waits_for_what_it_tells_of() -> None:
    async with flying() as its:
        its.offsets.leased.add(0)
        its.flights.append(0, RECORDS, [])
        await turns_of_the_loop()
        assert not its.flights.may_tell(0)
        assert its.flights.awaited(0) is its.flights.flying_of(0)
        its.offsets.complete(0)
        await turns_of_the_loop()


@pytest.mark.parametrize("fails", ["offsets", "history", None])
async def test_offsets_and_history_are_there_or_it_is_not_told(fails: str | None) -> None:
    async with flying() as its:
        its.flights.append(0, RECORDS, [b"a record"])
        told = its.waits(0)
        await turns_of_the_loop()
        trouble = UpstreamError("no answer")
        its.offsets.complete(0, trouble if fails == "offsets" else None)
        assert [told.said] == [None]
        its.history.complete(0, trouble if fails == "history" else None)
        assert told.said == ("told" if fails is None else ErrorCode.NOT_COORDINATOR)
        assert its.failed == ({} if fails is None else {0: trouble})
        assert its.landed == ([0] if fails is None else [])


async def test_what_was_decided_behind_a_flight_that_failed_is_not_written() -> None:
    async with flying() as its:
        its.flights.append(0, RECORDS, [])
        await turns_of_the_loop()
        its.flights.append(0, RECORDS, [])
        told, left = its.waits(0), its.flights.flight_of(0)
        its.offsets.complete(0, UpstreamError("no answer"))
        assert told.said == ErrorCode.NOT_COORDINATOR
        assert left is not None
        assert left.over.is_set()
        await turns_of_the_loop()
        assert its.offsets.under_way == {}
        assert its.flights.flight_of(0) is None


async def test_who_is_fenced_in_one_partition_goes_on_with_the_others() -> None:
    async with flying() as its:
        for number in (0, 1):
            its.flights.append(number, RECORDS, [])
        await turns_of_the_loop()
        of_other = its.waits(1)
        fenced = Fenced("somebody else")
        its.offsets.complete(0, fenced)
        assert its.failed == {0: fenced}
        its.offsets.complete(1, None)
        assert of_other.said == "told"


# -- snapshots


class Ends:
    """What snapshots are of, where the test says what is in the log."""

    num_partitions = 2

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.asked: list[int] = []

    def begin_dump(self, coordinator: GroupCoordinator) -> Dump:
        self.begun.append(coordinator.offset_count)
        return coordinator.begin_dump()

    def end_offset(self, _number: int) -> int:
        return 0

    def is_outdated(self, _number: int, _offset: int) -> bool:
        return False

    def ends_of(self, number: int) -> list[End]:
        self.asked.append(number)
        return []

    async def complete(self, _number: int, ends: list[End]) -> list[End]:
        return ends


class Snapped(Flying):
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        monkeypatch.setattr(snapshots_module, "LEAST_RECORDS", 3)
        self.coordinators = {number: new_coordinator() for number in range(2)}
        self.ends = Ends()
        self.flights._reports = self.flights._reports._replace(coordinator=self.coordinators.get)
        self.snapshots = Snapshots(self.ends, self.coordinators.get, self.flights.wake)
        self.flights.snapshots = self.snapshots


@asynccontextmanager
async def snapped(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Snapped]:
    its = Snapped(monkeypatch)
    running = asyncio.create_task(its.flights.run())
    await turns_of_the_loop()
    try:
        yield its
    finally:
        its.snapshots.stop()
        its.flights.stop()
        await turns_of_the_loop()
        for number in list(its.offsets.under_way):
            its.offsets.complete(number)
        await running
        await its.snapshots.ended()
        its.snapshots.shutdown()


async def test_a_snapshot_is_of_what_took_off_and_not_of_what_was_decided_behind_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with snapped(monkeypatch) as its:
        its.flights.append(0, RECORDS, [])
        await turns_of_the_loop()
        its.snapshots.written(0, 3)  # it is due now, and with what is under way it would be too late
        its.flights.append(1, RECORDS, [])
        await turns_of_the_loop()
        its.offsets.complete(1)
        assert its.ends.begun == [], "nor is it begun as another one takes off"
        its.flights.append(0, RECORDS, [])
        its.coordinators[0].replay(OffsetCommitKey("g", "t", 0), OffsetCommitValue(1))
        await turns_of_the_loop()
        its.offsets.complete(0)
        assert its.ends.begun == []
        await turns_of_the_loop()
        assert its.ends.begun == [1], "begun as the next one takes off"
        assert its.ends.asked == [], "and told where that ends, once it is there"
        its.offsets.complete(0)
        assert its.ends.asked == [0]


async def test_there_is_none_of_a_flight_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    async with snapped(monkeypatch) as its:
        its.snapshots.written(0, 3)
        its.flights.append(0, RECORDS, [])
        await turns_of_the_loop()
        assert its.ends.begun == [0]
        its.offsets.complete(0, UpstreamError("no answer"))
        await turns_of_the_loop()
        assert its.ends.asked == []
        its.flights.append(1, RECORDS, [])
        its.snapshots.written(1, 3)
        await turns_of_the_loop()
        assert its.ends.begun == [0, 0], "and another one is not kept waiting"
        its.offsets.complete(1)
        assert its.ends.asked == [1]


async def test_one_of_a_partition_that_nobody_writes_to_is_anchored_to_a_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    async with snapped(monkeypatch) as its:
        its.snapshots.loaded(1, 3, 0)
        await turns_of_the_loop()
        assert its.offsets.under_way == {1: []}
        its.offsets.complete(1)
        assert its.ends.asked == [1]
        await turns_of_the_loop()
        assert its.offsets.under_way == {}, "one is enough"
