"""Writes what the coordinators have decided: a flight at a time, and the log's own chores between them.

While one flight is being written, the next one fills: that is how commits share a flush.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeVar, TypeVarTuple

from protocol.own.history_log import HISTORY_TOPIC
from protocol.own.history_runs import history_of
from protocol.own.state_log import STATE_TOPIC
from protocol.partition import OFFSETS_TOPIC
from shim.disk_log.writing_thread import WritingThread
from shim.log import Maintained, MayWait, OffsetsLog, PartitionWrite, RecordsToWait
from shim.metrics import FlushCounts
from shim.runtime.clock import Clock
from shim.runtime.flight import Batch, Flight, History, RecordSet, Ticket
from shim.runtime.snapshots import End, Snapshots, Taking

_Arguments = TypeVarTuple("_Arguments")
_Result = TypeVar("_Result")

_new: Final[Any] = tuple.__new__  # it skips the constructors of named tuples

_QUICK_SECONDS: Final = 0.0001
"""What a write takes on a quick disk. There is nothing to be gained before that."""

_QUICKER, _SLOWER = 0.9, 1.01
"""By so much a write changes what is enough, so that one of twelve takes less: most wait for a core, too, where it
matters."""

_AS_LONG_AGAIN, _MOST_SECONDS = 2.0, 0.001
"""So many times what is enough the loop waits for a write that has taken as long as that, and this at most."""

_LATER = 1.3
"""And again when it has taken so many times as long."""


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
        failed: Callable[[Mapping[int, Exception], Flight | None], None],
        answered: Callable[[], None] = lambda: None,
        landed: Callable[[int], None] = lambda number: None,
    ) -> None:
        """``failed`` is told of which partitions a write has failed, and of the flight that it was, if it was one;
        ``landed`` of each partition of which one is durable. ``answered`` is called when everybody has been told who
        waited for one.
        """
        self._answered = answered
        self._told_landed = landed
        self._log = offsets_log
        self._snapshots = snapshots
        self._clock = clock
        self._commit_timeout = commit_timeout_seconds
        self._failed = failed
        self._thread = WritingThread("log-write")
        self._next = Flight()
        self._flying: Flight | None = None
        self._taking: Taking | None = None
        self._running: asyncio.Future[None] | None = None
        # Whether the thread is at work, or the next thing to do is about to be looked for.
        self._busy = False
        self._maintain_at = 0
        self._maintain_timer: asyncio.TimerHandle | None = None
        self._without_history: set[int] = set()
        self._stopping = False
        self.flushes = FlushCounts()
        self._took_off_at = 0.0
        self._gives_way_at = 0.0
        self._enough = _QUICK_SECONDS
        """Seconds that a write takes which waits for the disk alone."""
        self.all_written = False
        """Whether :meth:`run` has come to its end."""

    # -- what is to be written

    def loaded(self, number: int, *, has_history: bool) -> None:
        """The partition takes writes; its history, too, or not, since it is damaged."""
        if has_history:
            self._without_history.discard(number)
        else:
            self._without_history.add(number)

    def append(self, number: int, records: Batch, history: History) -> None:
        """One decision's records, to be written with the next flight."""
        self._next.append(number, records, history, self._commit_timeout)
        if not self._busy:
            self.wake()

    def append_state(self, number: int, records: RecordSet) -> None:
        """Likewise, of the shim's own state."""
        self._next.append_state(number, records, self._commit_timeout)
        self.wake()

    def hangs(self, _number: int) -> bool:
        """Whether what is decided now would be refused, since the disk hangs."""
        return self._next.timed_out

    def flight_of(self, number: int) -> Flight | None:
        """The last flight with records of the partition: when it has landed, all that was decided is durable."""
        return self._next if number in self._next.records else self.flying_of(number)

    awaited = flight_of
    """What an answer waits for. Nobody else writes to the data directory: otherwise it is right at once."""

    def may_tell(self, number: int) -> bool:
        return self.flight_of(number) is None

    def is_surely_ours(self, _number: int) -> bool:
        """The data directory is locked."""
        return True

    def flying_of(self, number: int) -> Flight | None:
        """The flight that is being written, if it has records of the partition."""
        return self._flying if self._flying is not None and number in self._flying.records else None

    def lost(self, number: int) -> list[Ticket]:
        """What of the partition waits for the next flight is not to be written. Gives whom to fail."""
        return self._next.lost(number)

    # -- writing it

    async def run(self) -> None:
        """Write flights until :meth:`stop`, and then those that are left."""
        self._running = asyncio.get_running_loop().create_future()
        self.wake()
        try:
            await self._running
        finally:
            self._running = None
        self.all_written = True

    def wake(self) -> None:
        """There may be something to do. It is looked for when the loop has come round: what is asked for until then, by
        all requests that have arrived together, is in one flight."""
        if not self._busy and self._running is not None:
            self._busy = True
            asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        running = self._running
        if running is None or running.done():
            return
        self._busy = True
        if self._stopping and not self._next.records:
            running.set_result(None)
        elif self._log.maintenance_due or self._clock.now() >= self._maintain_at:
            self._thread.begin(self._maintained, self._log.maintain, self._clock.now())
        elif self._next.records or self._snapshots.due:
            self._take_off()
        else:
            self._busy = False

    def _take_off(self) -> None:
        """Have the next flight written, and begin a snapshot where one is due."""
        flight = self._flying = self._next
        self._next = Flight()
        self._took_off_at = time.monotonic()
        self._gives_way_at = self._took_off_at + self._enough
        now = self._clock.now()
        writes: list[PartitionWrite] = []
        for number, records in flight.records.items():
            if records.state:  # first: what was decided with offsets says what these mean
                writes.append(_new(PartitionWrite, (number, records.state, now, STATE_TOPIC)))
            if records.offsets:
                writes.append(_new(PartitionWrite, (number, records.offsets, now, OFFSETS_TOPIC)))
        for number in self._without_history:
            flight.drop_history(number)
        self._taking = self._snapshots.begin()
        of_snapshot = self._taking.number if self._taking is not None else None
        self._thread.begin(self._landed, self._write, writes, flight, now, of_snapshot)

    def give_way(self) -> None:
        """For a loop that is busy with other things: let the thread have the core where a write takes longer than it
        should, until it has landed or for a while. Linux has a thread that wakes up before the loop has run for as long
        as it did last wait until the next tick, 4 ms as a rule (docs/performance.md). Blocks the loop, which is what it
        is for; less and less often, as it may be the disk all the same.
        """
        if self._flying is not None and time.monotonic() >= self._gives_way_at:
            self._thread.tell_within(min(self._enough * _AS_LONG_AGAIN, _MOST_SECONDS))
            self._gives_way_at = self._took_off_at + (time.monotonic() - self._took_off_at) * _LATER

    def _write(
        self, writes: list[PartitionWrite], flight: Flight, timestamp_ms: int, of_snapshot: int | None
    ) -> Written:
        """In the thread."""
        may_wait: MayWait | None = None
        if flight.history:
            history = RecordsToWait(flight.history_numbers, history_of(flight.history))
            may_wait = MayWait(HISTORY_TOPIC, timestamp_ms, history)
        failed = self._log.write(writes, may_wait) if writes or may_wait else {}
        if of_snapshot is None or of_snapshot in failed:
            return Written(failed, None)
        return Written(failed, self._snapshots.ends_of(of_snapshot))

    def _landed(self, written: Written, error: BaseException | None) -> None:
        if self._broke_off(error):
            return
        failed, ends = written
        took = time.monotonic() - self._took_off_at
        self._enough = max(_QUICK_SECONDS, self._enough * (_QUICKER if took < self._enough else _SLOWER))
        flight, taking = self._flying, self._taking
        self._flying = self._taking = None
        if taking is not None and not taking.landed.done():
            taking.landed.set_result(ends)
        assert flight is not None
        due = self._log.settle_due_ms
        if due is not None and due < self._maintain_at:
            self._maintain_by(due)
        if flight.records:
            self._count(flight, took, len(failed))
        # As in `wake`: what has come in meanwhile is in the next flight, and these answers leave before it.
        asyncio.get_running_loop().call_soon(self._go_on)
        flight.close()
        if failed:
            self._failed(failed, flight)
        for number, records in flight.records.items():
            if number not in failed:
                self._told_landed(number)
                flight.landed(number)
                self._snapshots.written(number, records.count)
        self._answered()

    def _count(self, flight: Flight, took: float, failed: int) -> None:
        self.flushes.seconds.observe(took)
        self.flushes.records.observe(sum([records.count for records in flight.records.values()]))
        self.flushes.failed += failed

    def _maintained(self, maintained: Maintained, error: BaseException | None) -> None:
        """What the log has to do by itself is done; when it is next to be asked."""
        if self._broke_off(error):
            return
        failed, due = maintained
        self._maintain_by(due)
        if failed:
            self._failed(failed, None)
        self._go_on()

    def _maintain_by(self, due: int) -> None:
        """``due``: milliseconds since the epoch, by the clock."""
        self._maintain_at = due
        if self._maintain_timer is not None:
            self._maintain_timer.cancel()
        # One more millisecond, as for deadlines: it would find nothing due.
        delay = max(0, due - self._clock.now() + 1) / 1000
        self._maintain_timer = asyncio.get_running_loop().call_later(delay, self.wake)

    def _broke_off(self, error: BaseException | None) -> bool:
        """Whether nothing is written any more: it was given up, or something unforeseen happened, which it raises."""
        if self._running is None or self._running.done():
            return True
        if error is not None:
            self._running.set_exception(error)
        return error is not None

    # -- the end

    def stop(self) -> None:
        self._stopping = True
        self.wake()

    async def in_thread(self, call: Callable[[*_Arguments], _Result], *args: *_Arguments) -> _Result:
        """Have this called behind the write that is under way."""
        return await self._thread.call(call, *args)

    def close(self) -> None:
        """When nothing is to be written any more, no maintenance either."""
        if self._maintain_timer is not None:
            self._maintain_timer.cancel()

    def shutdown(self) -> None:
        """The last thing."""
        self._thread.shutdown()
