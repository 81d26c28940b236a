"""Drives the coordinators of all offsets partitions and their log: load, decide, append, hold, answer, expire.

Everything here runs on the event loop; what of the log blocks has threads of its own (local.py). A request goes:
decision (the coordinator applies its records to its state) → records into the next flight → flight written and flushed
→ answer.

A ticket is in exactly one place until it is told: with its partition (``waiting``) from the moment the coordinator is
asked, then in a flight while its answer is held. So whatever a decision that breaks off has done to the coordinator's
own books, everybody who waits is found, and nobody is told twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from protocol.errors import ErrorCode
from protocol.partition import partition_for
from shim.config import Settings
from shim.coordinator import GroupCoordinator, GroupMemory, NotServed, Outcome, ReadablePartition
from shim.metrics import CleaningCounts, FlushCounts, StandbyCounts
from shim.runtime.backend import Backend, OwnedElsewhere, Reports, nothing
from shim.runtime.clock import Clock
from shim.runtime.flight import Flight, Ticket
from shim.runtime.keeping import Keeper
from shim.runtime.partition import Decided, Partition, decided

log = logging.getLogger(__name__)

_UNKNOWN: Final[Mapping[int, Exception]] = MappingProxyType({})

Operation = Callable[[GroupCoordinator, int, Ticket], Outcome]
Watcher = Callable[[int, GroupCoordinator | None], None]


class Runtime:
    """Owns offsets partitions of one log: those that :meth:`own` has named last."""

    def __init__(
        self, backend: Backend, settings: Settings, clock: Clock, *, answered: Callable[[], None] = lambda: None
    ) -> None:
        """``answered`` is called when everybody has been told who waited for one write of the log."""
        self._log = backend
        self._clock = clock
        self._partitions = [Partition(number) for number in range(backend.num_partitions)]
        self.lost: Callable[[], None] = lambda: None
        """Called when somebody else has a partition that :meth:`own` has named. It is taken over again when that names
        it again."""
        self.named_owner: Callable[[int], str] = lambda number: ""
        """For people, the other process that is to have a partition; "" where that is not known."""
        self._admitting = False
        self._stopping = False
        self._group_memory = GroupMemory(settings.group_memory_max_bytes)
        backend.attach(
            Reports(lambda number: self._partitions[number].coordinator, self._failed, answered, self._landed)
        )
        self._writes = backend.writes
        self._keeper = Keeper(backend, self._partitions, settings, clock, self._group_memory, self._begins, self._lost)
        self._watchers: list[Watcher] = [self._end_left_open]
        if not backend.is_divided:
            self.own(range(backend.num_partitions))

    @property
    def is_divided(self) -> bool:
        """See :class:`shim.runtime.backend.Backend`."""
        return self._log.is_divided

    @property
    def is_among_shims(self) -> bool:
        """See :class:`shim.runtime.backend.Backend`."""
        return self._log.is_among_shims

    @property
    def num_partitions(self) -> int:
        return len(self._partitions)

    def name_of(self, partition_number: int) -> str:
        """Of its log, for people."""
        return self._log.name_of(partition_number)

    def partition_of(self, group_id: str) -> int:
        return partition_for(group_id, len(self._partitions))

    def take_settings(self, settings: Settings) -> None:
        """Those of the coordinator and of the cleaner that may change; what was decided by now stays."""
        self._keeper.take_settings(settings)
        self._log.take_settings(settings)

    @property
    def log_open(self) -> asyncio.Event:
        """See :class:`shim.runtime.keeping.Keeper`."""
        return self._keeper.log_open

    # -- for whoever measures

    @property
    def flushes(self) -> FlushCounts:
        return self._writes.flushes

    @property
    def cleaning(self) -> CleaningCounts:
        return self._log.cleaning

    @property
    def standbys(self) -> StandbyCounts | None:
        """None where nothing is on topics."""
        return self._log.standbys

    @property
    def complaints(self) -> Sequence[str] | None:
        """What is set so for the log's topics that it may lose what is written; None where it is on none."""
        return self._log.complaints

    @property
    def rebalances(self) -> int:
        """Since the process began."""
        return sum(partition.rebalances for partition in self._partitions)

    @property
    def group_bytes(self) -> int:
        """What groups and members take, as `group.memory.max.bytes` counts it."""
        return self._group_memory.used

    @property
    def unavailable(self) -> Counter[ErrorCode]:
        """Partitions that are to be served here and are not loaded, by what a request would be answered."""
        return Counter(each.unavailable for each in self._partitions if each.is_ours and each.coordinator is None)

    @property
    def held_back(self) -> int:
        """Partitions that are loaded, and that no request reaches before :meth:`admit`."""
        if self._admitting:
            return 0
        return sum(each.is_ours and each.coordinator is not None for each in self._partitions)

    @property
    def failing(self) -> int:
        """Partitions to be served here that are not, as the last write of each has failed."""
        return sum(each.is_ours and each.coordinator is None and bool(each.failing) for each in self._partitions)

    @property
    def owned(self) -> Sequence[int] | None:
        """The partitions that are to be served here; None before the first :meth:`own`."""
        return [each.number for each in self._partitions if each.is_ours] if self._keeper.shared_out.is_set() else None

    def is_elsewhere(self, partition_number: int) -> bool:
        """Whether another process may serve the partition by now, or soon."""
        return not self._stopping and self.why_not(partition_number) is ErrorCode.NOT_COORDINATOR

    def where_it_is(self, partition_number: int) -> str:
        """Of one that is not served here, for people."""
        partition = self._partitions[partition_number]
        if partition.is_to_be_loaded and not self._stopping:
            is_taken_over = self.is_among_shims and not partition.was_forgotten
            return "being taken over, ask again" if is_taken_over else "being read back, ask again"
        if not self.is_elsewhere(partition_number):
            return "not loaded"
        owner = self.named_owner(partition_number)
        return f"at another shim, {owner} (ask its --admin)" if owner else "at another shim"

    def why_not(self, partition_number: int) -> ErrorCode:
        """NONE where the partition is served; otherwise what a request gets."""
        partition = self._partitions[partition_number]
        if partition.coordinator is not None:
            return ErrorCode.NONE if self._admitting else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return partition.unavailable

    @property
    def disk_hangs(self) -> bool:
        """Whether nothing of a partition has become durable for `offsets.commit.timeout.ms`."""
        return any(map(self._writes.hangs, range(len(self._partitions))))

    async def log_bytes(self, patience_seconds: float) -> int | None:
        """Of the offsets log; None where that is not to be had, or not in time, as partitions are being loaded."""
        try:
            async with asyncio.timeout(patience_seconds):
                return await self._log.size()
        except TimeoutError:
            return None

    def admit(self) -> None:
        """Begin to serve, each partition once it is loaded. Until then all are COORDINATOR_LOAD_IN_PROGRESS."""
        if not self._admitting:
            self._admitting = True
            for partition in self._partitions:
                self._tell_watchers(partition)

    def watch(self, watcher: Watcher) -> None:
        """Have this called when a partition begins to be served, and with None when it ends."""
        self._watchers.append(watcher)

    def _tell_watchers(self, partition: Partition) -> None:
        for watcher in self._watchers:
            watcher(partition.number, self.coordinator(partition.number))

    def _end_left_open(self, number: int, coordinator: GroupCoordinator | None) -> None:
        """Of transactions whose offsets were deleted the marker may have been passed over; see follow_end."""
        for producer in coordinator.left_open() if coordinator is not None else ():
            self.decide(number, partial(GroupCoordinator.end_left_open, producer=producer))

    # -- whose partitions are

    def own(self, numbers: Collection[int], followed: Collection[int] = ()) -> None:
        """Serve these, and no others: what is not among them is given up when what was decided is written. One of them
        that is not served, as it was lost or could not be used, is tried again. ``followed``: partitions of others that
        may be this one's soon."""
        given_up: list[Partition] = []
        new: list[Partition] = []
        lost: list[Ticket] = []
        for partition in self._partitions:
            partition.is_ours = partition.number in numbers
            if not partition.is_ours:
                if partition.unavailable is not ErrorCode.NOT_COORDINATOR or partition.coordinator is not None:
                    given_up.append(partition)
                lost += partition.retire(ErrorCode.NOT_COORDINATOR)
            elif partition.coordinator is None:
                if partition.unavailable is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                    new.append(partition)
                partition.unavailable = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        self._keeper.shares_out(new, [each for each in self._partitions if not each.is_ours])
        for partition in given_up:
            self._tell_watchers(partition)
        for ticket in lost:
            ticket.fail(ErrorCode.NOT_COORDINATOR)
        self._keeper.see_to(self._partitions)
        # Then, as what of them is taken over from here on goes on with what was followed.
        self._log.stand_by(frozenset(followed).difference(numbers))

    def reload(self, number: int) -> None:
        """Have the partition read back once what was decided is written; it need not be where it was. Whoever asks for
        it meanwhile, or is parked, is told to ask again."""
        partition = self._partitions[number]
        lost = partition.retire(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        self._tell_watchers(partition)
        for ticket in lost:
            ticket.fail(ErrorCode.NOT_COORDINATOR)
        self._keeper.see_to([partition])

    async def load(self) -> None:
        """Read back every partition that is owned, each served from then on; see :meth:`Keeper.load`."""
        await self._keeper.load()

    def _begins(self, partition: Partition) -> None:
        self._arm(partition)
        self._tell_watchers(partition)

    def _lost(self, partition: Partition) -> None:
        self._tell_watchers(partition)
        if partition.is_ours:
            self.lost()

    # -- requests

    def submit(self, partition_number: int, operation: Operation, ticket: Ticket, *, after_flight: bool = True) -> None:
        """Let the partition's coordinator decide; the ticket is answered when what it depends on is durable.

        ``after_flight=False`` is for an answer that tells nothing of what is written (a heartbeat's): it waits only for
        records of its own decision.
        """
        partition = self._partitions[partition_number]
        if partition.coordinator is None or not self._admitting:
            ticket.fail(partition.unavailable)
        elif after_flight and self._writes.hangs(partition_number):
            # Whatever is decided now would be refused. So it is not: nothing piles up in memory.
            ticket.fail(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        else:
            partition.waiting[ticket] = ticket
            try:
                outcome = decided(partition, operation(partition.coordinator, self._clock.now(), ticket))
            except NotServed:
                del partition.waiting[ticket]
                ticket.fail(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            except Exception:
                log.exception("%s: a request could not be decided", self.name_of(partition_number))
                del partition.waiting[ticket]
                self._forget([partition])
                ticket.fail(ErrorCode.UNKNOWN_SERVER_ERROR)
            else:
                self._carry_out(partition, outcome, after_flight=after_flight)

    def decide(self, partition_number: int, decision: Callable[[GroupCoordinator, int], Outcome]) -> None:
        """Let the partition's coordinator decide something that nobody has asked for; nothing while it has none."""
        partition = self._partitions[partition_number]
        if partition.coordinator is None:
            return
        try:
            outcome = decided(partition, decision(partition.coordinator, self._clock.now()))
        except Exception:
            log.exception("%s: a decision that nobody waits for broke off", self.name_of(partition_number))
            self._forget([partition])
        else:
            self._carry_out(partition, outcome, after_flight=True)

    def coordinator(self, partition_number: int) -> GroupCoordinator | None:
        """None while the partition is not served. What is asked of it directly need not be durable."""
        return self._partitions[partition_number].coordinator if self._admitting else None

    async def settled(self, partition_number: int) -> None:
        """Wait until what was decided by now is durable, and nobody else has the log, or until that has failed: then
        the partition has another coordinator, or none."""
        is_served = self._partitions[partition_number].coordinator is not None
        flight = self._writes.awaited(partition_number) if is_served else self._writes.flight_of(partition_number)
        if flight is not None:
            await flight.over.wait()

    def ask(self, partition_number: int, question: Callable[[ReadablePartition], Any], ticket: Ticket) -> None:
        """A question that decides nothing (a list of groups); answered when all that it saw is durable."""
        partition = self._partitions[partition_number]
        if partition.coordinator is None or not self._admitting:
            ticket.fail(partition.unavailable)
            return
        try:
            response = question(partition.coordinator)
        except NotServed:
            ticket.fail(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        except Exception:
            log.exception("%s: a question could not be answered", self.name_of(partition_number))
            ticket.fail(ErrorCode.UNKNOWN_SERVER_ERROR)
        else:
            _tell([(ticket, response)], partition_number, self._writes.awaited(partition_number))

    def durable(self, partition_number: int) -> ReadablePartition | None:
        """The coordinator, if it is served and all that it has decided is durable: an answer waits for nothing."""
        coordinator = self.coordinator(partition_number)
        return coordinator if coordinator is not None and self._writes.may_tell(partition_number) else None

    def is_surely_ours(self, partition_number: int) -> bool:
        """Whether no other process can have the partition by now. It has not, either, when something that is
        asked for from now on (:meth:`ask`) is answered."""
        return self._writes.is_surely_ours(partition_number)

    # -- from decision to answer

    def _carry_out(self, partition: Partition, outcome: Decided, *, after_flight: bool) -> None:
        number, writes = partition.number, self._writes
        batches, history, answers, state = outcome
        for ticket, _ in answers:
            del partition.waiting[ticket]
        for batch in batches:
            writes.append(number, batch, history)
            history = []
        if state:
            writes.append_state(number, list(state))
        if answers:
            _tell(answers, number, writes.awaited(number) if after_flight or batches or state else None)
        self._arm(partition)

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
        if partition.coordinator is None:
            return
        try:
            outcome = decided(partition, partition.coordinator.expire(self._clock.now()))
        except Exception:
            log.exception("%s: a deadline could not be handled", self.name_of(partition.number))
            self._forget([partition])
        else:
            self._carry_out(partition, outcome, after_flight=True)

    async def run(self) -> None:
        """Have written what is decided, until :meth:`stop`, and then what is left."""
        await self._writes.run()

    def _failed(self, failed: Mapping[int, Exception], flight: Flight | None) -> None:
        for number, error in failed.items():
            if not isinstance(error, OwnedElsewhere):
                is_new = self._partitions[number].failing.failed(self._clock.now(), error)
                level = logging.ERROR if is_new else logging.DEBUG
                name = self.name_of(number)
                log.log(level, "%s: a write failed, and it is read back for now: %s", name, error)
        self._forget([self._partitions[number] for number in failed], flight, failed)

    def _landed(self, number: int) -> None:
        if failing := self._partitions[number].failing:
            failing.landed()
            log.info("%s: it is written again", self.name_of(number))

    # -- after a failure

    def _forget(
        self, partitions: Sequence[Partition], failed: Flight | None = None, why: Mapping[int, Exception] = _UNKNOWN
    ) -> None:
        """Throw the partitions' state away, with all that was decided on it and not yet written, and read it back; but
        for one that is OwnedElsewhere.

        After a write of unknown outcome (``failed``), or a decision that broke off, the state may hold what the log
        never will.

        First nobody can ask any of them any more, then those who waited are told: being told, a client may ask again
        at once.
        """
        lost: list[Ticket] = []
        elsewhere: list[tuple[Partition, OwnedElsewhere]] = []
        for partition in partitions:
            number = partition.number
            partition.last = None
            if partition.coordinator is not None:
                error = why.get(number)
                if isinstance(error, OwnedElsewhere):
                    elsewhere.append((partition, error))
                    lost += partition.retire(ErrorCode.NOT_COORDINATOR)
                else:
                    if error is None:  # otherwise it was said of the write
                        log.error("%s: reloading the partition from its log", self.name_of(number))
                    partition.was_forgotten = True
                    lost += partition.retire(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
                self._tell_watchers(partition)
            # Otherwise the shim is stopping, it was given up, or a reload is under way, which has waited for the
            # failed write.
            lost += self._writes.lost(number)
            if failed is not None:
                lost += failed.lost(number)
        for ticket in lost:
            ticket.fail(ErrorCode.NOT_COORDINATOR)
        for partition, error in elsewhere:
            self._keeper.lose(partition, error)
        self._keeper.see_to(partitions)

    # -- the end

    def stop(self) -> None:
        """Take no more requests and answer those that are parked; what is in flight is still written and answered."""
        self._stopping = True
        self._keeper.stop()
        self._log.stop()
        parked = []
        for partition in self._partitions:
            if partition.coordinator is not None:
                partition.last = partition.coordinator
            parked += partition.retire(ErrorCode.NOT_COORDINATOR)
            self._tell_watchers(partition)
        for ticket in parked:
            ticket.fail(ErrorCode.NOT_COORDINATOR)

    async def close(self, timeout_seconds: float, given_up: Callable[[], Awaitable[None]] = nothing) -> None:
        """Close the log, after :meth:`stop`, and when :meth:`run` has returned or been given up.

        ``given_up``, and what it raises: as :meth:`Backend.close`.
        """
        await self._keeper.end(timeout_seconds)
        last = [(each.number, each.last) for each in self._partitions if each.last is not None]
        await self._log.close(last, timeout_seconds, given_up)


def _tell(answers: Iterable[tuple[Ticket, Any]], partition_number: int, flight: Flight | None) -> None:
    for ticket, response in answers:
        if flight is None:
            ticket.answer(response)
        else:
            flight.hold(partition_number, ticket, response)
