"""The log on topics of the cluster, as the runtime needs it."""

from __future__ import annotations

import asyncio
import logging
import socket
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from os import getpid
from typing import Final

from protocol.own.topic_log import Owner
from protocol.topic_partition import TopicPartition
from protocol.wire import ZERO_UUID
from shim.config import Settings
from shim.coordinator import CoordinatorSettings
from shim.kafka_log.copies.last_snapshots import LastSnapshots
from shim.kafka_log.copies.snapshots import TopicSnapshots, on_disk
from shim.kafka_log.history.reading import TopicHistoryLog
from shim.kafka_log.history.writing import HistoryTopic
from shim.kafka_log.owning.owned_topic import OwnedTopic
from shim.kafka_log.taking_over.taking_over import Found, TakingOver
from shim.kafka_log.topics.ready import Looked, make_ready
from shim.kafka_log.topics.wanted import LEAST_MESSAGE_BYTES, TopicsUnfit, TopicsWanted
from shim.kafka_log.topics.watch import TopicsWatch
from shim.kafka_log.writing.flights import TopicFlights
from shim.log import LogError
from shim.metrics import CleaningCounts, FlushCounts, StandbyCounts
from shim.runtime.backend import Loaded, Reports, nothing
from shim.runtime.clock import Clock
from shim.runtime.flight import RecordSet
from shim.runtime.progress import Progress
from shim.runtime.snapshots import Retired, Snapshots
from shim.upstream import Cluster, UpstreamError
from shim.upstream.topic_reader import TopicReader

log = logging.getLogger(__name__)

PATIENCE_SECONDS: Final = 30.0
"""How long a write is sent again, and more is waited for of what is read, before the partition is taken over again."""


