"""Asks all brokers for topics that clients are about to be told of: one look at a time, and then one for all who came
meanwhile. Those of a crowd that comes back at once would queue for each broker's one connection, and none be in time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

from shim.upstream.cluster_topics import ClusterTopics, View


class TopicLooks:
    """For the event loop."""

    def __init__(self, cluster_topics: ClusterTopics) -> None:
        self._cluster_topics = cluster_topics
        # Of the look that is to come, which begins when the one that is under way has ended.
        self._names: set[str] = set()
        self._views: asyncio.Future[Sequence[View | None]] | None = None
        self._looking: asyncio.Task[None] | None = None

    async def each(self, names: Collection[str]) -> list[View | None]:
        """As :meth:`ClusterTopics.each`, by a look that has begun since this was called."""
        loop = asyncio.get_running_loop()
        if self._views is None:
            self._views = loop.create_future()
        self._names.update(names)
        views = self._views
        if self._looking is None:
            self._looking = loop.create_task(self._look())
        await asyncio.wait([views])  # it is left alone when this one is given up
        return [
            None if view is None else {name: view[name] for name in names if name in view} for view in views.result()
        ]

    async def _look(self) -> None:
        try:
            while (views := self._views) is not None:
                names, self._names, self._views = self._names, set(), None
                try:
                    views.set_result(await self._cluster_topics.each(names))
                except Exception as error:
                    views.set_exception(error)
                finally:
                    views.cancel()  # where this is cancelled
        finally:
            self._looking = None
