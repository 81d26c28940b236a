"""Partitions of the log that come to this process: taken over, and read back. What is gone on with is what was followed
of one as a standby, or what a snapshot has of it, if the log is still the one that this is of; or nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, contextmanager
from typing import Final, NamedTuple

from protocol.own.state_log import GroupChangeKey, GroupHandsValue
from protocol.own.topic_log import Place
from protocol.topic_partition import TopicPartition
from shim.config import Settings
from shim.coordinator import CoordinatorSettings, GroupCoordinator
from shim.counted import counted
from shim.kafka_log.copies.partition_copy import NewCopies, PartitionCopy
from shim.kafka_log.copies.snapshots import TopicSnapshots
from shim.kafka_log.copies.standbys import Standbys, tell_not_used
from shim.kafka_log.copies.tombstones import RetentionNotTold, Tombstones
from shim.kafka_log.owning.outcomes import Fenced
from shim.kafka_log.owning.owned_topic import OwnedTopic
from shim.kafka_log.taking_over.doubts import Doubts
from shim.kafka_log.taking_over.restoring import Restoring
from shim.kafka_log.topics.wanted import TopicsWanted
from shim.metrics import Before, StandbyCounts
from shim.runtime.progress import Progress
from shim.upstream import Cluster, UpstreamError
from shim.upstream.topic_reader import TopicReader

log = logging.getLogger(__name__)

_AT_ONCE: Final = 64


class Found(NamedTuple):
    """What a partition has: a coordinator as it is loaded, where groups stood before, which place counts (None: nothing
    is said of that), and how many records were read; from which offset on, where a snapshot had what is before."""

    coordinator: GroupCoordinator
    changes: Mapping[GroupChangeKey, GroupHandsValue]
    place: Place | None
    records: int
    snapshot_offset: int = 0


class TakingOver:
    """For the event loop. Partitions that others have are followed meanwhile."""

    def __init__(
        self,
        cluster: Cluster,
        settings: Settings,
        wanted: TopicsWanted,
        offsets: OwnedTopic,
        reader: TopicReader,
        snapshots: TopicSnapshots | None,
        coordinator_settings: Callable[[], CoordinatorSettings],
        progress: Progress,
    ) -> None:
        """``coordinator_settings``: of those that are loaded from now on. Before anything is read of the topic,
        :meth:`retention_told` is to be called."""
        self._topic = topic = wanted.offsets
        self._offsets = offsets
        self._progress = progress
        self._under_way: dict[int, asyncio.Task[None]] = {}
        self._places = asyncio.Semaphore(_AT_ONCE)
        self._replayer = ThreadPoolExecutor(1, thread_name_prefix="log-replay")
        self._loading = 0
        self._nothing_loads = asyncio.Event()
        self._nothing_loads.set()
        self._counts = StandbyCounts()
        self._copies = copies = NewCopies(topic, wanted.partitions, coordinator_settings)
        self._tombstones = tombstones = Tombstones(cluster, settings, wanted)
        self._standbys = Standbys(reader, topic, copies.of, self._replayer, tombstones, self._nothing_loads)
        self._doubts = Doubts(offsets, tombstones)
        self._restoring: Restoring | None = None
        if snapshots is not None:
            self._restoring = Restoring(snapshots, topic, offsets, copies, self._doubts, self._replayer)

    # -- what others have

    def follow(self, numbers: Collection[int]) -> None:
        """These, and no others."""
        self._standbys.follow(numbers)

    @property
    def counts(self) -> StandbyCounts:
        self._counts.at_end = self._standbys.at_end
        self._counts.behind = self._standbys.behind
        return self._counts

    def retention_told(self, seconds: float) -> None:
        """`delete.retention.ms` of the topic, as it is found when the log is opened, and at each look at it."""
        self._tombstones.told(seconds)

    # -- what comes here

    def expect(self, numbers: Collection[int]) -> None:
        """They are taken over at once, as each of the former owners' leases has to have ended."""
        for number in numbers:
            if number not in self._under_way:
                self._standbys.hold(number)
                self._under_way[number] = asyncio.create_task(self._take_over(number))

    async def _take_over(self, number: int) -> None:
        async with self._places:
            await self._offsets.take_over(number)

    async def give_up(self, number: int) -> None:
        """It may be released then."""
        if (taking := self._under_way.pop(number, None)) is not None:
            await asyncio.gather(taking, return_exceptions=True)
        self._standbys.drop(number)

    async def read_back(self, number: int, level: int = logging.INFO) -> Found:
        """What the partition has, which nobody else writes any more; this process may. ``level``: of the line that says
        so. Raises Fenced, UpstreamError, LogError."""
        with self._waited_for():
            taking = self._under_way.pop(number, None)
            if taking is None:
                self._standbys.hold(number)
            try:
                await (taking or self._take_over(number))
            except Fenced:
                self._standbys.drop(number)
                raise
            followed = await self._followed(number)
            restored = None
            if followed is None and self._restoring is not None:
                restored = await self._restoring.restored(number)
            gone_on_with = followed or restored
            copy = gone_on_with or self._copies.of(number)
            before, snapshot = copy.part.records, copy.part.position.next_offset if restored is not None else 0
            async with aclosing(self._offsets.read(number, copy.apply, copy.part, self._replayer)) as reading:
                async for records in reading:
                    self._progress.replayed(records)
            if gone_on_with is not None and await self._doubts.got_too_old(copy):
                raise UpstreamError(f"{self._where(number)}: what it had got too old while it was gone on with")
        had = before if followed is not None else None
        self._took_over(number, copy.part.records - before, had, snapshot, level)
        return Found(copy.coordinator, copy.changes, copy.place, copy.part.records, snapshot)

    @contextmanager
    def _waited_for(self) -> Iterator[None]:
        """Others wait for what is read back, so nothing is followed meanwhile."""
        self._loading += 1
        self._nothing_loads.clear()
        try:
            yield
        finally:
            self._loading -= 1
            if not self._loading:
                self._nothing_loads.set()

    def _took_over(self, number: int, records: int, followed: int | None, snapshot: int, level: int) -> None:
        """A partition is this process's, and may be served; so many records were read for that. ``followed``: how many
        had been before; None: it was read from the beginning, or behind the ``snapshot`` of that offset. ``level``: of
        the line that says so."""
        before: Before = "standby"
        if followed is not None:
            where = f"behind {counted(followed, 'record')} that it had"
        elif snapshot:
            before, where = "snapshot", f"behind a snapshot of offset {snapshot:,}"
        else:
            before, where = "beginning", "from the beginning"
        self._counts.took_over(records, before)
        log.log(level, "%s: taken over, %s read %s", self._where(number), counted(records, "record"), where)

    def _where(self, number: int) -> str:
        return str(TopicPartition(self._topic, number))

    async def _followed(self, number: int) -> PartitionCopy | None:
        """What was followed of a partition that is taken over now, if that is still what stands there."""
        copy = await self._standbys.taken(number)
        if copy is None:
            return None
        why_not: object
        try:
            why_not = await self._doubts.why_not(number, copy)
        except RetentionNotTold as error:
            why_not = error
        except UpstreamError:
            self._standbys.give_back(number, copy)
            raise
        if why_not is None:
            return copy
        tell_not_used(self._where(number), why_not)
        return None

    # -- the end

    def stop(self) -> None:
        """Snapshots that are being read are given up."""
        if self._restoring is not None:
            self._restoring.stop()

    async def end(self) -> None:
        """Nothing is taken over or followed any more."""
        await self._standbys.close()
        for task in self._under_way.values():
            task.cancel()
        await asyncio.gather(*self._under_way.values(), return_exceptions=True)

    async def close(self, timeout_seconds: float) -> None:
        """Raises TimeoutError where the thread that replays does not end."""
        async with asyncio.timeout(timeout_seconds):
            await asyncio.get_running_loop().run_in_executor(self._replayer, _nothing)
        self._replayer.shutdown()


def _nothing() -> None:
    """Behind all that the thread has had to do."""