class KafkaBackend:
    """See :class:`shim.runtime.backend.Backend`. For the event loop. Its parts are there from the beginning, but
    for those that :meth:`attach` makes; :meth:`open` tells them what the topics are like."""

    is_divided: Final = True
    is_among_shims: Final = True
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
        progress: Progress | None = None,
    ) -> None:
        """``claimed`` is set when the cluster is known to be the right one. ``snapshots``: where there are to be some;
        what is read from one tells neither where groups stood before nor which place counts. ``progress``: of the
        loading, where there is another log besides that has it.
        """
        self._cluster = cluster
        self._settings = settings
        self._clock = clock
        self._claimed = claimed
        self.progress = progress or Progress()
        self.cleaning = CleaningCounts()
        self.num_partitions = settings.offsets_topic_num_partitions
        self._wanted = TopicsWanted.of(settings)
        self._watch = TopicsWatch(cluster, settings, self._wanted, self._looked)
        self._watching: asyncio.Task[None] | None = None
        self._offsets = _offsets_topic(cluster, settings, self._wanted.offsets)
        self._coordinator_settings = self.coordinator_settings(settings)
        self._reader = TopicReader(cluster, settings, self._wanted.offsets)
        self._snapshot_files = snapshots
        self._taking_snapshots: Snapshots | None = None
        """When, and of what; both are there or none. `writes.snapshots` is the same, unless the topic has no id."""
        self._taking_over = TakingOver(
            cluster,
            settings,
            self._wanted,
            self._offsets,
            self._reader,
            snapshots,
            lambda: self._coordinator_settings,
            self.progress,
        )
        self._followed: Collection[int] = ()
        self._all_loaded = False
        self._history = _history_topic(cluster, settings, self._wanted.history)
        self.history_log = TopicHistoryLog(cluster, settings, self._wanted.history, self.num_partitions, self._history)
        self.is_open = False
        """Whether the topics are as they should be, and may be written to."""

    def attach(self, reports: Reports) -> None:
        timeout_seconds = self._settings.offsets_commit_timeout_ms / 1000
        self.writes = TopicFlights(self._offsets, self._history, self._clock, timeout_seconds, reports)
        if self._snapshot_files is not None:
            taking = Snapshots(self._snapshot_files, reports.coordinator, self.writes.wake)
            self._taking_snapshots = self.writes.snapshots = taking

    @property
    def flushes(self) -> FlushCounts:
        return self.writes.flushes

    def writes_of(self, _number: int) -> TopicFlights:
        return self.writes

    async def run(self) -> None:
        await self.writes.run()

    def name_of(self, number: int) -> str:
        return str(TopicPartition(self._wanted.offsets, number))

    def remedy(self, _number: int) -> str:
        return "put that right, and start the shim again"

    def coordinator_settings(self, settings: Settings) -> CoordinatorSettings:
        """Half of what a batch may have: a set may have as much again of what is pending."""
        most = self._offsets.max_message_bytes // 2
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
        self._offsets.max_message_bytes = topics.max_message_bytes
        # One that was to write again, and has not, a whole turn later: brokers may forget soon.
        self._offsets.silent_seconds = 2 * topics.owner_again_seconds
        if self._history is not None:
            self._history.max_message_bytes = topics.history_max_message_bytes
        self._coordinator_settings = self.coordinator_settings(settings)
        self.writes.claim_again_seconds = topics.owner_again_seconds
        self._taking_over.retention_told(topics.delete_retention_ms / 1000)
        if self._snapshot_files is not None:
            self._snapshot_files.open(topics.offsets, topics.offsets_id, self._offsets, self._reader)
            await on_disk(self._snapshot_files.tidy, topics.delete_retention_ms)
            if topics.offsets_id == ZERO_UUID:  # of a topic without an id there are none
                self.writes.snapshots = None
        self.is_open = True
        self._watching = asyncio.create_task(self._watch.run())

    async def _looked(self, found: Looked) -> None:
        self._taking_over.retention_told(found.delete_retention_ms / 1000)
        if self._snapshot_files is not None and self._taking_snapshots is not None:
            if self._snapshot_files.is_of_another(found.delete_retention_ms):
                await on_disk(self._snapshot_files.tidy, found.delete_retention_ms)
            for number in range(self.num_partitions):
                self._taking_snapshots.may_be_outdated(number)

    def expect(self, numbers: Collection[int]) -> None:
        self._taking_over.expect(numbers)

    def stand_by(self, numbers: Collection[int]) -> None:
        self._followed = numbers
        if self._all_loaded:
            self._taking_over.follow(numbers)

    @property
    def standbys(self) -> StandbyCounts:
        return self._taking_over.counts

    @property
    def complaints(self) -> Sequence[str]:
        return self._watch.complaints

    async def size(self) -> int | None:
        return None

    async def sizes(self) -> Sequence[int]:
        return [0] * self.num_partitions

    async def load(self, number: int) -> Loaded:
        """Raises Fenced, UpstreamError, too."""
        found = await self.read_back(number, logging.INFO)
        if found.place is not None and not found.place.here:
            raise LogError(
                f"{self.name_of(number)} is in the data directory of a shim with shim.instance.id="
                f"{found.place.directory}, which serves it with offsets.log=moving or local"
            )
        return self.served(number, found)

    async def read_back(self, number: int, level: int = logging.DEBUG) -> Found:
        """As :meth:`TakingOver.read_back`. Who moves a partition reads it several times, and tells of it himself."""
        return await self._taking_over.read_back(number, level)

    def served(self, number: int, found: Found) -> Loaded:
        """What was read back last, and only the place was written since. Raises UpstreamError."""
        if self._history is not None:
            self._history.begin(number, self._offsets.producer(number))
        return Loaded(found.coordinator, found.records, found.snapshot_offset)

    async def write_apart(self, number: int, record_sets: Sequence[RecordSet]) -> None:
        """Of a partition that was read back and is not served. Raises Fenced, UpstreamError: nobody knows what is
        written then."""
        failed: list[UpstreamError] = []

        def completed(told: Mapping[int, UpstreamError | None]) -> None:
            failed.extend(error for error in told.values() if error is not None)

        await self._offsets.write({number: record_sets}, self._clock.now(), completed)
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
        if self._taking_snapshots is not None:
            self._taking_snapshots.loaded(number, loaded.replayed, loaded.snapshot_offset)

    async def release(self, number: int) -> None:
        await self._taking_over.give_up(number)
        await self._release([number])

    async def _release(self, numbers: Collection[int]) -> None:
        """Whoever takes them over next need not wait for the lease."""
        for number, error in (await self._offsets.release(numbers)).items():
            log.info("%s is not released: %s", self.name_of(number), error)

    def begin_cleaning(self) -> None:
        """The brokers compact. Now there is time for what others have."""
        self._all_loaded = True
        self.stand_by(self._followed)

    # -- the end

    def stop(self) -> None:
        self._taking_over.stop()
        if self._taking_snapshots is not None:
            self._taking_snapshots.stop()
        self.writes.stop()

    async def close(
        self, last: Retired, timeout_seconds: float, given_up: Callable[[], Awaitable[None]] = nothing
    ) -> None:
        """Where all was written, snapshots are taken for the next start, for LAST_SNAPSHOTS_SECONDS at most, once
        others have what they need. Raises TimeoutError where the disk hangs."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])
        await self._taking_over.end()
        last_snapshots: LastSnapshots | None = None
        if self._taking_snapshots is not None and self._snapshot_files is not None:
            last_snapshots = LastSnapshots(self._taking_snapshots, self._snapshot_files)
        if self.is_open and self.writes.all_written:
            if last_snapshots is not None:
                last_snapshots.choose(last)
            try:
                async with asyncio.timeout(timeout_seconds):
                    await self._release(range(self.num_partitions))
            except TimeoutError:
                log.info("%s is not released: no answer in time", self._wanted.offsets)
        self._offsets.close()
        await given_up()
        if last_snapshots is not None:
            await last_snapshots.take(timeout_seconds)
        if self._history is not None:
            self._history.close()
        await self._taking_over.close(timeout_seconds)


def _offsets_topic(cluster: Cluster, settings: Settings, topic: str) -> OwnedTopic:
    name = f"{socket.gethostname()}, process {getpid()}"
    return OwnedTopic(
        cluster,
        settings,
        topic,
        Owner(uuid.uuid4().bytes, name, settings.offsets_read_lease_ms),
        patience_seconds=PATIENCE_SECONDS,
        silent_seconds=0.0,
        max_message_bytes=LEAST_MESSAGE_BYTES,
    )


def _history_topic(cluster: Cluster, settings: Settings, topic: str) -> HistoryTopic | None:
    """None where no history is kept."""
    if settings.offsets_history_retention_minutes <= 0:
        return None
    return HistoryTopic(
        cluster, settings, topic, patience_seconds=PATIENCE_SECONDS, max_message_bytes=LEAST_MESSAGE_BYTES
    )
