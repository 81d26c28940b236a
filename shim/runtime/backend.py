"""What the runtime needs of a log: disk_log/backend.py is one such, kafka_log/backend.py another."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from shim.config import Settings
from shim.coordinator import CoordinatorSettings, GroupCoordinator
from shim.metrics import CleaningCounts, FlushCounts, StandbyCounts
from shim.runtime.flight import Batch, Flight, History, RecordSet, Ticket
from shim.runtime.progress import Progress
from shim.runtime.snapshots import Retired


class OwnedElsewhere(Exception):
    """Another process has taken the partition over: nothing of it is to be told or written here any more."""


async def nothing() -> None:
    pass


class Loaded(NamedTuple):
    """A partition's coordinator, and how many records were replayed, from which offset on (0: without a snapshot).

    ``has_history``: whether its history takes records; not where that is damaged.
    """

    coordinator: GroupCoordinator
    replayed: int
    snapshot_offset: int
    has_history: bool = True


class Reports(NamedTuple):
    """To whoever has the coordinators. All are called in the event loop."""

    coordinator: Callable[[int], GroupCoordinator | None]
    """The partition's, while there is one."""
    failed: Callable[[Mapping[int, Exception], Flight | None], None]
    """Of which partitions a write has failed, with why, and of the flight that it was, if it was one. Nobody knows what
    of it is in the log: the partition has to be loaded again, or, where it is OwnedElsewhere, given up."""
    answered: Callable[[], None]
    """Everybody has been told who waited for a write."""
    landed: Callable[[int], None]
    """A write of the partition is durable."""


class Writes(Protocol):
    """What was decided, on its way into a log. For the event loop."""

    def append(self, number: int, records: Batch, history: History) -> None:
        """One decision's records, to be written with the partition's next flight."""

    def append_state(self, number: int, records: RecordSet) -> None:
        """Likewise, of the shim's own state. It is on the way before what is appended after it: a process that dies
        meanwhile leaves none of a decision's offsets without what it says beside them. What belongs together there is
        a few records; many may be divided."""

    def flight_of(self, number: int) -> Flight | None:
        """The last flight with records of the partition: when it has landed, all that was decided is durable."""

    def flying_of(self, number: int) -> Flight | None:
        """The flight that is being written, if it has records of the partition."""

    def awaited(self, number: int) -> Flight | None:
        """What an answer waits for that is decided now, and tells what the partition has. None: for nothing."""

    def may_tell(self, number: int) -> bool:
        """Whether it waits for nothing."""

    def is_surely_ours(self, number: int) -> bool:
        """Whether no other process can have the partition by now; where not, it may be once something has landed."""

    def hangs(self, number: int) -> bool:
        """Whether what is decided now would be refused, since nothing has landed for `offsets.commit.timeout.ms`."""

    def lost(self, number: int) -> list[Ticket]:
        """What of the partition waits for the next flight is not to be written. Gives whom to fail."""


class Backend(Protocol):
    """The log of all offsets partitions. For the event loop."""

    @property
    def num_partitions(self) -> int: ...

    def name_of(self, number: int) -> str:
        """Of a partition's log, for people: they look for it where it is."""

    def remedy(self, number: int) -> str:
        """What to do about a partition's log that cannot be read, for people."""

    @property
    def is_divided(self) -> bool:
        """Whether other processes have some of the partitions: workers of this shim, or other shims."""

    @property
    def is_among_shims(self) -> bool:
        """Whether which of the partitions are here changes, as other shims come and go."""

    @property
    def loads_at_once(self) -> int:
        """So many partitions may be loaded at the same time."""

    @property
    def passing(self) -> tuple[type[Exception], ...]:
        """What :meth:`load` raises where it may go well the next time."""

    @property
    def progress(self) -> Progress: ...

    @property
    def cleaning(self) -> CleaningCounts: ...

    @property
    def standbys(self) -> StandbyCounts | None:
        """None where nothing is on topics."""

    @property
    def complaints(self) -> Sequence[str] | None:
        """What is set so for the topics that it is on that it may lose what is written; it is served all the same. None
        where nothing is on topics."""

    def attach(self, reports: Reports) -> None:
        """The first thing."""

    @property
    def flushes(self) -> FlushCounts: ...

    def writes_of(self, number: int) -> Writes:
        """Of the log that has the partition, which is another one only while nothing of it is on its way."""

    async def run(self) -> None:
        """Write flights until :meth:`stop`, and then those that are left."""

    def coordinator_settings(self, settings: Settings) -> CoordinatorSettings:
        """With no more for one decision than the log takes, as far as that is known: after :meth:`open` it is."""

    def take_settings(self, settings: Settings) -> None:
        """Of the coordinators that are loaded from now on, and of the cleaner."""

    async def open(self) -> None:
        """Before anything is loaded. Raises what :meth:`load` raises."""

    async def size(self) -> int | None:
        """Of the whole log, in bytes; None where nobody knows."""

    async def sizes(self) -> Sequence[int]:
        """Of each partition, in bytes; nearly: what loading it will take longer for. 0 where nobody knows."""

    def expect(self, numbers: Collection[int]) -> None:
        """These are loaded soon: what takes its time for each may be begun for all of them."""

    def stand_by(self, numbers: Collection[int]) -> None:
        """These others have, and they may be loaded one day: what makes that quick is to be done from now on, for these
        and for no others. May be called before :meth:`open`."""

    async def load(self, number: int) -> Loaded:
        """What the partition has; it takes writes then. Raises LogError, OwnedElsewhere, and what is
        :attr:`passing`."""

    def loaded(self, number: int, loaded: Loaded) -> None:
        """The coordinator is the partition's now."""

    async def release(self, number: int) -> None:
        """Nobody asks for the partition any more, and what was decided is written: another process may have it. After
        :meth:`expect` or :meth:`load`, whatever came of it."""

    def begin_cleaning(self) -> None:
        """All that can be loaded is."""

    def stop(self) -> None:
        """Whatever was decided by now is still written, and nothing more is begun."""

    async def close(
        self, last: Retired, timeout_seconds: float, given_up: Callable[[], Awaitable[None]] = nothing
    ) -> None:
        """After :meth:`stop`, and when :meth:`run` has returned or been given up. ``last``: of which all is in the log
        where it has returned. ``given_up`` is called when others may have the partitions, if it comes to that: what is
        done from then on holds up nobody but who stops.

        Raises TimeoutError when that takes too long. Python waits for its threads at exit, so only ``os._exit`` ends
        the process after that.
        """
