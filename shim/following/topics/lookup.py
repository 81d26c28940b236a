"""Asks the cluster for topics that requests name and that are not known: one request at a time, for all who wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from itertools import islice
from typing import Final

from shim.upstream.cluster_topics import TOPICS_AT_ONCE, ClusterTopics, Topic, View
from shim.upstream.errors import UpstreamError

_MOST_WANTED: Final = 100_000
"""Beyond so many names nobody is asked for more: a broker that hangs must not make them pile up."""


class TopicLookup:
    """``saw`` is told of each topic that is there, before who has asked is."""

    def __init__(self, cluster_topics: ClusterTopics, saw: Callable[[str, Topic], None]) -> None:
        self._cluster_topics = cluster_topics
        self._saw = saw
        # Of each name the answer to the request that it will be in.
        self._wanted: dict[str, asyncio.Future[View | UpstreamError]] = {}
        self._asking: asyncio.Task[None] | None = None

    async def look_up(self, names: Collection[str]) -> View:
        """Raises :class:`UpstreamError`."""
        if len(self._wanted) > _MOST_WANTED:
            raise UpstreamError("too many topics are being asked for")
        loop = asyncio.get_running_loop()
        asked = {}
        for name in names:
            if name not in self._wanted:
                self._wanted[name] = loop.create_future()
            asked[name] = self._wanted[name]
        if not asked:
            return {}
        if self._asking is None:
            self._asking = loop.create_task(self._ask_for_wanted())
        await asyncio.wait(asked.values())  # unlike gather, it leaves them alone when this one is given up
        seen = {}
        for name, answer in asked.items():
            view = answer.result()
            if isinstance(view, UpstreamError):
                raise view
            if name in view:
                seen[name] = view[name]
        return seen

    async def _ask_for_wanted(self) -> None:
        try:
            while self._wanted:
                names = list(islice(self._wanted, TOPICS_AT_ONCE))
                answers = [self._wanted.pop(name) for name in names]
                view: View | UpstreamError
                try:
                    view = await self._ask(names)
                except UpstreamError as error:
                    view = error
                else:
                    for name, topic in view.items():
                        if topic is not None:
                            self._saw(name, topic)
                for answer in answers:
                    answer.set_result(view)
        finally:
            self._asking = None

    async def _ask(self, names: Collection[str]) -> View:
        view = await self._cluster_topics.one(names)
        there = {name: topic for name, topic in view.items() if topic is not None}
        absent = [name for name, topic in view.items() if topic is None]
        if not absent:
            return view
        try:
            # A topic may be so new that not every broker has heard of it.
            return {**there, **await self._cluster_topics.all(absent)}
        except UpstreamError:
            if not there:
                raise
            return there  # what was seen of these holds, and may be that one is another topic by now
