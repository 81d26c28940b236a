"""The log on topics of the cluster, as the runtime needs it."""

from __future__ import annotations

import asyncio
import logging
import socket
import uuid
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from os import getpid
from typing import Final, NamedTuple

from protocol.own.state_log import GroupChangeKey, GroupHandsValue
from protocol.own.topic_log import Owner, Place
from shim.config import Settings
from shim.coordinator import CoordinatorSettings, GroupCoordinator
from shim.kafka_log.flights import TopicFlights
from shim.kafka_log.history import HistoryTopic
from shim.kafka_log.history_reading import TopicHistoryLog
from shim.kafka_log.owned_topic import Fenced, OwnedTopic
from shim.kafka_log.partition_copy import PartitionCopy
from shim.kafka_log.read_part import ReadPart
from shim.kafka_log.replaying import TopicReplay
from shim.kafka_log.standbys import Standbys
from shim.kafka_log.topics import LEAST_MESSAGE_BYTES, TopicsUnfit, TopicsWanted, make_ready
from shim.log import LogError, LoggedRecord
from shim.metrics import CleaningCounts, StandbyCounts
from shim.runtime.backend import Loaded, Reports
from shim.runtime.clock import Clock
from shim.runtime.flight import RecordSet
from shim.runtime.progress import Progress
from shim.runtime.replaying import Home
from shim.upstream import Cluster, UpstreamError
from shim.upstream.topic_reader import TopicReader

log = logging.getLogger(__name__)

PATIENCE_SECONDS: Final = 30.0
"""How long a write is sent again, and more is waited for of what is read, before the partition is taken over again."""

_TAKEN_OVER_AT_ONCE: Final = 64


class Found(NamedTuple):
    """What a partition has: a coordinator as it is loaded, where groups stood before, which place counts (None: nothing
    is said of that), and how many records were replayed."""

    coordinator: GroupCoordinator
    changes: Mapping[GroupChangeKey, GroupHandsValue]
    place: Place | None
    replayed: int


class KafkaBackend:
    """See :class:`shim.runtime.backend.Backend`. For the event loop."""

    is_shared: Final = True
    loads_at_once: Final = 4
    passing: Final = (UpstreamError, OSError)

    writes: TopicFlights

    def __init__(self, cluster: Cluster, settings: Settings, clock: Clock, claimed: asyncio.Event) -> None:
        """``claimed`` is set when the cluster is known to be the right one."""
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
        self._offsets: OwnedTopic | None = None
        self._standbys: Standbys | None = None
        self._followed: Collection[int] = ()
        self._all_loaded = False
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
        self._standbys = Standbys(
            TopicReader(self._cluster, settings, topics.offsets),
            topics.offsets,
            self._copy,
            self._replayer,
            topics.delete_retention_ms / 1000,
        )
        if self._history is not None:
            self._history.max_message_bytes = topics.history_max_message_bytes
        self.writes.take_off_to(self._offsets, self._history, topics.owner_again_seconds)
        self.is_open = True

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
            copy, before = followed or self._copy(number), followed.replayed if followed is not None else 0
            loop = asyncio.get_running_loop()
            async with aclosing(self._offsets.read(number, copy.part)) as reading:
                async for records in reading:
                    await loop.run_in_executor(self._replayer, copy.apply, records)
                    self.progress.replayed(len(records))
        replayed = copy.replayed - before
        self._standbys.took_over(number, replayed, before if followed is not None else None)
        return Found(copy.coordinator, copy.changes, copy.place, replayed)

    def _copy(self, number: int) -> PartitionCopy:
        """Of nothing yet."""
        place = f"{self._wanted.offsets}-{number}"

        def skipped(offset: int, type_: int) -> None:
            log.warning("%s offset %d: key type %d skipped", place, offset, type_)

        coordinator = GroupCoordinator(self._coordinator_settings)
        replay = TopicReplay(coordinator, Home(number, self.num_partitions, place), _ignored, skipped)
        return PartitionCopy(coordinator, replay, ReadPart(self._wanted.offsets, number))

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

    def served(self, number: int, found: Found) -> Loaded:
        """What was read back last, and only the place was written since. Raises UpstreamError."""
        assert self._offsets is not None
        if self._history is not None:
            self._history.begin(number, self._offsets.producer(number))
        return Loaded(found.coordinator, found.replayed, 0)

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
        pass

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
        self.writes.stop()

    async def close(self, last: Sequence[tuple[int, GroupCoordinator]], timeout_seconds: float) -> None:
        if self._standbys is not None:
            await self._standbys.close()
        for task in self._taking.values():
            task.cancel()
        await asyncio.gather(*self._taking.values(), return_exceptions=True)
        if self._offsets is not None:
            if self.writes.all_written:
                try:
                    async with asyncio.timeout(timeout_seconds):
                        await self._release(range(self.num_partitions))
                except TimeoutError:
                    log.info("%s is not released: no answer in time", self._wanted.offsets)
            self._offsets.close()
        if self._history is not None:
            self._history.close()
        self._replayer.shutdown()


def _ignored(_record: LoggedRecord, _owner: Owner) -> None:
    """Who has written before is looked at where the partition is taken over."""
