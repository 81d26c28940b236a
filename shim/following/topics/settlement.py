"""Settles doubts: asks all brokers, and has the offsets of a topic that is gone, or another one by now, deleted."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Final

from shim.counted import counted
from shim.following.topics.pace import Pace
from shim.following.topics.table import TopicTable
from shim.logged_once import LoggedOnce
from shim.runtime.offsets_of_topics import OffsetsOfTopics
from shim.upstream.cluster_topics import TOPICS_AT_ONCE, ClusterTopics, Topic, View
from shim.upstream.errors import UpstreamError

log = logging.getLogger(__name__)

_TWICE: Final = 2
"""So often all brokers have to be without a topic, with a while between."""

_NOT_FOUND_OUT: Final = "whether topics have been deleted cannot be found out"


class TopicSettlement:
    """Of the doubts in the table."""

    def __init__(self, cluster_topics: ClusterTopics, table: TopicTable, pace: Pace) -> None:
        self._cluster_topics = cluster_topics
        self._table = table
        self._doubts = table.doubts
        self._pace = pace
        self._trouble = LoggedOnce(log)

    async def run(self, offsets: OffsetsOfTopics) -> None:
        """For ever."""
        while True:
            await self._doubts.wait_for_any()
            doubtful = self._doubts.names()
            for first in range(0, len(doubtful), TOPICS_AT_ONCE):
                await self._settle(doubtful[first : first + TOPICS_AT_ONCE], offsets)
            await asyncio.sleep(self._pace.round)

    async def _settle(self, names: list[str], offsets: OffsetsOfTopics) -> None:
        for name in names:
            self._doubts[name].seen = None
        view: View = {}
        try:
            view = await self._cluster_topics.all(names)
        except UpstreamError as error:
            self._trouble.failed(_NOT_FOUND_OUT, error)
        else:
            self._trouble.went_well(_NOT_FOUND_OUT)
        for name in names:
            topic = view.get(name)
            if self._doubts[name].gone:
                await self._settle_gone(name, offsets)
            elif topic is not None:
                self._doubts[name].absent = 0
                await self._settle_present(name, topic, offsets)
            else:
                await self._settle_absent(name, offsets, all_say_so=name in view)
            if name in self._doubts:
                self._look_how_long_it_lasts(name)

    async def _settle_present(self, name: str, topic: Topic, offsets: OffsetsOfTopics) -> None:
        if self._table.is_surely_another(name, topic):
            self._doubts[name].blocks = True  # it may be that nobody has seen that one before
            deleted = await offsets.delete(name)
            log.warning(
                "topic %s has been deleted and made anew: deleted %s committed for the old one",
                *(name, counted(deleted, "offset")),
            )
        self._table.settle_present(name, topic)

    async def _settle_absent(self, name: str, offsets: OffsetsOfTopics, *, all_say_so: bool) -> None:
        doubt = self._doubts[name]
        doubt.absent = doubt.absent + 1 if all_say_so and doubt.seen is None else 0
        if doubt.absent >= _TWICE:
            await self._settle_gone(name, offsets)

    async def _settle_gone(self, name: str, offsets: OffsetsOfTopics) -> None:
        self._doubts[name].blocks = True
        deleted = await offsets.delete(name)
        self._table.settle_gone(name)
        log.warning("topic %s has been deleted: deleted %s committed for it", name, counted(deleted, "offset"))

    def _look_how_long_it_lasts(self, name: str) -> None:
        doubt = self._doubts[name]
        if time.monotonic() - doubt.since < self._pace.doubt:
            return
        if not doubt.blocks:
            self._table.leave_unsettled(name)
        elif not doubt.told:
            doubt.told = True
            log.error(
                "topic %s was seen with another id, and the brokers do not agree, or too few of them answer: its "
                "offsets are neither served nor taken until they do",
                name,
            )
