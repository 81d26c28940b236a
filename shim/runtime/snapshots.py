"""When a snapshot of a partition is taken, and how, without anybody having to wait for it.

A snapshot is taken at the moment when a flight is handed to the log: what the coordinator has applied by then is what
is in the log once that flight has landed. The dump is made in steps, between which requests go on; where the log ends
is told right after the flight, by whoever writes it; and what comes of both is written by a thread of its
own. When the flight fails, the snapshot is thrown away. A stop waits for none: it is given up, and those that are of
use are taken at the end, when nothing is decided any more.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Final, NamedTuple, Protocol, TypeAlias, TypeVar, TypeVarTuple

from shim.coordinator import GroupCoordinator
from shim.counted import counted
from shim.log.partition.snapshot import SnapshotFolder
from shim.log.segments.active import LastBatch
from shim.logged_once import LoggedOnce

log = logging.getLogger(__name__)

LEAST_RECORDS = 100_000
"""So many records, or as many as the partition has offsets if that is more, are replayed at most, more or less."""

LEAST_RECORDS_AT_STOP = 1_000
"""To replay fewer than these takes no longer than to write a snapshot does."""

LAST_SNAPSHOTS_SECONDS: Final = 4.0
"""How long they are still taken at the end."""

RETRY_S = 60.0
"""After so many seconds one that could not be written is taken again."""

_WITHOUT: Final = "partition {} has no new snapshot"
_STEP_S: Final = 0.004
_LOOK_EVERY: Final = 1 << 20  # bytes

Retired: TypeAlias = Sequence[tuple[int, GroupCoordinator]]
"""Coordinators that decide nothing any more, by partition."""

_Arguments = TypeVarTuple("_Arguments")
_Result = TypeVar("_Result")


class _GivenUp(Exception):
    """There is no more time for a snapshot in the making."""


class NotNow(Exception):
    """There is no snapshot to be had at the moment, and the message says why."""


class End(NamedTuple):
    """Where a partition's log of one topic ends, the last batch in it being ``batch``. ``name``: of both, for people.

    ``is_offsets``: what the coordinator has goes into the snapshot, behind ``head``. Of the other topics nothing has to
    be known but where the log goes on.
    """

    name: str
    folder: SnapshotFolder
    batch: LastBatch
    is_offsets: bool
    head: bytes = b""


class Dump(Protocol):
    """See :class:`shim.coordinator.StateDump`."""

    def step(self) -> bool: ...

    def give_up(self) -> None: ...

    def pieces(self) -> list[bytes]: ...


class SnapshotLog(Protocol):
    """The log of which snapshots are taken."""

    @property
    def num_partitions(self) -> int: ...

    def begin_dump(self, coordinator: GroupCoordinator) -> Dump:
        """Of all that the partition's records have made."""

    def end_offset(self, number: int) -> int:
        """More or less."""

    def is_outdated(self, number: int, offset: int) -> bool:
        """Whether a snapshot of that offset is of no use any more, or will be soon."""

    def ends_of(self, number: int) -> list[End]:
        """Where the partition's logs end now; called by the thread that writes, of partitions that have landed."""

    async def complete(self, number: int, ends: list[End]) -> list[End]:
        """With what is still to be found out of them. Raises NotNow."""


class Taken(NamedTuple):
    """``offset``: of the snapshot of the offsets' log, 0 when none was written. ``again_s``: after so many seconds it
    is tried again; None when that is not needed.
    """

    offset: int
    again_s: float | None


class Taking:
    """A snapshot in the making. ``landed`` is told where the logs end, or None where the flight failed."""

    def __init__(self, number: int, dump: Dump) -> None:
        self.number = number
        self.dump = dump
        self.landed: asyncio.Future[list[End] | None] = asyncio.get_running_loop().create_future()


