"""Drives the coordinators of all offsets partitions and their log: load, decide, append, hold, answer, expire.

Everything here runs on the event loop but the log's own calls, which block and run in one thread. A request goes:
decision (the coordinator applies its records to its state) → records into the next flight → flight written and
flushed → answer. While one flight is being written, the next one fills: that is how commits share a flush.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

from protocol.errors import ErrorCode
from protocol.offsets_log import UnknownKey, decode_key, decode_value, encode_key, encode_value
from protocol.partition import partition_for
from shim.config import Settings
from shim.coordinator import CoordinatorSettings, GroupCoordinator, Outcome, Value
from shim.log import CorruptLog, OffsetsLog, PartitionWrite
from shim.runtime.clock import Clock
from shim.runtime.flight import Flight, Record, Ticket

log = logging.getLogger(__name__)

RELOAD_RETRY_SECONDS = 1.0

Operation = Callable[[GroupCoordinator, int, Ticket], Outcome]


class Partition:
    """One offsets partition as the runtime sees it."""

    __slots__ = ("coordinator", "due", "number", "timer", "unavailable")

    def __init__(self, number: int) -> None:
        self.number = number
        self.coordinator: GroupCoordinator | None = None
        # What a request gets while there is no coordinator to decide it.
        self.unavailable = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        self.timer: asyncio.TimerHandle | None = None
        self.due: int | None = None


class Runtime:
    """Owns every offsets partition of one data directory."""

    def __init__(self, offsets_log: OffsetsLog, settings: Settings, clock: Clock) -> None:
        self._log = offsets_log
        self._settings = settings
        self._coordinator_settings = CoordinatorSettings(
            group_min_session_timeout_ms=settings.group_min_session_timeout_ms,
            group_max_session_timeout_ms=settings.group_max_session_timeout_ms,
            group_initial_rebalance_delay_ms=settings.group_initial_rebalance_delay_ms,
            group_max_size=settings.group_max_size,
            offset_metadata_max_bytes=settings.offset_metadata_max_bytes,
        )
        self._commit_timeout = settings.offsets_commit_timeout_ms / 1000
        self._clock = clock
        self._partitions = [Partition(number) for number in range(settings.offsets_topic_num_partitions)]
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="offsets-log")
        self._next = Flight()
        self._flying: Flight | None = None
        self._wake = asyncio.Event()
        self._reloads: set[asyncio.Task[None]] = set()
        self._stopping = False

    @property
    def num_partitions(self) -> int:
        return len(self._partitions)

    def partition_of(self, group_id: str) -> int:
        return partition_for(group_id, len(self._partitions))

    async def load(self) -> None:
        """Read every partition back. Raises :class:`shim.log.CorruptLog` and :class:`OSError`."""
        for partition in self._partitions:
            await self._load(partition)

    async def _load(self, partition: Partition) -> None:
        loop = asyncio.get_running_loop()
        coordinator = await loop.run_in_executor(self._thread, self._replayed, partition.number)
        if self._stopping:
            return
        coordinator.loaded(self._clock.now())
        partition.coordinator = coordinator
        self._arm(partition)

    def _replayed(self, number: int) -> GroupCoordinator:
        coordinator = GroupCoordinator(self._coordinator_settings)
        for record in self._log.recover(number):
            key = decode_key(record.key)
            if isinstance(key, UnknownKey):
                log.warning("__consumer_offsets-%d offset %d: key type %d skipped", number, record.offset, key.version)
                continue
            coordinator.replay(key, cast(Value | None, decode_value(key, record.value)))
        return coordinator

    def submit(self, partition_number: int, operation: Operation, ticket: Ticket, *, hold: bool = True) -> None:
        """Let the partition's coordinator decide; the ticket is answered when what it depends on is durable.

        ``hold=False`` is for an answer that tells nothing of what is written (a heartbeat's): it waits only for
        records of its own decision.
        """
        partition = self._partitions[partition_number]
        if partition.coordinator is None:
            ticket.fail(partition.unavailable)
        else:
            try:
                outcome = operation(partition.coordinator, self._clock.now(), ticket)
            except Exception:
                log.exception("__consumer_offsets-%d: a request could not be decided", partition_number)
                self._forget(partition)
                ticket.fail(ErrorCode.UNKNOWN_SERVER_ERROR)
            else:
                self._carry_out(partition, outcome, hold=hold)

    def ask(self, partition_number: int, question: Callable[[GroupCoordinator], Any], ticket: Ticket) -> None:
        """A question that decides nothing (a list of groups); answered when all that it saw is durable."""
        self.submit(
            partition_number, lambda coordinator, _, asker: Outcome([], [(asker, question(coordinator))]), ticket
        )

    def _carry_out(self, partition: Partition, outcome: Outcome, *, hold: bool) -> None:
        number = partition.number
        if outcome.records:
            self._next.append(number, [_encoded(key, value) for key, value in outcome.records], self._commit_timeout)
            self._wake.set()
            flight: Flight | None = self._next
        elif not hold:
            flight = None
        elif number in self._next.records:
            flight = self._next
        elif self._flying is not None and number in self._flying.records:
            flight = self._flying
        else:
            flight = None
        for asker, response in outcome.answers:
            ticket = cast(Ticket, asker)
            if flight is None:
                ticket.answer(response)
            else:
                flight.hold(number, ticket, response)
        self._arm(partition)

    def _arm(self, partition: Partition) -> None:
        """Have the loop call when the coordinator's earliest deadline is due."""
        coordinator = partition.coordinator
        due = coordinator.next_deadline() if coordinator is not None else None
        if due is None or (partition.due is not None and partition.due <= due):
            return
        if partition.timer is not None:
            partition.timer.cancel()
        partition.due = due
        # One more millisecond: a timer of the loop may fire a fraction early, and would then find nothing due.
        delay = max(0, due - self._clock.now() + 1) / 1000
        partition.timer = asyncio.get_running_loop().call_later(delay, self._expire, partition)

    def _expire(self, partition: Partition) -> None:
        partition.timer = partition.due = None
        if partition.coordinator is None:
            return
        try:
            outcome = partition.coordinator.expire(self._clock.now())
        except Exception:
            log.exception("__consumer_offsets-%d: a deadline could not be handled", partition.number)
            self._forget(partition)
        else:
            self._carry_out(partition, outcome, hold=True)

    async def run(self) -> None:
        """Write flights until :meth:`stop`, and then those that are left."""
        loop = asyncio.get_running_loop()
        while True:
            if not self._next.records:
                if self._stopping:
                    return
                self._wake.clear()
                await self._wake.wait()
                continue
            flight = self._flying = self._next
            self._next = Flight()
            now = self._clock.now()
            writes = [PartitionWrite(number, groups, now) for number, groups in flight.records.items()]
            failures = await loop.run_in_executor(self._thread, self._log.write, writes)
            self._flying = None
            flight.close()
            for number in list(flight.records):
                if number in failures:
                    log.error("__consumer_offsets-%d: write failed: %s", number, failures[number])
                    flight.lost(number, ErrorCode.NOT_COORDINATOR)
                    self._forget(self._partitions[number])
                else:
                    flight.landed(number)

    def _forget(self, partition: Partition) -> None:
        """Throw the partition's state away, with all that was decided on it and not yet written, and read it back.

        After a write of unknown outcome, or a decision that broke off, the state may hold what the disk never will.
        """
        log.error("__consumer_offsets-%d: reloading the partition from disk", partition.number)
        loading = ErrorCode.NOT_COORDINATOR if self._stopping else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        self._retire(partition, loading)
        self._next.lost(partition.number, ErrorCode.NOT_COORDINATOR)
        task = asyncio.get_running_loop().create_task(self._reload(partition))
        self._reloads.add(task)
        task.add_done_callback(self._reloads.discard)

    async def _reload(self, partition: Partition) -> None:
        while not self._stopping:
            try:
                await self._load(partition)
            except CorruptLog as error:
                partition.unavailable = ErrorCode.COORDINATOR_NOT_AVAILABLE
                log.error("%s; the partition is not served until the shim is restarted", error)
                return
            except OSError as error:
                log.error("__consumer_offsets-%d: reload failed, trying again: %s", partition.number, error)
                await asyncio.sleep(RELOAD_RETRY_SECONDS)
            else:
                log.warning("__consumer_offsets-%d: reloaded and served again", partition.number)
                return

    def stop(self) -> None:
        """Take no more requests and answer those that are parked; what is in flight is still written and answered."""
        self._stopping = True
        for partition in self._partitions:
            self._retire(partition, ErrorCode.NOT_COORDINATOR)
        self._wake.set()

    def _retire(self, partition: Partition, unavailable: ErrorCode) -> None:
        """Have no coordinator for the partition; whoever waits for a rebalance looks for the coordinator again."""
        coordinator, partition.coordinator = partition.coordinator, None
        partition.unavailable = unavailable
        if partition.timer is not None:
            partition.timer.cancel()
            partition.timer = partition.due = None
        for ticket in coordinator.parked() if coordinator is not None else ():
            cast(Ticket, ticket).fail(ErrorCode.NOT_COORDINATOR)

    def close(self) -> None:
        """After :meth:`run` has returned."""
        for task in self._reloads:
            task.cancel()
        self._thread.shutdown()
        self._log.close()


def _encoded(key: Any, value: Any) -> Record:
    return encode_key(key), None if value is None else encode_value(value)
