"""The log on topics of the cluster, as the runtime needs it."""

from __future__ import annotations

import asyncio
import logging
import socket
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import replace
from os import getpid
from typing import Final

from protocol.own.topic_log import Owner
from shim.config import Settings
from shim.coordinator import CoordinatorSettings, GroupCoordinator
from shim.kafka_log.flights import TopicFlights
from shim.kafka_log.history import HistoryTopic
from shim.kafka_log.history_reading import TopicHistoryLog
from shim.kafka_log.owned_topic import Fenced, OwnedTopic
from shim.kafka_log.replaying import TopicReplay
from shim.kafka_log.topics import LEAST_MESSAGE_BYTES, TopicsUnfit, TopicsWanted, make_ready
from shim.log import LogError, LoggedRecord
from shim.metrics import CleaningCounts
from shim.runtime.backend import Loaded, Reports
from shim.runtime.clock import Clock
from shim.runtime.progress import Progress
from shim.runtime.replaying import Home
from shim.upstream import Cluster, UpstreamError

log = logging.getLogger(__name__)

PATIENCE_SECONDS: Final = 30.0
"""How long a write is sent again, and more is waited for of what is read, before the partition is taken over again."""

_TAKEN_OVER_AT_ONCE: Final = 64
_WATCHED: Final = 0
_WATCH_AGAIN_SECONDS: Final = 1.0


class KafkaBackend:
    """See :class:`shim.runtime.backend.Backend`. For the event loop."""

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
        self._taking: dict[int, asyncio.Task[None]] = {}
        self._taken: set[int] = set()
        """Partitions that are taken over and not yet read."""
        self._watching: asyncio.Task[None] | None = None
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
        if self._history is not None:
            self._history.max_message_bytes = topics.history_max_message_bytes
        self.writes.take_off_to(self._offsets, self._history, topics.owner_again_seconds)
        # First the one that whoever has them watches, so that he stops before anything of his is told by somebody else.
        await self._offsets.take_over(_WATCHED)
        self._watching = asyncio.create_task(self._watch(self._offsets))
        # All others at once, as each of the former owner's leases has to have ended.
        places = asyncio.Semaphore(_TAKEN_OVER_AT_ONCE)
        self._taking = {
            number: asyncio.create_task(self._take_over(number, places))
            for number in range(self.num_partitions)
            if number != _WATCHED
        }
        self._taken = {_WATCHED}

    async def _take_over(self, number: int, places: asyncio.Semaphore) -> None:
        assert self._offsets is not None
        async with places:
            if self.writes.fenced is not None:
                raise self.writes.fenced
            await self._offsets.take_over(number)

    async def _watch(self, offsets: OwnedTopic) -> None:
        """Who has nothing to write does not hear by that that somebody else has come, and goes on with what is done
        besides."""
        while True:
            try:
                owner = await offsets.other_owner(_WATCHED)
            except (LogError, UpstreamError) as error:  # it is being taken over again, or cannot be
                log.debug("%s-%d is not watched now: %s", self._wanted.offsets, _WATCHED, error)
                await asyncio.sleep(_WATCH_AGAIN_SECONDS)
            else:
                self.writes.give_up(Fenced(f"{self._wanted.offsets}-{_WATCHED}: it is owned by {owner.name}"))
                return

    async def size(self) -> int | None:
        return None

    async def sizes(self) -> Sequence[int]:
        return [0] * self.num_partitions

    async def load(self, number: int) -> Loaded:
        """Raises Fenced, UpstreamError, too."""
        if self.writes.fenced is not None:
            raise self.writes.fenced
        try:
            return await self._load(number)
        except Fenced as error:
            self.writes.give_up(error)
            raise

    async def _load(self, number: int) -> Loaded:
        assert self._offsets is not None
        if number in self._taken:
            self._taken.discard(number)
        else:
            await (self._taking.pop(number, None) or self._offsets.take_over(number))
        place = f"{self._wanted.offsets}-{number}"

        def skipped(offset: int, type_: int) -> None:
            log.warning("%s offset %d: key type %d skipped", place, offset, type_)

        coordinator = GroupCoordinator(self._coordinator_settings)
        replay = TopicReplay(coordinator, Home(number, self.num_partitions, place), _ignored, skipped)
        loop, replayed = asyncio.get_running_loop(), 0
        async with aclosing(self._offsets.read(number)) as reading:
            async for records in reading:
                await loop.run_in_executor(self._replayer, replay.apply, records)
                replayed += len(records)
                self.progress.replayed(len(records))
        if self._history is not None:
            self._history.begin(number, self._offsets.producer(number))
        return Loaded(coordinator, replayed, 0)

    def loaded(self, number: int, loaded: Loaded) -> None:
        pass

    def begin_cleaning(self) -> None:
        """The brokers compact."""

    # -- the end

    def stop(self) -> None:
        self.writes.stop()

    async def close(self, last: Sequence[tuple[int, GroupCoordinator]], timeout_seconds: float) -> None:
        """Whoever takes the partitions over next need not wait for the lease, where all was written."""
        begun = [*self._taking.values(), *([self._watching] if self._watching is not None else [])]
        for task in begun:
            task.cancel()
        await asyncio.gather(*begun, return_exceptions=True)
        if self._offsets is not None:
            if self.writes.all_written:
                try:
                    async with asyncio.timeout(timeout_seconds):
                        failed = await self._offsets.release(range(self.num_partitions))
                except TimeoutError:
                    failed = {number: UpstreamError("no answer in time") for number in range(self.num_partitions)}
                for number, error in failed.items():
                    log.info("%s-%d is not released: %s", self._wanted.offsets, number, error)
            self._offsets.close()
        if self._history is not None:
            self._history.close()
        self._replayer.shutdown()


def _ignored(_record: LoggedRecord, _owner: Owner) -> None:
    """Who has written before is looked at where the partition is taken over."""
