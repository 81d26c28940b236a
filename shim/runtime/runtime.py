"""A request's way through the coordinators of all offsets partitions and their log: decide, append, hold, answer.

Everything here runs on the event loop; what of a log blocks has threads of its own. A request goes:
decision (the coordinator applies its records to its state) → records into the next flight → flight written and flushed
→ answer.

A ticket is in exactly one place until it is told: with its partition (``waiting``) from the moment the coordinator is
asked, then in a flight while its answer is held. So whatever a decision that breaks off has done to the coordinator's
own books, everybody who waits is found, and nobody is told twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from protocol.errors import ErrorCode
from shim.config import Settings
from shim.coordinator import GroupCoordinator, NotServed, Outcome, ReadablePartition
from shim.runtime.backend import Backend
from shim.runtime.clock import Clock
from shim.runtime.encoding import Decided, encoded
from shim.runtime.flight import Flight, Ticket
from shim.runtime.partition import Partition
from shim.runtime.served import ServedPartitions

log = logging.getLogger(__name__)

Operation = Callable[[GroupCoordinator, int, Ticket], Outcome]
Decision = Callable[[GroupCoordinator, int], Outcome]


class Runtime(ServedPartitions):
    """Owns offsets partitions of one log, and has their coordinators decide."""

    def __init__(
        self, backend: Backend, settings: Settings, clock: Clock, *, answered: Callable[[], None] = lambda: None
    ) -> None:
        """``answered`` is called when everybody has been told who waited for one write of the log."""
        super().__init__(backend, settings, clock, answered, self._arm)
        self.watch(self._end_left_open)

    async def run(self) -> None:
        """Have written what is decided, until :meth:`stop`, and then what is left."""
        await self._log.run()

    # -- a request

    def submit(self, partition_number: int, operation: Operation, ticket: Ticket, *, after_flight: bool = True) -> None:
        """Let the partition's coordinator decide; the ticket is answered when what it depends on is durable.

        ``after_flight=False`` is for an answer that tells nothing of what is written (a heartbeat's): it waits only for
        records of its own decision.
        """
        partition = self._partitions[partition_number]
        coordinator = partition.served
        if coordinator is None:
            ticket.fail(partition.why_not)
        elif after_flight and self._writes_of(partition_number).hangs(partition_number):
            # Whatever is decided now would be refused. So it is not: nothing piles up in memory.
            ticket.fail(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        else:
            partition.waiting[ticket] = ticket
            try:
                decided = encoded(partition.waiting, operation(coordinator, self._clock.now(), ticket))
            except NotServed:
                del partition.waiting[ticket]
                ticket.fail(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            except Exception:
                del partition.waiting[ticket]  # it has an answer of its own
                self._broke_off(partition, "a request could not be decided")
                ticket.fail(ErrorCode.UNKNOWN_SERVER_ERROR)
            else:
                self._carry_out(partition, decided, after_flight=after_flight)

    def _carry_out(self, partition: Partition, decided: Decided, *, after_flight: bool) -> None:
        number, writes = partition.number, self._writes_of(partition.number)
        batches, history, answers, state, events = decided
        if events:
            self._telling.tell(events)
        for ticket, _ in answers:
            del partition.waiting[ticket]
        if state:
            writes.append_state(number, list(state))
        for batch in batches:
            writes.append(number, batch, history)
            history = ()
        if answers:
            _tell(answers, number, writes.awaited(number) if after_flight or batches or state else None)
        self._arm(partition)

    def _broke_off(self, partition: Partition, what: str) -> None:
        """While its exception is handled: what it has done to the state by then, nobody knows."""
        log.exception("%s: %s", self.name_of(partition.number), what)
        self._forget([partition])

    # -- what decides nothing

    def ask(self, partition_number: int, question: Callable[[ReadablePartition], Any], ticket: Ticket) -> None:
        """A question that decides nothing (a list of groups); answered when all that it saw is durable."""
        partition = self._partitions[partition_number]
        if partition.served is None:
            ticket.fail(partition.why_not)
            return
        try:
            response = question(partition.served)
        except NotServed:
            ticket.fail(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        except Exception:
            log.exception("%s: a question could not be answered", self.name_of(partition_number))
            ticket.fail(ErrorCode.UNKNOWN_SERVER_ERROR)
        else:
            _tell([(ticket, response)], partition_number, self._writes_of(partition_number).awaited(partition_number))

    def durable(self, partition_number: int) -> ReadablePartition | None:
        """The coordinator, if it is served and all that it has decided is durable: an answer waits for nothing."""
        coordinator = self.coordinator(partition_number)
        if coordinator is None or not self._writes_of(partition_number).may_tell(partition_number):
            return None
        return coordinator

    async def settled(self, partition_number: int) -> None:
        """Wait until what was decided by now is durable, and nobody else has the log, or until that has failed: then
        the partition has another coordinator, or none."""
        is_loaded = self._partitions[partition_number].coordinator is not None
        writes = self._writes_of(partition_number)
        flight = writes.awaited(partition_number) if is_loaded else writes.flight_of(partition_number)
        if flight is not None:
            await flight.over.wait()

    # -- what nobody has asked for

    def decide(self, partition_number: int, decision: Decision) -> None:
        """Let the partition's coordinator decide something that nobody has asked for; nothing while it has none."""
        self._decide(self._partitions[partition_number], decision, "a decision that nobody waits for broke off")

    def _end_left_open(self, number: int, coordinator: GroupCoordinator | None) -> None:
        """Of transactions whose offsets were deleted the marker may have been passed over; see follow_end."""
        for producer in coordinator.left_open() if coordinator is not None else ():
            self.decide(number, partial(GroupCoordinator.end_left_open, producer=producer))

    def _arm(self, partition: Partition) -> None:
        """Have the loop call when the coordinator's earliest deadline is due."""
        coordinator = partition.coordinator
        if coordinator is None or (partition.due is not None and not coordinator.may_be_due_before(partition.due)):
            return
        due = coordinator.next_deadline()
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
        self._decide(partition, GroupCoordinator.expire, "a deadline could not be handled")

    def _decide(self, partition: Partition, decision: Decision, broken_off: str) -> None:
        """``broken_off`` is the line where it does."""
        if partition.coordinator is None:
            return
        try:
            decided = encoded(partition.waiting, decision(partition.coordinator, self._clock.now()))
        except Exception:
            self._broke_off(partition, broken_off)
        else:
            self._carry_out(partition, decided, after_flight=True)


def _tell(answers: Iterable[tuple[Ticket, Any]], partition_number: int, flight: Flight | None) -> None:
    for ticket, response in answers:
        if flight is None:
            ticket.answer(response)
        else:
            flight.hold(partition_number, ticket, response)
