"""Writes what the coordinators have decided: a flight at a time, and the log's own chores between them.

While one flight is being written, the next one fills: that is how commits share a flush.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar, TypeVarTuple

from protocol.history_log import HISTORY_TOPIC
from shim.log import OffsetsLog, PartitionWrite
from shim.runtime.clock import Clock
from shim.runtime.flight import Batch, Flight, RecordSet, Ticket
from shim.runtime.snapshots import End, Snapshots

_Arguments = TypeVarTuple("_Arguments")
_Result = TypeVar("_Result")


class Written(NamedTuple):
    """``failed``: as the log gives it. ``ends``: where the logs end of the partition of which a snapshot is taken."""

    failed: dict[int, OSError]
    ends: list[End] | None


class Writer:
    """For the event loop; the log is written in a thread of its own."""

    def __init__(
        self,
        offsets_log: OffsetsLog,
        snapshots: Snapshots,
        clock: Clock,
        commit_timeout_seconds: float,
        wake: asyncio.Event,
        failed: Callable[[Mapping[int, OSError], Flight | None], None],
    ) -> None:
        """``wake`` is set when there may be a snapshot to take. ``failed`` is told of which partitions a write has
        failed, and of the flight that it was, if it was one.
        """
        self._log = offsets_log
        self._snapshots = snapshots
        self._clock = clock
        self._commit_timeout = commit_timeout_seconds
        self._failed = failed
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="log-write")
        self._next = Flight()
        self._flying: Flight | None = None
        self._wake = wake
        self._maintain_at = 0
        self._maintain_timer: asyncio.TimerHandle | None = None
        self._without_history: set[int] = set()
        self._stopping = False
        self.all_written = False
        """Whether :meth:`run` has come to its end."""

    # -- what is to be written

    def loaded(self, number: int, *, has_history: bool) -> None:
        """The partition takes writes; its history, too, or not, since it is damaged."""
        if has_history:
            self._without_history.discard(number)
        else:
            self._without_history.add(number)

    def append(self, number: int, records: Batch, history: RecordSet) -> None:
        """One decision's records, to be written with the next flight."""
        self._next.append(number, records, history, self._commit_timeout)
        self._wake.set()

    @property
    def hangs(self) -> bool:
        """Whether what is decided now would be refused, since the disk hangs."""
        return self._next.timed_out

    def flight_of(self, number: int) -> Flight | None:
        """The last flight with records of the partition: when it has landed, all that was decided is durable."""
        return self._next if number in self._next.records else self.flying_of(number)

    def flying_of(self, number: int) -> Flight | None:
        """The flight that is being written, if it has records of the partition."""
        return self._flying if self._flying is not None and number in self._flying.records else None

    def lost(self, number: int) -> list[Ticket]:
        """What of the partition waits for the next flight is not to be written. Gives whom to fail."""
        return self._next.lost(number)

    # -- writing it

    async def run(self) -> None:
        """Write flights until :meth:`stop`, and then those that are left."""
        while not (self._stopping and not self._next.records):
            if self._clock.now() >= self._maintain_at:
                await self._maintain()
                continue
            if not (self._next.records or self._snapshots.due):
                self._wake.clear()
                await self._wake.wait()
                continue
            flight = self._flying = self._next
            self._next = Flight()
            failed = await self._hand_over(flight)
            self._flying = None
            flight.close()
            self._failed(failed, flight)
            landed = [(number, records.count) for number, records in flight.records.items() if number not in failed]
            for number, count in landed:
                flight.landed(number)
                self._snapshots.written(number, count)
        self.all_written = True

    async def _hand_over(self, flight: Flight) -> dict[int, OSError]:
        """Have the flight written, and begin a snapshot where one is due. Gives the partitions whose write failed."""
        now = self._clock.now()
        writes = []
        for number, records in flight.records.items():
            writes.append(PartitionWrite(number, records.offsets, now))
            if records.history and number not in self._without_history:
                writes.append(PartitionWrite(number, records.history, now, HISTORY_TOPIC))
        taking = self._snapshots.begin()
        failed, ends = await self.in_thread(self._write, writes, taking.number if taking is not None else None)
        if taking is not None and not taking.landed.done():
            taking.landed.set_result(ends)
        return failed

    def _write(self, writes: list[PartitionWrite], of_snapshot: int | None) -> Written:
        """In the thread."""
        failed = self._log.write(writes) if writes else {}
        if of_snapshot is None or of_snapshot in failed:
            return Written(failed, None)
        return Written(failed, self._snapshots.ends_of(of_snapshot))

    async def _maintain(self) -> None:
        """What the log has to do by itself, and when it is next to be asked."""
        now = self._clock.now()
        failed, self._maintain_at = await self.in_thread(self._log.maintain, now)
        if self._maintain_timer is not None:
            self._maintain_timer.cancel()
        # One more millisecond, as for deadlines: it would find nothing due.
        loop = asyncio.get_running_loop()
        self._maintain_timer = loop.call_later((self._maintain_at - now + 1) / 1000, self._wake.set)
        self._failed(failed, None)

    # -- the end

    def stop(self) -> None:
        self._stopping = True
        self._wake.set()

    async def in_thread(self, call: Callable[[*_Arguments], _Result], *args: *_Arguments) -> _Result:
        """Have this called behind the write that is under way."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, call, *args)

    def close(self) -> None:
        """When nothing is to be written any more, no maintenance either."""
        if self._maintain_timer is not None:
            self._maintain_timer.cancel()

    def shutdown(self) -> None:
        """The last thing."""
        self._thread.shutdown()
