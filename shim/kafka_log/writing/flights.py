"""Writes to the topics what the coordinators have decided: a flight at a time of each partition, and none waits for
another partition's.

While one flight of a partition is under way, the next one fills. A flight without records is a claim: nobody else owned
the partition by then, so that what was decided before may be told.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from functools import partial
from typing import cast

from protocol.own.history_runs import history_of
from protocol.own.record_sets import Runs
from shim.boottime import boottime
from shim.kafka_log.history.writing import HistoryTopic
from shim.kafka_log.owning.owned_topic import OwnedTopic
from shim.kafka_log.writing.translating import state_sets, topic_sets
from shim.metrics import FlushCounts
from shim.runtime.backend import Reports
from shim.runtime.clock import Clock
from shim.runtime.flight import Batch, Flight, History, RecordSet, Ticket
from shim.runtime.snapshots import Snapshots, Taking
from shim.upstream import UpstreamError


class _TakenOff:
    """Flights of several partitions that were begun together. ``left``: of each, in how many topics it is not known
    yet what came of it; ``trouble``: the first that went wrong."""

    def __init__(self, flights: Mapping[int, Flight]) -> None:
        self.flights = flights
        self.at = time.monotonic()
        self.left = dict.fromkeys(flights, 1)
        self.trouble: dict[int, UpstreamError] = {}


class TopicFlights:
    """See :class:`shim.runtime.backend.Writes`. For the event loop."""

    def __init__(
        self,
        offsets: OwnedTopic,
        history: HistoryTopic | None,
        clock: Clock,
        commit_timeout_seconds: float,
        reports: Reports,
    ) -> None:
        self._offsets = offsets
        self._history = history
        self._clock = clock
        self._commit_timeout = commit_timeout_seconds
        self._reports = reports
        self._next: dict[int, Flight] = {}
        self._flying: dict[int, Flight] = {}
        self._woken = False
        self._stopping = False
        self._writing: set[asyncio.Task[None]] = set()
        self._running: asyncio.Future[None] | None = None
        self.flushes = FlushCounts()
        self._taking: Taking | None = None
        self.snapshots: Snapshots | None = None
        """Taken of what is written, if any are."""
        self.apart: set[int] = set()
        """Partitions that somebody else writes to for now, none of which is served."""
        self.all_written = False
        """Whether :meth:`run` has come to its end."""
        self.claim_again_seconds = 0.0
        """A partition of which nothing was written for so long is claimed again."""

    # -- what is to be written

    def append(self, number: int, records: Batch, history: History) -> None:
        flight = self._next_of(number)
        for each in topic_sets(records):
            flight.append(number, each, history, self._commit_timeout)
            history = ()

    def append_state(self, number: int, records: RecordSet) -> None:
        assert isinstance(records, list)
        self._next_of(number).begin(number, self._commit_timeout).offsets += state_sets(records)

    def _next_of(self, number: int) -> Flight:
        flight = self._next.get(number)
        if flight is None:
            flight = self._next[number] = Flight()
            if number not in self._flying:
                self.wake()
        return flight

    def flight_of(self, number: int) -> Flight | None:
        return self._next.get(number) or self._flying.get(number)

    def flying_of(self, number: int) -> Flight | None:
        return self._flying.get(number)

    def awaited(self, number: int) -> Flight | None:
        """Where the lease has ended, for a write that is sent from now on."""
        flight = self._next.get(number)
        if flight is None:
            flying = self._flying.get(number)
            if self._offsets.may_tell(number):
                return flying
            if flying is not None and self._offsets.may_tell_behind(number, boottime()):
                return flying
            flight = self._next_of(number)
            flight.begin(number, self._commit_timeout)
        return flight

    def may_tell(self, number: int) -> bool:
        return self.flight_of(number) is None and self.is_surely_ours(number)

    def is_surely_ours(self, number: int) -> bool:
        return self._offsets.may_tell(number)

    def hangs(self, number: int) -> bool:
        flight = self._next.get(number)
        return flight is not None and flight.timed_out

    def lost(self, number: int) -> list[Ticket]:
        flight = self._next.pop(number, None)
        if flight is None:
            return []
        tickets = flight.lost(number)
        flight.close()
        return tickets

    # -- writing it

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        self._running = loop.create_future()
        claiming = loop.create_task(self._claim_again())
        self.wake()
        try:
            await self._running
            self.all_written = True
        finally:
            self._running = None
            for task in (claiming, *self._writing):
                task.cancel()
            await asyncio.gather(claiming, *self._writing, return_exceptions=True)
            for flight in (*self._flying.values(), *self._next.values()):
                flight.close()  # it is waited for in vain

    def stop(self) -> None:
        self._stopping = True
        self.wake()

    def wake(self) -> None:
        """There may be something to do. What is asked for until the loop has come round, by all requests that have
        arrived together, takes off together."""
        if not self._woken and self._running is not None:
            self._woken = True
            asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        self._woken = False
        running = self._running
        if running is None or running.done():
            return
        self._claim_for_a_snapshot()
        ready = {number: flight for number, flight in self._next.items() if number not in self._flying}
        if ready:
            # All that was decided of these by now is in them, or was written before.
            if self.snapshots is not None and (taking := self.snapshots.begin(ready)) is not None:
                self._taking = taking
            for number in ready:
                del self._next[number]
            self._flying.update(ready)
            writing = asyncio.get_running_loop().create_task(self._write(_TakenOff(ready)))
            self._writing.add(writing)
            writing.add_done_callback(self._wrote)
        elif self._stopping and not self._flying:
            running.set_result(None)

    def _claim_for_a_snapshot(self) -> None:
        """Of what is written no more one is taken, too."""
        if self.snapshots is None or self._stopping:
            return
        for number in self.snapshots.due:
            if self._reports.coordinator(number) is not None:
                if self.flight_of(number) is None:
                    self._next_of(number).begin(number, self._commit_timeout)
                return

    async def _write(self, taken_off: _TakenOff) -> None:
        now = self._clock.now()
        records = {number: flight.records[number] for number, flight in taken_off.flights.items()}
        # Of what there is to write they have the translation.
        offsets = {number: cast(list[RecordSet], its.offsets) for number, its in records.items()}
        history = {
            number: [Runs((run,), 1) for run in history_of(flight.history)]
            for number, flight in taken_off.flights.items()
            if flight.history
        }
        completed = partial(self._completed, taken_off)
        if self._history is None or not history:
            await self._offsets.write(offsets, now, completed)
            return
        for number in history:
            taken_off.left[number] += 1
        async with asyncio.TaskGroup() as both:
            both.create_task(self._offsets.write(offsets, now, completed))
            both.create_task(self._history.write(history, now, completed))

    def _wrote(self, writing: asyncio.Task[None]) -> None:
        self._writing.discard(writing)
        running = self._running
        error = None if writing.cancelled() else writing.exception()
        if error is not None and running is not None and not running.done():
            # A mistake of ours: what came of the flights nobody knows.
            running.set_exception(error)

    def _completed(self, taken_off: _TakenOff, results: Mapping[int, UpstreamError | None]) -> None:
        """Of these partitions it is known in one topic more what came of the flights that have taken off."""
        over = []
        for number, trouble in results.items():
            if trouble is not None:
                taken_off.trouble.setdefault(number, trouble)
            taken_off.left[number] -= 1
            if not taken_off.left[number]:
                over.append(number)
                del self._flying[number]
        if not over:
            return
        self._count(taken_off, over)
        if not self._next.keys().isdisjoint(over) or self._stopping:
            self.wake()
        for number in over:
            flight = taken_off.flights[number]
            flight.close()
            failed = taken_off.trouble.get(number)
            self._end_snapshot(number, taken_off, landed=failed is None)
            if failed is None:
                self._reports.landed(number)
                flight.landed(number)
                continue
            self._reports.failed({number: failed}, flight)
        self._reports.answered()
        if self.snapshots is not None and self.snapshots.due:
            self.wake()

    def _end_snapshot(self, number: int, taken_off: _TakenOff, *, landed: bool) -> None:
        """Before anything else of the partition takes off."""
        if self.snapshots is None:
            return
        taking = self._taking
        if taking is not None and taking.number == number:
            self._taking = None
            if not taking.landed.done():
                taking.landed.set_result(self.snapshots.ends_of(number) if landed else None)
        if landed:
            self.snapshots.written(number, taken_off.flights[number].records[number].count)

    def _count(self, taken_off: _TakenOff, over: list[int]) -> None:
        self.flushes.seconds.observe(time.monotonic() - taken_off.at)
        self.flushes.records.observe(sum(taken_off.flights[number].records[number].count for number in over))
        self.flushes.failed += sum(number in taken_off.trouble for number in over)

    async def _claim_again(self) -> None:
        """Brokers forget a producer that is silent for long, and with it who is fenced."""
        while True:
            await asyncio.sleep(max(self.claim_again_seconds, 4.0) / 4)
            for number in self._offsets.idle(self.claim_again_seconds * 3 / 4):
                if self.flight_of(number) is None and number not in self.apart:
                    self._next_of(number).begin(number, self._commit_timeout)
