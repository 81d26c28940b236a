"""Looks at the topics for which there are offsets, again and again: are they there, and are they the ones they were."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from typing import Final

from shim.following.topics.pace import Pace
from shim.following.topics.table import TopicTable
from shim.logged_once import LoggedOnce
from shim.runtime.offsets_of_topics import OffsetsOfTopics
from shim.upstream.cluster_topics import TOPICS_AT_ONCE, ClusterTopics, is_legal
from shim.upstream.errors import UpstreamError

log = logging.getLogger(__name__)

# A response of so many partitions is read in some ten milliseconds.
_PARTITIONS_AT_ONCE: Final = 2_000
_UNSEEN: Final = 10

_NO_LOOK: Final = "topics cannot be looked up"
_UNCONFIRMED: Final = "whether a topic is made anew would not be noticed"


class TopicRefresh:
    """What it sees goes into the table."""

    def __init__(self, cluster_topics: ClusterTopics, table: TopicTable, interval_seconds: float, pace: Pace) -> None:
        self._cluster_topics = cluster_topics
        self._table = table
        self._interval = interval_seconds
        self._changed = asyncio.Event()
        self._pace = pace
        self._trouble = LoggedOnce(log)

    def take_interval(self, seconds: float) -> None:
        """From the next look on, which comes at once."""
        self._interval = seconds
        self._changed.set()

    async def run(self, offsets: OffsetsOfTopics) -> None:
        """For ever."""
        while True:
            await self._look(await self._in_use(offsets))
            with suppress(TimeoutError):
                async with asyncio.timeout(self._interval):
                    await self._changed.wait()
            self._changed.clear()

    async def _in_use(self, offsets: OffsetsOfTopics) -> Collection[str]:
        """What a partition has that is being loaded is nothing new when it is served again."""
        in_use = await offsets.in_use()
        return in_use if offsets.are_all_known else in_use | self._table.partition_counts.keys()

    async def _look(self, in_use: Collection[str]) -> None:
        try:
            for names in self._requests(in_use):
                for name, topic in (await self._cluster_topics.one(names)).items():
                    if topic is not None:
                        self._table.saw(name, topic)
                    else:
                        self._table.missed(name)
                await self._confirm(names)
                await asyncio.sleep(self._pace.pause)
        except UpstreamError as error:
            self._trouble.failed(_NO_LOOK, error)
        else:
            self._trouble.went_well(_NO_LOOK)
        self._table.forget_unused(in_use)

    def _requests(self, in_use: Iterable[str]) -> Iterator[list[str]]:
        names: list[str] = []
        partitions = 0
        for name in in_use:
            if is_legal(name):
                names.append(name)
                partitions += self._table.partition_counts.get(name, _UNSEEN)
                if len(names) >= TOPICS_AT_ONCE or partitions >= _PARTITIONS_AT_ONCE:
                    yield names
                    names, partitions = [], 0
        if names:
            yield names

    async def ask_all(self, names: Iterable[str]) -> None:
        """What all brokers say of these goes into the table. Raises :class:`UpstreamError`."""
        for some in self._requests(names):
            view = await self._cluster_topics.all(some)
            for name in some:
                topic = view.get(name)
                if topic is not None:
                    self._table.saw(name, topic)
                    self._table.confirm(name, topic)
                else:  # or they do not all say the same
                    self._table.missed(name)

    async def _confirm(self, names: Iterable[str]) -> None:
        """Which topic it is that has a name, before any offset is deleted since it is not that one any more."""
        unconfirmed = self._table.unconfirmed(names)
        if not unconfirmed:
            return
        try:
            view = await self._cluster_topics.all(unconfirmed)
        except UpstreamError as error:  # at the next look, perhaps
            self._trouble.failed(_UNCONFIRMED, error)
            return
        self._trouble.went_well(_UNCONFIRMED)
        for name, topic in view.items():
            if topic is not None:
                self._table.confirm(name, topic)
