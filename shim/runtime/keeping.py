"""Sees to it that each partition that is to be served here is read back, and each other one given up."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from typing import Any, Final

from protocol.errors import ErrorCode
from shim.config import Settings
from shim.coordinator import GroupMemory
from shim.counted import counted
from shim.log import LogError
from shim.logged_once import LoggedOnce
from shim.runtime.backend import Backend, OwnedElsewhere
from shim.runtime.clock import Clock
from shim.runtime.flight import Flight
from shim.runtime.partition import Partition
from shim.runtime.progress import NewShare
from shim.runtime.telling import Telling

log = logging.getLogger(__name__)

RELOAD_RETRY_SECONDS: Final = 1.0


class Keeper:
    """Loads and releases partitions, as :attr:`Partition.is_ours` and ``unavailable`` ask for, which others set."""

    def __init__(
        self,
        backend: Backend,
        partitions: Sequence[Partition],
        settings: Settings,
        clock: Clock,
        group_memory: GroupMemory,
        telling: Telling,
        begins: Callable[[Partition], None],
        lost: Callable[[Partition], None],
    ) -> None:
        """``begins`` is told of a partition that was read back and is served from now on; ``lost`` of one that another
        process has."""
        self._log = backend
        self._partitions = partitions
        self._clock = clock
        self._group_memory = group_memory
        self._telling = telling
        self._begins = begins
        self._lost = lost
        self._given = settings
        self._settings = backend.coordinator_settings(settings)
        self._seen_to: dict[Partition, asyncio.Task[None]] = {}
        self._pausing: dict[Partition, asyncio.Event] = {}
        self._new = NewShare()
        self.log_open = asyncio.Event()
        """Set when partitions can be loaded: where the log is on topics, these are ready."""
        self.shared_out = asyncio.Event()
        """Set when it is known for the first time which partitions are to be served here, and when it ends."""
        self._begun = False
        self._stopping = False

    def take_settings(self, settings: Settings) -> None:
        """Those of coordinators that may change."""
        self._given = settings
        self._settings = self._log.coordinator_settings(settings)
        for partition in self._partitions:
            if partition.coordinator is not None:
                partition.coordinator.take_settings(self._settings)

    def stop(self) -> None:
        """Begin nothing any more."""
        self._stopping = True
        self.shared_out.set()

    async def end(self, timeout_seconds: float) -> None:
        """Break off what is under way, after :meth:`stop`, and wait until it has let go of the log."""
        tasks = list(self._seen_to.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=timeout_seconds)

    async def load(self) -> None:
        """Read back every partition that is owned, each served from then on; :meth:`stop` ends it early. Waits until
        they are shared out.

        The largest come last, so that most are served soon. From then on the log is cleaned, too.

        One whose log cannot be used is not served (COORDINATOR_NOT_AVAILABLE), one of which a call failed is tried
        again. Raises :class:`shim.log.LogError` and what is :attr:`Backend.passing`, of the first, when none could be
        read back.
        """
        await self._log.open()
        self.log_open.set()
        self._settings = self._log.coordinator_settings(self._given)
        sizes = await self._log.sizes()
        await self.shared_out.wait()
        self._begun = True
        owned = sorted((each for each in self._partitions if each.is_ours), key=lambda each: sizes[each.number])
        self._log.progress.expect([sizes[each.number] for each in owned])
        self._expect(owned)
        if self._log.is_among_shims and owned:  # brokers take their time, and until then there is nothing to count
            log.info(
                "loading: %s to be taken over on topics of the cluster, and read", counted(len(owned), "partition")
            )
        failed: dict[Partition, Exception] = {}
        places = asyncio.Semaphore(self._log.loads_at_once)

        async def load(partition: Partition) -> None:
            async with places:
                if partition.is_to_be_loaded and not self._stopping:
                    await self._load_first(partition, sizes[partition.number], failed)
            if partition.is_to_be_released:
                await self._put_right(partition)

        for partition in owned:
            self._begin(partition, load)
        await asyncio.gather(*(self._seen_to[each] for each in owned if each in self._seen_to))
        if self._stopping:
            return
        if failed and len(failed) == len(owned):
            raise next(iter(failed.values()))
        for partition in failed:
            self._log.progress.failed(sizes[partition.number])
        self.see_to(self._partitions)
        self._log.begin_cleaning()

    async def _load_first(self, partition: Partition, size: int, failed: dict[Partition, Exception]) -> None:
        try:
            from_snapshot = await self._load(partition)
        except OwnedElsewhere as error:
            self.lose(partition, error)
        except self._log.passing as error:
            log.error("%s: loading failed, it will be tried again: %s", self._name(partition), error)
            failed[partition] = error
        except Exception as error:
            self._cannot_serve(partition, error)
            failed[partition] = error
        else:
            self._log.progress.loaded(size, from_snapshot=from_snapshot)

    async def _load(self, partition: Partition) -> bool:
        """Whether it was from a snapshot."""
        partition.is_held = True
        loaded = await self._log.load(partition.number)
        from_snapshot = loaded.snapshot_offset > 0
        if self._stopping or not partition.is_ours:
            return from_snapshot
        loaded.coordinator.take_settings(self._settings)  # they may have changed meanwhile
        self._telling.tell(loaded.coordinator.loaded(self._clock.now(), self._group_memory))
        partition.begin(loaded.coordinator)
        self._log.loaded(partition.number, loaded)
        if partition.was_forgotten:
            partition.was_forgotten = False
            # Whether it can be written again is not known then, and it is said once that it is.
            level = logging.DEBUG if partition.failing else logging.INFO
            log.log(level, "%s: reloaded and served again", self._name(partition))
        self._begins(partition)
        self._new.served(partition, self._clock.now())
        return from_snapshot

    def shares_out(self, new: Collection[Partition], others: Iterable[Partition]) -> None:
        """Of those that are to be served here, these were not; and the others are not to be."""
        if self._begun:  # otherwise they are among those that are loaded first
            self._new.comes(new, self._clock.now())
        for partition in others:
            self._new.left(partition, self._clock.now())
        self.shared_out.set()

    def see_to(self, partitions: Iterable[Partition]) -> None:
        """Have them loaded and given up as they should be; at most one thing at a time is done with each."""
        if not self._begun:
            return
        wanted = []
        for partition in partitions:
            if partition.is_to_be_released and partition in self._pausing:
                self._pausing[partition].set()
            if (partition.is_to_be_loaded or partition.is_to_be_released) and partition not in self._seen_to:
                wanted.append(partition)
        self._expect(each for each in wanted if each.is_to_be_loaded and not self._has_to_wait(each))
        for partition in wanted:
            self._begin(partition, self._put_right)

    def _name(self, partition: Partition) -> str:
        return self._log.name_of(partition.number)

    def _has_to_wait(self, partition: Partition) -> bool:
        return self._flight_of(partition) is not None or partition.failing.left(self._clock.now()) > 0

    def _flight_of(self, partition: Partition) -> Flight | None:
        return self._log.writes_of(partition.number).flight_of(partition.number)

    def _expect(self, partitions: Iterable[Partition]) -> None:
        numbers = []
        for partition in partitions:
            partition.is_held = True
            numbers.append(partition.number)
        self._log.expect(numbers)

    def _begin(self, partition: Partition, what: Callable[[Partition], Coroutine[Any, Any, None]]) -> None:
        if not self._stopping:
            self._seen_to[partition] = asyncio.get_running_loop().create_task(self._done(partition, what))

    async def _done(self, partition: Partition, what: Callable[[Partition], Coroutine[Any, Any, None]]) -> None:
        try:
            await what(partition)
        finally:
            del self._seen_to[partition]

    async def _put_right(self, partition: Partition) -> None:
        number, trouble = partition.number, LoggedOnce(log)
        what = f"{self._name(partition)}: reload failed, trying again"
        while not self._stopping:
            # What of the partition is being written has to be in the log, or to have failed, before it is read back or
            # given up.
            if partition.coordinator is None and (flight := self._flight_of(partition)) is not None:
                await flight.over.wait()
            elif partition.is_to_be_released:
                partition.is_held = False
                try:
                    await self._log.release(number)
                except Exception:  # whoever comes next takes it over all the same, after a lease
                    log.exception("%s: releasing it broke off", self._name(partition))
            elif partition.is_to_be_loaded and (left := partition.failing.left(self._clock.now())) > 0:
                await self._pause(partition, left / 1000)
            elif partition.is_to_be_loaded:
                try:
                    await self._load(partition)
                    trouble.went_well(what)
                except OwnedElsewhere as error:
                    self.lose(partition, error)
                except self._log.passing as error:
                    trouble.failed(what, error)
                    await asyncio.sleep(RELOAD_RETRY_SECONDS)
                except Exception as error:
                    self._cannot_serve(partition, error)
            else:
                return

    async def _pause(self, partition: Partition, seconds: float) -> None:
        """Until then, or until it is to be given up, for which nobody has to wait."""
        over = self._pausing[partition] = asyncio.Event()
        timer = asyncio.get_running_loop().call_later(seconds, over.set)
        try:
            await over.wait()
        finally:
            timer.cancel()
            del self._pausing[partition]

    def lose(self, partition: Partition, error: OwnedElsewhere) -> None:
        log.warning("%s: another process has it: %s", self._name(partition), error)
        partition.is_held = False
        partition.unavailable = ErrorCode.NOT_COORDINATOR
        self._new.left(partition, self._clock.now())
        self._lost(partition)

    def _cannot_serve(self, partition: Partition, error: Exception) -> None:
        if partition.is_ours:
            partition.unavailable = ErrorCode.COORDINATOR_NOT_AVAILABLE
        self._new.left(partition, self._clock.now())
        name = self._name(partition)
        if isinstance(error, LogError):
            log.error("%s; %s is not served: %s", error, name, self._log.remedy(partition.number))
        else:
            log.error("%s; %s is not served until a restart", error, name, exc_info=error)
