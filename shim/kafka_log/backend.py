"""The log on topics of the cluster, as the runtime needs it."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from os import getpid
from typing import Final, NamedTuple, TypeAlias, TypeVar, TypeVarTuple

from protocol.errors import DecodeError
from protocol.own.state_log import GroupChangeKey, GroupHandsValue
from protocol.own.topic_log import Owner, Place
from shim.apart import apart
from shim.config import Settings
from shim.coordinator import CoordinatorSettings, GroupCoordinator
from shim.kafka_log.flights import TopicFlights
from shim.kafka_log.history import HistoryTopic
from shim.kafka_log.history_reading import TopicHistoryLog
from shim.kafka_log.lease import boottime
from shim.kafka_log.owned_topic import Fenced, OwnedTopic
from shim.kafka_log.partition_copy import PartitionCopy
from shim.kafka_log.read_part import ReadPart
from shim.kafka_log.replaying import TopicReplay
from shim.kafka_log.snapshots import SHARE_OF_RETENTION, TopicSnapshots
from shim.kafka_log.standbys import Standbys
from shim.kafka_log.topics import LEAST_MESSAGE_BYTES, Looked, TopicsUnfit, TopicsWanted, look, make_ready
from shim.kafka_log.topics_watch import TopicsWatch
from shim.log import LogError, LoggedRecord
from shim.metrics import CleaningCounts, StandbyCounts
from shim.runtime.backend import Loaded, Reports, nothing
from shim.runtime.clock import Clock
from shim.runtime.flight import RecordSet
from shim.runtime.progress import Progress
from shim.runtime.replaying import Home
from shim.runtime.snapshots import LAST_SNAPSHOTS_SECONDS, End, Snapshots
from shim.upstream import Cluster, UpstreamError
from shim.upstream.topic_reader import TopicReader

log = logging.getLogger(__name__)

PATIENCE_SECONDS: Final = 30.0
"""How long a write is sent again, and more is waited for of what is read, before the partition is taken over again."""

DISK_SECONDS = 30.0
"""How long a snapshot is waited for; without it all is read."""

_TAKEN_OVER_AT_ONCE: Final = 64

_Arguments = TypeVarTuple("_Arguments")
_Result = TypeVar("_Result")
_Coordinators: TypeAlias = Sequence[tuple[int, GroupCoordinator]]


class Found(NamedTuple):
    """What a partition has: a coordinator as it is loaded, where groups stood before, which place counts (None: nothing
    is said of that), and how many records were replayed; from which offset on, where a snapshot had what is before."""

    coordinator: GroupCoordinator
    changes: Mapping[GroupChangeKey, GroupHandsValue]
    place: Place | None
    replayed: int
    snapshot_offset: int = 0


class _Restored(NamedTuple):
    """What is gone on with, and until when that may be, of CLOCK_BOOTTIME."""

    copy: PartitionCopy
    until: float


class KafkaBackend:
    """See :class:`shim.runtime.backend.Backend`. For the event loop."""

    is_shared: Final = True
    loads_at_once: Final = 4
    passing: Final = (UpstreamError, OSError)

    writes: TopicFlights

    def __init__(
        self,
        cluster: Cluster,
        settings: Settings,
        clock: Clock,
        claimed: asyncio.Event,
        snapshots: TopicSnapshots | None = None,
    ) -> None:
        """``claimed`` is set when the cluster is known to be the right one. ``snapshots``: where there are to be some;
        what is read from one tells neither where groups stood before nor which place counts.
        """
        self._cluster = cluster
        self._settings = settings
        self._max_message_bytes = LEAST_MESSAGE_BYTES
        self._coordinator_settings = self.coordinator_settings(settings)
        self._clock = clock
        self._claimed = claimed
        self.progress = Progress()
        self.cleaning = CleaningCounts()
        self._wanted = TopicsWanted(
            settings.offsets_log_topics_prefix,
            self.num_partitions,
            settings.offsets_topic_replication_factor,
            settings.offsets_topic_segment_bytes,
            settings.offsets_history_retention_minutes,
        )
        self._watch = TopicsWatch(cluster, settings, self._wanted, self._looked)
        self._watching: asyncio.Task[None] | None = None
        self._offsets: OwnedTopic | None = None
        self._kept = snapshots
        self._snapshots: Snapshots | None = None
        self._standbys: Standbys | None = None
        self._followed: Collection[int] = ()
        self._all_loaded = self._stopping = False
        self._history: HistoryTopic | None = None
        if settings.offsets_history_retention_minutes > 0:
            self._history = HistoryTopic(
                cluster,
                settings,
                self._wanted.history,
                patience_seconds=PATIENCE_SECONDS,
                max_message_bytes=LEAST_MESSAGE_BYTES,
            )
        self.history_log = TopicHistoryLog(cluster, settings, self._wanted.history, self.num_partitions, self._history)
        self.is_open = False
        """Whether there are topics to be written to."""
        self._taking: dict[int, asyncio.Task[None]] = {}
        self._places = asyncio.Semaphore(_TAKEN_OVER_AT_ONCE)
        self._replayer = ThreadPoolExecutor(1, thread_name_prefix="log-replay")

    def attach(self, reports: Reports) -> None:
        self.writes = TopicFlights(self._clock, self._settings.offsets_commit_timeout_ms / 1000, reports)
        if self._kept is not None:
            self._snapshots = self.writes.snapshots = Snapshots(self._kept, reports.coordinator, self.writes.wake)

    @property
    def num_partitions(self) -> int:
        return self._settings.offsets_topic_num_partitions

    def coordinator_settings(self, settings: Settings) -> CoordinatorSettings:
        """Half of what a batch may have: a set may have as much again of what is pending."""
        most = self._max_message_bytes // 2
        return replace(CoordinatorSettings.of(settings), commit_max_bytes=most, group_metadata_max_bytes=most)

    def take_settings(self, settings: Settings) -> None:
        self._coordinator_settings = self.coordinator_settings(settings)

    # -- loading

    async def open(self) -> None:
        await self._claimed.wait()
        settings = self._settings
        try:
            topics = await make_ready(self._cluster, settings, self._wanted)
        except TopicsUnfit as error:
            raise LogError(str(error)) from error
        self._max_message_bytes = topics.max_message_bytes
        self._coordinator_settings = self.coordinator_settings(settings)
        lease_ms = settings.offsets_read_lease_ms
        self._offsets = OwnedTopic(
            self._cluster,
            settings,
            topics.offsets,
            Owner(uuid.uuid4().bytes, f"{socket.gethostname()}, process {getpid()}", lease_ms),
            patience_seconds=PATIENCE_SECONDS,
            silent_seconds=2 * topics.owner_again_seconds,
            max_message_bytes=topics.max_message_bytes,
        )
        reader = TopicReader(self._cluster, settings, topics.offsets)
        if self._kept is not None:
            self._kept.open(topics.offsets, topics.offsets_id, self._offsets, reader)
            await self._on_disk(self._kept.tidy)
        self._standbys = Standbys(
            reader,
            topics.offsets,
            self._copy,
            self._replayer,
            topics.delete_retention_ms / 1000,
        )
        if self._history is not None:
            self._history.max_message_bytes = topics.history_max_message_bytes
        self.writes.take_off_to(self._offsets, self._history, topics.owner_again_seconds)
        self.is_open = True
        self._watching = asyncio.create_task(self._watch.run())

    def _looked(self, found: Looked) -> None:
        if self._standbys is not None:
            self._standbys.tombstones_stay(found.delete_retention_ms / 1000)

    def expect(self, numbers: Collection[int]) -> None:
        """They are taken over at once, as each of the former owners' leases has to have ended."""
        for number in numbers:
            if number not in self._taking:
                self._hold(number)
                self._taking[number] = asyncio.create_task(self._take_over(number))

    def _hold(self, number: int) -> None:
        if self._standbys is not None:
            self._standbys.hold(number)

    def stand_by(self, numbers: Collection[int]) -> None:
        self._followed = numbers
        if self._standbys is not None and self._all_loaded:
            self._standbys.follow(numbers)

    @property
    def standbys(self) -> StandbyCounts:
        return StandbyCounts() if self._standbys is None else self._standbys.counts

    @property
    def complaints(self) -> Sequence[str]:
        return self._watch.complaints

    async def _take_over(self, number: int) -> None:
        assert self._offsets is not None
        async with self._places:
            await self._offsets.take_over(number)

    async def size(self) -> int | None:
        return None

    async def sizes(self) -> Sequence[int]:
        return [0] * self.num_partitions

    async def load(self, number: int) -> Loaded:
        """Raises Fenced, UpstreamError, too."""
        found = await self.read_back(number)
        if found.place is not None and not found.place.here:
            raise LogError(
                f"{self._wanted.offsets}-{number} is in the data directory of a shim with shim.instance.id="
                f"{found.place.directory}, which serves it with offsets.log=moving or local"
            )
        return self.served(number, found)

    async def read_back(self, number: int) -> Found:
        """What the partition has, which nobody else writes any more; this process may. Raises as :meth:`load`."""
        assert self._offsets is not None
        assert self._standbys is not None
        with self._standbys.waiting():
            taking = self._taking.pop(number, None)
            if taking is None:
                self._hold(number)
            try:
                await (taking or self._take_over(number))
            except Fenced:
                self._standbys.drop(number)
                raise
            followed = await self._followed_copy(number, self._offsets, self._standbys)
            restored = None if followed is not None else await self._restored_copy(number, self._offsets)
            copy, until = restored or _Restored(followed or self._copy(number), float("inf"))
            before, snapshot = copy.replayed, copy.part.position.next_offset if restored is not None else 0
            loop = asyncio.get_running_loop()
            async with aclosing(self._offsets.read(number, copy.part)) as reading:
                async for records in reading:
                    await loop.run_in_executor(self._replayer, copy.apply, records)
                    self.progress.replayed(len(records))
                    if boottime() > until:
                        raise UpstreamError(f"{self._where(number)}: a snapshot got too old while it was gone on with")
        self._standbys.took_over(number, copy.replayed - before, before if followed is not None else None, snapshot)
        return Found(copy.coordinator, copy.changes, copy.place, copy.replayed, snapshot)

    def _where(self, number: int) -> str:
        return f"{self._wanted.offsets}-{number}"

    def _copy(self, number: int, part: ReadPart | None = None) -> PartitionCopy:
        """Of nothing yet, or of what ``part`` says was read, once that is restored."""
        place = self._where(number)

        def skipped(offset: int, type_: int) -> None:
            log.warning("%s offset %d: key type %d skipped", place, offset, type_)

        coordinator = GroupCoordinator(self._coordinator_settings)
        replay = TopicReplay(coordinator, Home(number, self.num_partitions, place), _ignored, skipped)
        return PartitionCopy(coordinator, replay, part or ReadPart(self._wanted.offsets, number))

    async def _followed_copy(self, number: int, offsets: OwnedTopic, standbys: Standbys) -> PartitionCopy | None:
        """What was followed of a partition that is taken over now, if that is still what stands there."""
        copy = await standbys.taken(number)
        if copy is None:
            return None
        try:
            if await offsets.goes_on(number, copy.part):
                return copy
        except UpstreamError:
            standbys.give_back(number, copy)
            raise
        log.warning("%s-%d: what was followed is not what stands there any more", self._wanted.offsets, number)
        return None

    async def _restored_copy(self, number: int, offsets: OwnedTopic) -> _Restored | None:
        """What a snapshot says of a partition that is taken over now, if that is still what stands there."""
        if self._kept is None:
            return None
        kept = await self._on_disk(self._kept.newest, number, self._check_goes_on)
        if kept is None:
            return None
        where, anchor, fence = self._where(number), kept.anchor, offsets.fence(number)
        try:
            retention_ms = (await look(self._cluster, self._settings, self._wanted)).delete_retention_ms
        except (TopicsUnfit, UpstreamError) as error:
            log.warning("%s: its snapshot is not used: delete.retention.ms is not known: %s", where, error)
            return None
        copy = self._copy(number, kept.part)
        doubt: object = None
        if not anchor.is_fresh(fence.append_time_ms, retention_ms):
            doubt = f"it is older than half of the {retention_ms} ms that are delete.retention.ms of the topic"
        elif not await offsets.goes_on(number, copy.part) or not await self._kept.has(anchor):
            doubt = "it is not what stands there any more"
        else:
            home = Home(number, self.num_partitions, where)
            loop = asyncio.get_running_loop()
            try:
                await loop.run_in_executor(self._replayer, kept.restore, copy.coordinator, home, self._check_goes_on)
            except (DecodeError, LogError) as error:
                doubt = error
            except UpstreamError:  # the shim stops
                raise
            except Exception as error:
                log.exception("%s: its snapshot cannot be restored", where)
                doubt = repr(error)
        if doubt is not None:
            await self._on_disk(self._kept.refuse, kept, doubt)
            return None
        return _Restored(copy, fence.sent_at + retention_ms / 1000 * SHARE_OF_RETENTION)

    async def _on_disk(self, call: Callable[[*_Arguments], _Result], *args: *_Arguments) -> _Result | None:
        """What it gives; None where the disk hangs, of which no partition is to wait for that long."""
        try:
            async with asyncio.timeout(DISK_SECONDS):
                return await apart(call, *args)
        except TimeoutError:
            log.warning("the disk with the snapshots has not answered within %g s: none is used", DISK_SECONDS)
            return None

    def _check_goes_on(self) -> None:
        if self._stopping:
            raise UpstreamError("the shim stops")

    def served(self, number: int, found: Found) -> Loaded:
        """What was read back last, and only the place was written since. Raises UpstreamError."""
        assert self._offsets is not None
        if self._history is not None:
            self._history.begin(number, self._offsets.producer(number))
        return Loaded(found.coordinator, found.replayed, found.snapshot_offset)

    async def write_apart(self, number: int, record_sets: Sequence[RecordSet]) -> None:
        """Of a partition that was read back and is not served. Raises Fenced, UpstreamError: nobody knows what is
        written then."""
        assert self._offsets is not None
        failed: list[UpstreamError] = []

        def settled(told: Mapping[int, UpstreamError | None]) -> None:
            failed.extend(error for error in told.values() if error is not None)

        await self._offsets.write({number: record_sets}, self._clock.now(), settled)
        if failed:
            raise failed[0]

    @asynccontextmanager
    async def apart(self, number: int) -> AsyncIterator[None]:
        """The partition is not served, and nothing but :meth:`write_apart` writes to it meanwhile."""
        self.writes.apart.add(number)
        try:
            if (flight := self.writes.flight_of(number)) is not None:
                await flight.over.wait()
            yield
        finally:
            self.writes.apart.discard(number)

    def loaded(self, number: int, loaded: Loaded) -> None:
        if self._snapshots is not None:
            self._snapshots.loaded(number, loaded.replayed, loaded.snapshot_offset)

    async def release(self, number: int) -> None:
        taking = self._taking.pop(number, None)
        if taking is not None:
            await asyncio.gather(taking, return_exceptions=True)
        if self._standbys is not None:
            self._standbys.drop(number)
        await self._release([number])

    async def _release(self, numbers: Collection[int]) -> None:
        """Whoever takes them over next need not wait for the lease."""
        assert self._offsets is not None
        for number, error in (await self._offsets.release(numbers)).items():
            log.info("%s-%d is not released: %s", self._wanted.offsets, number, error)

    def begin_cleaning(self) -> None:
        """The brokers compact. Now there is time for what others have."""
        self._all_loaded = True
        self.stand_by(self._followed)

    # -- the end

    def stop(self) -> None:
        self._stopping = True
        if self._snapshots is not None:
            self._snapshots.stop()
        self.writes.stop()

    async def close(
        self, last: _Coordinators, timeout_seconds: float, given_up: Callable[[], Awaitable[None]] = nothing
    ) -> None:
        """Where all was written, snapshots are taken for the next start, for LAST_SNAPSHOTS_SECONDS at most, once
        others have what they need. Raises TimeoutError where the disk hangs."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])
        if self._standbys is not None:
            await self._standbys.close()
        for task in self._taking.values():
            task.cancel()
        await asyncio.gather(*self._taking.values(), return_exceptions=True)
        of_use: _Coordinators = []
        ends: dict[int, list[End]] = {}
        if self._offsets is not None:
            if self.writes.all_written:
                if self._snapshots is not None and self._kept is not None:
                    of_use = self._snapshots.of_use(last)
                    ends = {number: self._kept.ends_of(number) for number, _ in of_use}
                try:
                    async with asyncio.timeout(timeout_seconds):
                        await self._release(range(self.num_partitions))
                except TimeoutError:
                    log.info("%s is not released: no answer in time", self._wanted.offsets)
            self._offsets.close()
        await given_up()
        if self._snapshots is not None and self._kept is not None:
            await self._take_last(self._snapshots, self._kept, of_use, ends, timeout_seconds)
        if self._history is not None:
            self._history.close()
        async with asyncio.timeout(timeout_seconds):
            await asyncio.get_running_loop().run_in_executor(self._replayer, _done)
        self._replayer.shutdown()

    async def _take_last(
        self,
        snapshots: Snapshots,
        kept: TopicSnapshots,
        of_use: _Coordinators,
        ends: Mapping[int, list[End]],
        timeout_seconds: float,
    ) -> None:
        """Raises TimeoutError where the disk hangs."""
        until = time.monotonic() + LAST_SNAPSHOTS_SECONDS
        async with asyncio.timeout(timeout_seconds):
            await snapshots.ended()
        try:
            async with asyncio.timeout_at(asyncio.get_running_loop().time() + until - time.monotonic()):
                told = await asyncio.gather(*(self._completed(kept, number, its) for number, its in ends.items()))
        except TimeoutError:
            log.info("%s: no snapshot is taken: no answer in time", self._wanted.offsets)
            told = []
        kept.hold({number: its for number, its in zip(ends, told, strict=False) if its})
        anchored = [each for each in of_use if kept.ends_of(each[0])]
        left = max(0.0, until - time.monotonic())
        async with asyncio.timeout(left + timeout_seconds):
            await snapshots.in_thread(snapshots.take_last, anchored, left)
        snapshots.shutdown()

    async def _completed(self, kept: TopicSnapshots, number: int, ends: list[End]) -> list[End]:
        async with self._places:
            return await kept.completed(number, ends)


def _done() -> None:
    """Behind all that a thread has had to do."""


def _ignored(_record: LoggedRecord, _owner: Owner) -> None:
    """Who has written before is looked at where the partition is taken over."""
