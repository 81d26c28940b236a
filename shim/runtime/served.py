"""Which offsets partitions are served here: named, loaded, let in, lost, read back, and given up at the end.

Wherever one ceases to be served the order is the same: first nobody can ask it any more, then those who waited are
told: being told, a client may ask again at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from protocol.errors import ErrorCode
from shim.config import Settings
from shim.coordinator import GroupCoordinator, GroupMemory
from shim.runtime.backend import Backend, OwnedElsewhere, Reports, nothing
from shim.runtime.clock import Clock
from shim.runtime.flight import Flight, Ticket
from shim.runtime.keeping import Keeper
from shim.runtime.partition import Partition
from shim.runtime.readable import ReadablePartitions
from shim.runtime.telling import Telling

log = logging.getLogger(__name__)

_UNKNOWN: Final[Mapping[int, Exception]] = MappingProxyType({})

Watcher = Callable[[int, GroupCoordinator | None], None]


class ServedPartitions(ReadablePartitions):
    """Those of one log that :meth:`own` has named last."""

    def __init__(
        self,
        backend: Backend,
        settings: Settings,
        clock: Clock,
        answered: Callable[[], None],
        loaded: Callable[[Partition], None],
    ) -> None:
        """``answered`` is called when everybody has been told who waited for one write of the log; ``loaded`` of a
        partition that has a coordinator from now on."""
        backend.attach(
            Reports(lambda number: self._partitions[number].coordinator, self._failed, answered, self._landed)
        )
        memory = GroupMemory(settings.group_memory_max_bytes)
        super().__init__(backend, memory)
        self.lost: Callable[[], None] = lambda: None
        """Called when somebody else has a partition that :meth:`own` has named. It is taken over again when that names
        it again."""
        self._clock = clock
        self._loaded = loaded
        self._watchers: list[Watcher] = []
        self._telling = Telling()
        self._keeper = Keeper(
            backend, self._partitions, settings, clock, memory, self._telling, self._begins, self._lost
        )
        if not backend.is_divided:
            self.own(range(backend.num_partitions))

    def take_settings(self, settings: Settings) -> None:
        """Those of the coordinator and of the cleaner that may change; what was decided by now stays."""
        self._keeper.take_settings(settings)
        self._log.take_settings(settings)

    def now(self) -> int:
        """By the clock of all that is decided, in milliseconds since the epoch."""
        return self._clock.now()

    # -- whose partitions are

    @property
    def owned(self) -> Sequence[int] | None:
        """The partitions that are to be served here; None before the first :meth:`own`."""
        return [each.number for each in self._partitions if each.is_ours] if self._keeper.shared_out.is_set() else None

    def own(self, numbers: Collection[int], followed: Collection[int] = ()) -> None:
        """Serve these, and no others: what is not among them is given up when what was decided is written. One of them
        that is not served, as it was lost or could not be used, is tried again. ``followed``: partitions of others that
        may be this one's soon."""
        given_up: list[Partition] = []
        new: list[Partition] = []
        waited: list[Ticket] = []
        for partition in self._partitions:
            partition.is_ours = partition.number in numbers
            if not partition.is_ours:
                if partition.unavailable is not ErrorCode.NOT_COORDINATOR or partition.coordinator is not None:
                    given_up.append(partition)
                waited += partition.retire(ErrorCode.NOT_COORDINATOR)
            elif partition.coordinator is None:
                if partition.unavailable is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                    new.append(partition)
                partition.unavailable = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        self._keeper.shares_out(new, [each for each in self._partitions if not each.is_ours])
        self._tell_watchers(given_up)
        _send_away(waited)
        self._keeper.see_to(self._partitions)
        # Then, as what of them is taken over from here on goes on with what was followed.
        self._log.stand_by(frozenset(followed).difference(numbers))

    # -- loading

    @property
    def log_open(self) -> asyncio.Event:
        """See :class:`shim.runtime.keeping.Keeper`."""
        return self._keeper.log_open

    async def load(self) -> None:
        """Read back every partition that is owned, each served from then on; see :meth:`Keeper.load`."""
        await self._keeper.load()

    def admit(self) -> None:
        """Begin to serve, each partition once it is loaded. Until then all are COORDINATOR_LOAD_IN_PROGRESS."""
        held_back = [each for each in self._partitions if not each.is_admitted]
        for partition in held_back:
            partition.admit()
        self._tell_watchers(held_back)

    def watch(self, watcher: Watcher) -> None:
        """Have this called when a partition begins to be served, and with None when it ends."""
        self._watchers.append(watcher)

    def _tell_watchers(self, partitions: Iterable[Partition]) -> None:
        for partition in partitions:
            for watcher in self._watchers:
                watcher(partition.number, self.coordinator(partition.number))

    def _begins(self, partition: Partition) -> None:
        self._loaded(partition)
        self._tell_watchers([partition])

    # -- no more

    def _lost(self, partition: Partition) -> None:
        """To another process."""
        self._tell_watchers([partition])
        if partition.is_ours:
            self.lost()

    def reload(self, number: int) -> None:
        """Have the partition read back once what was decided is written; it need not be where it was. Whoever asks for
        it meanwhile, or is parked, is told to ask again."""
        partition = self._partitions[number]
        waited = partition.retire(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        self._tell_watchers([partition])
        _send_away(waited)
        self._keeper.see_to([partition])

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

    def _forget(
        self, partitions: Sequence[Partition], failed: Flight | None = None, why: Mapping[int, Exception] = _UNKNOWN
    ) -> None:
        """Throw the partitions' state away, with all that was decided on it and not yet written, and read it back; but
        for one that is OwnedElsewhere.

        After a write of unknown outcome (``failed``), or a decision that broke off, the state may hold what the log
        never will.
        """
        waited: list[Ticket] = []
        taken: list[tuple[Partition, OwnedElsewhere]] = []
        for partition in partitions:
            number = partition.number
            partition.last = None
            if partition.coordinator is not None:
                error = why.get(number)
                if isinstance(error, OwnedElsewhere):
                    taken.append((partition, error))
                    waited += partition.retire(ErrorCode.NOT_COORDINATOR)
                else:
                    if error is None:  # otherwise it was said of the write
                        log.error("%s: reloading the partition from its log", self.name_of(number))
                    partition.was_forgotten = True
                    waited += partition.retire(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
                self._tell_watchers([partition])
            # Otherwise the shim is stopping, it was given up, or a reload is under way, which has waited for the
            # failed write.
            waited += self._writes_of(number).lost(number)
            if failed is not None:
                waited += failed.lost(number)
        _send_away(waited)
        for partition, error in taken:
            self._keeper.lose(partition, error)
        self._keeper.see_to(partitions)

    # -- the end

    def stop(self) -> None:
        """Take no more requests and answer those that are parked; what is in flight is still written and answered."""
        self._stopping = True
        self._keeper.stop()
        self._log.stop()
        waited: list[Ticket] = []
        for partition in self._partitions:
            if partition.coordinator is not None:
                partition.last = partition.coordinator
            waited += partition.retire(ErrorCode.NOT_COORDINATOR)
            self._tell_watchers([partition])
        _send_away(waited)

    async def close(self, timeout_seconds: float, given_up: Callable[[], Awaitable[None]] = nothing) -> None:
        """Close the log, after :meth:`stop`, and when :meth:`shim.runtime.Runtime.run` has returned or been given up.

        ``given_up``, and what it raises: as :meth:`Backend.close`.
        """
        await self._keeper.end(timeout_seconds)
        last = [(each.number, each.last) for each in self._partitions if each.last is not None]
        await self._log.close(last, timeout_seconds, given_up)


def _send_away(waited: Iterable[Ticket]) -> None:
    """Tell those who waited for a coordinator that there is no more: they look for it again, and ask again."""
    for ticket in waited:
        ticket.fail(ErrorCode.NOT_COORDINATOR)