class Snapshots:
    """Of all partitions of a log; one is taken at a time. For the event loop, where nothing else is said."""

    def __init__(
        self,
        offsets_log: SnapshotLog,
        coordinator_of: Callable[[int], GroupCoordinator | None],
        wake: Callable[[], None],
    ) -> None:
        """``wake`` is called each time when there may be one to :meth:`begin`."""
        self._log = offsets_log
        self._coordinator_of = coordinator_of
        self._wake = wake
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="log-snapshot")
        self._since = [0] * offsets_log.num_partitions
        self._offset = [0] * offsets_log.num_partitions
        self._due: dict[int, None] = {}
        self._retries: dict[int, asyncio.TimerHandle] = {}
        self._taking: asyncio.Task[None] | None = None
        self._stopped = False
        self._trouble = LoggedOnce(log)

    # -- when

    def loaded(self, number: int, replayed: int, snapshot_offset: int) -> None:
        """The partition was read back: from a snapshot of that offset (0: none), and so many records behind it."""
        self._since[number], self._offset[number] = 0, snapshot_offset
        self.written(number, replayed)
        self._wake()

    def written(self, number: int, records: int) -> None:
        """So many more records are in the partition's log."""
        self._since[number] += records
        coordinator = self._coordinator_of(number)
        if coordinator is not None and self._since[number] >= max(LEAST_RECORDS, coordinator.offset_count):
            self._due[number] = None

    def may_be_outdated(self, number: int) -> None:
        """A round of compaction is over, or time has passed."""
        if self._is_outdated(number):
            self._due[number] = None
            self._wake()

    def _is_outdated(self, number: int) -> bool:
        """Whether the partition has had a snapshot, and needs another one."""
        offset = self._offset[number]
        return offset > 0 and self._log.is_outdated(number, offset)

    @property
    def due(self) -> Collection[int]:
        """The partitions of which there is one to take now."""
        return self._due if self._taking is None and not self._stopped else ()

    # -- how

    def begin(self, among: Container[int] | None = None) -> Taking | None:
        """To be called when a flight is handed over, with all records that were decided by then of all partitions, or
        of those that are ``among`` these; then its ``landed`` has to be told."""
        for number in [each for each in self.due if among is None or each in among]:
            del self._due[number]
            if (retry := self._retries.pop(number, None)) is not None:
                retry.cancel()
            coordinator = self._coordinator_of(number)
            if coordinator is not None:  # otherwise it is being read back
                self._since[number] = 0
                taking = Taking(number, self._log.begin_dump(coordinator))
                self._taking = asyncio.get_running_loop().create_task(self._take(taking))
                return taking
        return None

    async def _take(self, taking: Taking) -> None:
        try:
            until = time.monotonic() + _STEP_S
            while taking.dump.step():
                if time.monotonic() >= until:
                    await asyncio.sleep(0)
                    until = time.monotonic() + _STEP_S
            ends = await taking.landed
            if ends is not None:
                ends = await self._log.complete(taking.number, ends)
                pieces = _looking_up(self._check_stopped, taking.dump.pieces())
                loop = asyncio.get_running_loop()
                written = await loop.run_in_executor(self._thread, self._write, ends, pieces)
                self._wrote(taking.number, written)
        except NotNow as error:
            self._trouble.failed(_WITHOUT.format(taking.number), error)
            self._take_later(taking.number, RETRY_S)
        except Exception:
            log.exception("no snapshot of partition %d was taken", taking.number)
            self._take_later(taking.number, RETRY_S)
        finally:
            taking.dump.give_up()  # what it has made was written, or will not be
            self._taking = None
            self._wake()

    def ends_of(self, number: int) -> list[End]:
        """See :class:`SnapshotLog`."""
        return self._log.ends_of(number)

    def _check_stopped(self) -> None:
        if self._stopped:
            raise _GivenUp

    def _write(self, ends: Sequence[End], pieces: Iterable[bytes]) -> Taken:
        """Raises what ``pieces`` raises, and nothing is left of the snapshot then."""
        offset = 0
        again_s = None
        for end in ends:
            what = f"{end.name}: a snapshot could not be written"
            try:
                path = end.folder.take(end.batch, chain((end.head,), pieces) if end.is_offsets else ())
            except OSError as error:
                # Without the file's name, which is another one each time.
                self._trouble.failed(what, OSError(error.errno, error.strerror, str(end.folder)))
                again_s = RETRY_S
                continue
            self._trouble.went_well(what)
            if path is None:  # compacted meanwhile; it will be beyond that
                again_s = again_s or 0.0
            elif end.is_offsets:
                offset = end.batch.next_offset
        return Taken(offset, again_s)

    def _wrote(self, number: int, outcome: Taken) -> None:
        if outcome.offset:
            self._trouble.went_well(_WITHOUT.format(number))
            self._offset[number] = outcome.offset
            self.may_be_outdated(number)  # it may have been between the snapshot's end and now
        if outcome.again_s is not None:
            self._take_later(number, outcome.again_s)

    def _take_later(self, number: int, seconds: float) -> None:
        self._retries[number] = asyncio.get_running_loop().call_later(seconds, self._take_again, number)

    def _take_again(self, number: int) -> None:
        self._due[number] = None
        self._wake()

    # -- the end

    def stop(self) -> None:
        """None is begun any more; the one in the making is given up."""
        self._stopped = True
        if self._taking is not None:
            self._taking.cancel()

    async def ended(self) -> None:
        """Wait, after :meth:`stop`, until the thread has let go of the one in the making."""
        await self.in_thread(_nothing)

    async def in_thread(self, call: Callable[[*_Arguments], _Result], *args: *_Arguments) -> _Result:
        """Have this called by the thread that writes snapshots, behind what it is at."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, call, *args)

    def shutdown(self) -> None:
        """The last thing."""
        self._thread.shutdown()

    def take_last(self, of_use: Retired, ends_of: Callable[[int], list[End]], seconds: float) -> None:
        """Snapshots of these, in this order.

        For the thread that may ask ``ends_of``, where their logs end, after :meth:`ended`. It takes no longer than so
        many seconds, whatever is not done by then: it is only for the next start to be quick.
        """
        until = time.monotonic() + seconds

        def check_time() -> None:
            if time.monotonic() >= until:
                raise _GivenUp

        for taken, (number, coordinator) in enumerate(of_use):
            try:
                check_time()
                dump = self._log.begin_dump(coordinator)
                while dump.step():
                    check_time()
                self._write(ends_of(number), _looking_up(check_time, dump.pieces()))
            except _GivenUp:
                log.info("%s left without a new snapshot", counted(len(of_use) - taken, "partition"))
                return
            except Exception:
                log.exception("no snapshot of partition %d was taken", number)

    def of_use(self, coordinators: Retired) -> Retired:
        """Those of which a snapshot is worth its writing, in the order in which it is."""
        of_use = [each for each in coordinators if self._is_of_use(each[0])]
        return sorted(of_use, key=lambda each: self._unsaved(each[0]), reverse=True)

    def _is_of_use(self, number: int) -> bool:
        return number in self._retries or self._is_outdated(number) or self._unsaved(number) >= LEAST_RECORDS_AT_STOP

    def _unsaved(self, number: int) -> int:
        """How many records a start would replay, more or less, without a new snapshot."""
        saved = 0 if self._is_outdated(number) else self._offset[number]
        return self._log.end_offset(number) - saved


def _looking_up(check: Callable[[], None], pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes; ``check`` is called now and then, and may raise."""
    for piece in pieces:
        for start in range(0, len(piece), _LOOK_EVERY):
            check()
            yield piece[start : start + _LOOK_EVERY]


def _nothing() -> None:
    pass
