"""The log on the local disk, as the runtime needs it.

Its calls block: writes run in one thread (writer.py), recoveries in another, so that reading one partition back holds
up no other's writes; snapshots and compaction have threads, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from protocol.own.history_log import HISTORY_TOPIC
from protocol.own.record_sets import Appended
from protocol.own.state_log import STATE_TOPIC, GroupChangeKey, GroupHandsValue
from protocol.partition import OFFSETS_TOPIC
from protocol.topic_partition import TopicPartition
from shim.config import Settings
from shim.coordinator import CoordinatorSettings
from shim.disk_log.cleaning_thread import CleaningThread
from shim.disk_log.ends import DiskEnds
from shim.disk_log.loading import Loader
from shim.disk_log.writer import Writer
from shim.log import LogError, OffsetsLog, PartitionWrite
from shim.log.cleaner.cleaning import CleanerStats
from shim.log.disk.files import Files
from shim.metrics import FlushCounts
from shim.runtime.backend import Loaded, Reports, nothing
from shim.runtime.clock import Clock
from shim.runtime.flight import RecordSet
from shim.runtime.snapshots import LAST_SNAPSHOTS_SECONDS, Retired, Snapshots

_SETTLED_WITHIN_S: Final = 3.0
"""Who asks for the history, as a page of the console does, does not wait for a disk that hangs."""


class DiskBackend:
    """See :class:`shim.runtime.backend.Backend`."""

    is_among_shims = False
    loads_at_once: Final = 1
    passing: Final = (OSError,)
    standbys: Final = None
    complaints: Final = None

    writes: Writer

    def __init__(
        self, offsets_log: OffsetsLog, settings: Settings, clock: Clock, *, files: Files | None = None
    ) -> None:
        """The log has the topics that the settings ask for: :func:`shim.disk_log.opening.open_log` opens it so.

        ``files``: the log's own, if they are not the usual ones.
        """
        self._log = offsets_log
        self._clock = clock
        self._commit_timeout = settings.offsets_commit_timeout_ms / 1000
        self.num_partitions = offsets_log.num_partitions
        self.is_divided = offsets_log.share is not None
        self.is_stopping = False
        """From :meth:`stop` on; what was being read back by then is not all there is."""
        self._recoverer = ThreadPoolExecutor(1, thread_name_prefix="log-recover")
        self._loader = Loader(offsets_log, CoordinatorSettings.of(settings), lambda: self.is_stopping)
        self.progress = self._loader.progress
        self._cleaning = CleaningThread(offsets_log, settings, clock, files or Files(), self._cleaned)
        self.cleaning = self._cleaning.counts
        self._loop: asyncio.AbstractEventLoop | None = None

    def attach(self, reports: Reports) -> None:
        self._snapshots = Snapshots(DiskEnds(self._log), reports.coordinator, lambda: self.writes.wake())
        self.writes = Writer(
            self._log,
            self._snapshots,
            self._clock,
            self._commit_timeout,
            reports.failed,
            reports.answered,
            reports.landed,
        )

    @property
    def flushes(self) -> FlushCounts:
        return self.writes.flushes

    def writes_of(self, _number: int) -> Writer:
        return self.writes

    async def run(self) -> None:
        await self.writes.run()

    def name_of(self, number: int) -> str:
        return str(TopicPartition(OFFSETS_TOPIC, number))

    def remedy(self, _number: int) -> str:
        return "see offset-shim log verify"

    def coordinator_settings(self, settings: Settings) -> CoordinatorSettings:
        return CoordinatorSettings.of(settings)

    def take_settings(self, settings: Settings) -> None:
        self._loader.settings = CoordinatorSettings.of(settings)
        self._cleaning.take_settings(settings)

    # -- loading

    async def open(self) -> None:
        """It was opened by whoever has given it."""
        self._loop = asyncio.get_running_loop()

    async def size(self) -> int:
        return sum(await self.sizes())

    async def sizes(self) -> list[int]:
        return await asyncio.get_running_loop().run_in_executor(self._recoverer, self._sizes)

    def _sizes(self) -> list[int]:
        share = self._log.share
        return [
            self._loader.size(number) if share is None or share.has(number) else 0
            for number in range(self.num_partitions)
        ]

    def expect(self, numbers: Collection[int]) -> None:
        """One is read after the other."""

    def stand_by(self, numbers: Collection[int]) -> None:
        """Nobody else has any."""

    async def load(self, number: int) -> Loaded:
        return await asyncio.get_running_loop().run_in_executor(self._recoverer, self._loader.load, number)

    async def changes(self, number: int) -> dict[GroupChangeKey, GroupHandsValue]:
        """Where groups stood before, of a partition that is not served; :meth:`load` comes behind it. Raises LogError,
        OSError."""
        return await asyncio.get_running_loop().run_in_executor(self._recoverer, self._loader.changes, number)

    async def write_apart(self, number: int, offsets: Sequence[Appended], state: Sequence[RecordSet]) -> None:
        """Of a partition that was loaded and is not served, durable when this returns. Raises OSError: nobody knows
        what is written then."""
        now = self._clock.now()
        writes = [PartitionWrite(number, offsets, now), PartitionWrite(number, state, now, STATE_TOPIC)]
        failed = await self.writes.in_thread(self._log.write, [each for each in writes if each.records])
        if number in failed:
            raise failed[number]

    async def settle_history(self, number: int) -> None:
        """What waits of it can be read then. Raises LogError, also where the disk hangs, OSError; ValueError where no
        history is kept."""
        try:
            async with asyncio.timeout(_SETTLED_WITHIN_S):
                await self.writes.in_thread(partial(self._log.settle, number, topic=HISTORY_TOPIC))
        except TimeoutError as error:
            raise LogError("what was committed last is not written yet: the disk hangs, or is slow") from error

    def loaded(self, number: int, loaded: Loaded) -> None:
        self.writes.loaded(number, has_history=loaded.has_history)
        self._snapshots.loaded(number, loaded.replayed, loaded.snapshot_offset)

    async def release(self, number: int) -> None:
        """Partitions are this process's for as long as it lives."""

    def begin_cleaning(self) -> None:
        self._cleaning.start()

    def _cleaned(self, stats: CleanerStats) -> None:
        """In the cleaner's thread."""
        if self._loop is not None and not self.is_stopping and stats.partition.topic == OFFSETS_TOPIC:
            self._loop.call_soon_threadsafe(self._snapshots.may_be_outdated, stats.partition.partition)

    # -- the end

    def stop(self) -> None:
        self.is_stopping = True
        self._cleaning.stop()
        self._snapshots.stop()
        self.writes.stop()

    async def close(
        self, last: Retired, timeout_seconds: float, _given_up: Callable[[], Awaitable[None]] = nothing
    ) -> None:
        """Where all was written, snapshots are taken for the next start, for LAST_SNAPSHOTS_SECONDS at most."""
        writes, snapshots = self.writes, self._snapshots
        writes.close()
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(timeout_seconds):
            await loop.run_in_executor(self._recoverer, self._cleaning.join)
            await snapshots.ended()
        if writes.all_written:
            async with asyncio.timeout(LAST_SNAPSHOTS_SECONDS + timeout_seconds):
                await writes.in_thread(
                    snapshots.take_last, snapshots.of_use(last), snapshots.ends_of, LAST_SNAPSHOTS_SECONDS
                )
        async with asyncio.timeout(timeout_seconds):
            await writes.in_thread(self._log.close)
        snapshots.shutdown()
        self._recoverer.shutdown()
        writes.shutdown()
