"""Drives the coordinators of all offsets partitions and their log: load, decide, append, hold, answer, expire.

Everything here runs on the event loop but the log's own calls, which block: writes run in one thread (writer.py),
recoveries in another, so that reading one partition back holds up no other's writes; snapshots and compaction have
threads, too. A request goes: decision (the coordinator applies its records to its state) → records into the next flight
→ flight written and flushed → answer.

A ticket is in exactly one place until it is told: with its partition (``waiting``) from the moment the coordinator is
asked, then in a flight while its answer is held. So whatever a decision that breaks off has done to the coordinator's
own books, everybody who waits is found, and nobody is told twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from protocol.errors import ErrorCode
from protocol.partition import partition_for
from shim.config import Settings
from shim.coordinator import CoordinatorSettings, GroupCoordinator, GroupMemory, NotServed, Outcome
from shim.log import OFFSETS_TOPIC, LogError, OffsetsLog
from shim.log.cleaner.cleaning import CleanerStats
from shim.log.files import Files
from shim.logged_once import LoggedOnce
from shim.metrics import CleaningCounts, FlushCounts
from shim.runtime.cleaning_thread import CleaningThread
from shim.runtime.clock import Clock
from shim.runtime.flight import Flight, Ticket
from shim.runtime.loading import Loader
from shim.runtime.partition import Decided, Partition, decided
from shim.runtime.snapshots import Snapshots
from shim.runtime.writer import Writer

log = logging.getLogger(__name__)

RELOAD_RETRY_SECONDS = 1.0

LAST_SNAPSHOTS_SECONDS = 4.0
"""How long snapshots are still taken at the end."""

Operation = Callable[[GroupCoordinator, int, Ticket], Outcome]
Watcher = Callable[[int, GroupCoordinator | None], None]


class Runtime:
    """Owns every offsets partition of one data directory."""

    def __init__(
        self,
        offsets_log: OffsetsLog,
        settings: Settings,
        clock: Clock,
        *,
        files: Files | None = None,
        answered: Callable[[], None] = lambda: None,
    ) -> None:
        """The log has the topics that the settings ask for: :func:`shim.runtime.opening.open_log` opens it so.

        ``files``: the log's own, if they are not the usual ones. ``answered`` is called when everybody has been told
        who waited for one write of the log.
        """
        files = files or Files()
        self._log = offsets_log
        self._clock = clock
        self._partitions = [Partition(number) for number in range(settings.offsets_topic_num_partitions)]
        self._recoverer = ThreadPoolExecutor(1, thread_name_prefix="log-recover")
        self._reloads: set[asyncio.Task[None]] = set()
        self._admitting = False
        self._stopping = False
        self._loader = Loader(offsets_log, CoordinatorSettings.of(settings), lambda: self._stopping)
        self._group_memory = GroupMemory(settings.group_memory_max_bytes)
        self._snapshots = Snapshots(
            offsets_log, lambda number: self._partitions[number].coordinator, lambda: self._writer.wake()
        )
        commit_timeout = settings.offsets_commit_timeout_ms / 1000
        self._writer = Writer(offsets_log, self._snapshots, clock, commit_timeout, self._failed, answered)
        self._cleaning = CleaningThread(offsets_log, settings, clock, files, self._cleaned)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._watchers: list[Watcher] = [self._end_left_open]

    @property
    def num_partitions(self) -> int:
        return len(self._partitions)

    def partition_of(self, group_id: str) -> int:
        return partition_for(group_id, len(self._partitions))

    def take_settings(self, settings: Settings) -> None:
        """Those of the coordinator and of the cleaner that may change; what was decided by now stays."""
        self._loader.settings = CoordinatorSettings.of(settings)
        for partition in self._partitions:
            if partition.coordinator is not None:
                partition.coordinator.take_settings(self._loader.settings)
        self._cleaning.take_settings(settings)

    # -- for whoever measures

    @property
    def flushes(self) -> FlushCounts:
        return self._writer.flushes

    @property
    def cleaning(self) -> CleaningCounts:
        return self._cleaning.counts

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
        """Partitions that no request reaches, by what it would be answered."""
        return Counter(
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if each.coordinator is not None else each.unavailable
            for each in self._partitions
            if each.coordinator is None or not self._admitting
        )

    @property
    def disk_hangs(self) -> bool:
        """Whether nothing has become durable for `offsets.commit.timeout.ms`."""
        return self._writer.hangs

    async def log_bytes(self, patience_seconds: float) -> int | None:
        """Of the offsets log, on disk; None where that is not to be had in time, as partitions are being loaded."""
        loop, numbers = asyncio.get_running_loop(), range(len(self._partitions))
        try:
            async with asyncio.timeout(patience_seconds):
                return await loop.run_in_executor(self._recoverer, lambda: sum(map(self._loader.size, numbers)))
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

    # -- loading

    async def load(self) -> None:
        """Read every partition back, each served from then on; :meth:`stop` ends it early.

        The largest come last, so that most are served soon. From then on the log is cleaned, too.

        One whose log cannot be used is not served (COORDINATOR_NOT_AVAILABLE), one of which a call failed is tried
        again. Raises :class:`shim.log.LogError` and :class:`OSError`, of the first, when none could be read back.
        """
        self._loop = asyncio.get_running_loop()
        numbers = range(len(self._partitions))
        sizes = await self._loop.run_in_executor(self._recoverer, lambda: [self._loader.size(n) for n in numbers])
        progress = self._loader.progress
        progress.expect(sizes)
        failed: dict[Partition, Exception] = {}
        for partition in sorted(self._partitions, key=lambda partition: sizes[partition.number]):
            if self._stopping:
                return
            try:
                from_snapshot = await self._load(partition)
            except OSError as error:
                log.error("__consumer_offsets-%d: loading failed, it will be tried again: %s", partition.number, error)
                failed[partition] = error
            except Exception as error:
                self._cannot_serve(partition, error)
                failed[partition] = error
            else:
                progress.loaded(sizes[partition.number], from_snapshot=from_snapshot)
        if len(failed) == len(self._partitions):
            raise next(iter(failed.values()))
        for partition, why in failed.items():
            progress.failed(sizes[partition.number])
            if isinstance(why, OSError):
                self._begin_reload(partition, None)
        self._cleaning.start()

    async def _load(self, partition: Partition) -> bool:
        """Whether it was from a snapshot."""
        loop = asyncio.get_running_loop()
        loaded = await loop.run_in_executor(self._recoverer, self._loader.load, partition.number)
        from_snapshot = loaded.snapshot_offset > 0
        if self._stopping:
            return from_snapshot
        coordinator = loaded.coordinator
        coordinator.take_settings(self._loader.settings)  # they may have changed meanwhile
        coordinator.loaded(self._clock.now(), self._group_memory)
        partition.coordinator = coordinator
        self._writer.loaded(partition.number, has_history=loaded.has_history)
        self._snapshots.loaded(partition.number, loaded.replayed, loaded.snapshot_offset)
        self._arm(partition)
        self._tell_watchers(partition)
        return from_snapshot

    # -- requests

    def submit(self, partition_number: int, operation: Operation, ticket: Ticket, *, after_flight: bool = True) -> None:
        """Let the partition's coordinator decide; the ticket is answered when what it depends on is durable.

        ``after_flight=False`` is for an answer that tells nothing of what is written (a heartbeat's): it waits only for
        records of its own decision.
        """
        partition = self._partitions[partition_number]
        if partition.coordinator is None or not self._admitting:
            ticket.fail(partition.unavailable)
        elif after_flight and self._writer.hangs:
            # The disk hangs, and whatever is decided now would be refused. So it is not: nothing piles up in memory.
            ticket.fail(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        else:
            partition.waiting[ticket] = ticket
            try:
                outcome = decided(partition, operation(partition.coordinator, self._clock.now(), ticket))
            except NotServed:
                del partition.waiting[ticket]
                ticket.fail(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            except Exception:
                log.exception("__consumer_offsets-%d: a request could not be decided", partition_number)
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
            log.exception("__consumer_offsets-%d: a decision that nobody waits for broke off", partition_number)
            self._forget([partition])
        else:
            self._carry_out(partition, outcome, after_flight=True)

    def coordinator(self, partition_number: int) -> GroupCoordinator | None:
        """None while the partition is not served. What is asked of it directly need not be durable."""
        return self._partitions[partition_number].coordinator if self._admitting else None

    async def settled(self, partition_number: int) -> None:
        """Wait until what was decided by now is durable, or has failed."""
        flight = self._writer.flight_of(partition_number)
        if flight is not None:
            await flight.over.wait()

    def ask(self, partition_number: int, question: Callable[[GroupCoordinator], Any], ticket: Ticket) -> None:
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
            log.exception("__consumer_offsets-%d: a question could not be answered", partition_number)
            ticket.fail(ErrorCode.UNKNOWN_SERVER_ERROR)
        else:
            flight = self._writer.flight_of(partition_number)
            if flight is None:
                ticket.answer(response)
            else:
                flight.hold(partition_number, ticket, response)

    def durable(self, partition_number: int) -> GroupCoordinator | None:
        """The coordinator, if it is served and all that it has decided is durable: an answer waits for nothing."""
        return None if self._writer.flight_of(partition_number) else self.coordinator(partition_number)

    # -- from decision to answer

    def _carry_out(self, partition: Partition, outcome: Decided, *, after_flight: bool) -> None:
        number, writer = partition.number, self._writer
        batches, history, answers, state = outcome
        for ticket, _ in answers:
            del partition.waiting[ticket]
        for batch in batches:
            writer.append(number, batch, history)
            history = []
        if state:
            writer.append_state(number, list(state))
        _tell(answers, number, writer.flight_of(number) if after_flight or batches or state else None)
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
            log.exception("__consumer_offsets-%d: a deadline could not be handled", partition.number)
            self._forget([partition])
        else:
            self._carry_out(partition, outcome, after_flight=True)

    async def run(self) -> None:
        """Have written what is decided, until :meth:`stop`, and then what is left."""
        await self._writer.run()

    def _failed(self, failed: Mapping[int, OSError], flight: Flight | None) -> None:
        for number, error in failed.items():
            log.error("__consumer_offsets-%d: a write failed: %s", number, error)
        self._forget([self._partitions[number] for number in failed], flight)

    def _cleaned(self, stats: CleanerStats) -> None:
        """In the cleaner's thread."""
        if self._loop is not None and not self._stopping and stats.partition.topic == OFFSETS_TOPIC:
            self._loop.call_soon_threadsafe(self._snapshots.compacted, stats.partition.partition)

    # -- after a failure

    def _forget(self, partitions: Iterable[Partition], failed: Flight | None = None) -> None:
        """Throw the partitions' state away, with all that was decided on it and not yet written, and read it back.

        After a write of unknown outcome (``failed``), or a decision that broke off, the state may hold what the disk
        never will.

        First nobody can ask any of them any more, then those who waited are told: being told, a client may ask again
        at once.
        """
        lost: list[Ticket] = []
        for partition in partitions:
            number = partition.number
            partition.last = None
            if partition.coordinator is not None:
                log.error("__consumer_offsets-%d: reloading the partition from disk", number)
                lost += partition.retire(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
                self._tell_watchers(partition)
                # What of the partition is being written has to be on disk, or to have failed, before it is read back.
                self._begin_reload(partition, self._writer.flying_of(number))
            # Otherwise the shim is stopping, or a reload is under way, which has waited for the failed write.
            lost += self._writer.lost(number)
            if failed is not None:
                lost += failed.lost(number)
        for ticket in lost:
            ticket.fail(ErrorCode.NOT_COORDINATOR)

    def _begin_reload(self, partition: Partition, flying: Flight | None) -> None:
        task = asyncio.get_running_loop().create_task(self._reload(partition, flying))
        self._reloads.add(task)
        task.add_done_callback(self._reloads.discard)

    async def _reload(self, partition: Partition, flying: Flight | None) -> None:
        if flying is not None:
            await flying.over.wait()
        number, trouble = partition.number, LoggedOnce(log)
        while not self._stopping:
            try:
                await self._load(partition)
            except OSError as error:
                trouble.failed(f"__consumer_offsets-{number}: reload failed, trying again", error)
                await asyncio.sleep(RELOAD_RETRY_SECONDS)
            except Exception as error:
                self._cannot_serve(partition, error)
                return
            else:
                log.warning("__consumer_offsets-%d: reloaded and served again", number)
                return

    def _cannot_serve(self, partition: Partition, error: Exception) -> None:
        partition.unavailable = ErrorCode.COORDINATOR_NOT_AVAILABLE
        if isinstance(error, LogError):
            log.error("%s; __consumer_offsets-%d is not served: see offset-shim log verify", error, partition.number)
        else:
            log.error(
                "%s; __consumer_offsets-%d is not served until a restart", error, partition.number, exc_info=error
            )

    # -- the end

    def stop(self) -> None:
        """Take no more requests and answer those that are parked; what is in flight is still written and answered."""
        self._stopping = True
        self._cleaning.stop()
        self._snapshots.stop()
        parked = []
        for partition in self._partitions:
            if partition.coordinator is not None:
                partition.last = partition.coordinator
            parked += partition.retire(ErrorCode.NOT_COORDINATOR)
            self._tell_watchers(partition)
        for ticket in parked:
            ticket.fail(ErrorCode.NOT_COORDINATOR)
        self._writer.stop()

    async def close(self, timeout_seconds: float) -> None:
        """Close the log, after :meth:`stop`, and when :meth:`run` has returned or been given up.

        Where it has returned, snapshots are taken for the next start, for LAST_SNAPSHOTS_SECONDS at most.

        Raises TimeoutError when the disk does not let go of the log's threads by then. Python waits for its threads at
        exit, so only ``os._exit`` ends the process after that.
        """
        for task in self._reloads:
            task.cancel()
        self._writer.close()
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(timeout_seconds):
            await loop.run_in_executor(self._recoverer, self._cleaning.join)
            await self._snapshots.ended()
        if self._writer.all_written:
            last = [(each.number, each.last) for each in self._partitions if each.last is not None]
            async with asyncio.timeout(LAST_SNAPSHOTS_SECONDS + timeout_seconds):
                await self._writer.in_thread(self._snapshots.take_last, last, LAST_SNAPSHOTS_SECONDS)
        async with asyncio.timeout(timeout_seconds):
            await self._writer.in_thread(self._log.close)
        self._snapshots.shutdown()
        self._recoverer.shutdown()
        self._writer.shutdown()


def _tell(answers: Iterable[tuple[Ticket, Any]], partition_number: int, flight: Flight | None) -> None:
    for ticket, response in answers:
        if flight is None:
            ticket.answer(response)
        else:
            flight.hold(partition_number, ticket, response)
