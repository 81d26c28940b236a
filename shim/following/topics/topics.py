"""Which topics the cluster has: the one place that says whether an offset can be committed, and when it is of nothing.

What is known here is what was seen: each topic for which there are offsets is looked at again and again, one that is
not known when it is asked for, and what Metadata responses tell clients is seen on its way to them. What was seen may
be old, as a broker may be behind. So a topic that seems to be gone, or to be another one under the same name (its id
has changed), is in doubt, until all brokers say the same: of a topic that is gone, twice.

While another topic is suspected, no offset is committed. So whatever was committed before is the old topic's, and is
deleted; whatever is committed later is the new one's, and stays.

As in Kafka, a topic is gone only where it was seen before: offsets for one that was never there since the start, which
may have been brought from elsewhere, stay until they expire.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable

from shim.config import Settings
from shim.following.topics.doubts import TopicInDoubt
from shim.following.topics.lookup import TopicLookup
from shim.following.topics.pace import Pace
from shim.following.topics.refresh import TopicRefresh
from shim.following.topics.settlement import TopicSettlement
from shim.following.topics.table import TopicTable
from shim.runtime.offsets_of_topics import OffsetsOfTopics
from shim.upstream.cluster_topics import ClusterTopics, Topic, View, is_legal
from shim.upstream.errors import UpstreamError


class Topics:
    """As handlers know them; for the event loop."""

    def __init__(self, cluster_topics: ClusterTopics, settings: Settings, pace: Pace | None = None) -> None:
        self._pace = pace or Pace()
        self._cluster_topics = cluster_topics
        self._table = TopicTable()
        self._doubts = self._table.doubts
        self._lookup = TopicLookup(cluster_topics, self._table.saw)
        interval_seconds = settings.topology_refresh_interval_ms / 1000
        self._refresh = TopicRefresh(cluster_topics, self._table, interval_seconds, self._pace)
        self._settlement = TopicSettlement(cluster_topics, self._table, self._pace)
        self.partition_counts = self._table.partition_counts
        """Of the topics that are known and not in doubt; to be looked at only. One that is not there may exist."""

    async def run(self, offsets: OffsetsOfTopics) -> None:
        """Look, every `topology.refresh.interval.ms`, at the topics for which there are ``offsets``, for ever, and have
        those for topics that are gone deleted."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._settlement.run(offsets))
            tasks.create_task(self._refresh.run(offsets))

    # -- what requests ask

    async def partitions_of(self, names: Collection[str]) -> dict[str, int | None]:
        """How many partitions the topics have, as the cluster says now: 0 where there is none; None where nobody can
        say, or not in time. Raises :class:`TopicInDoubt`.
        """
        legal = {name for name in names if is_legal(name)}
        seen: View = {}
        counts: dict[str, int | None] = {name: None if name in legal else 0 for name in names}
        try:
            async with asyncio.timeout(self._pace.wait):
                seen = await self._lookup.look_up(legal)
                # Also of one of which nobody could say anything: it may be another one by now.
                await self._doubts.wait_until_over(
                    [name for name in legal if name not in seen or seen[name] is not None]
                )
        except (TimeoutError, UpstreamError) as error:
            if self.blocked(legal) or any(seen.get(name) is not None for name in self._doubts.names()):
                raise TopicInDoubt from error
        else:
            for name, topic in seen.items():
                counts[name] = max(topic.partitions, self.partition_counts.get(name, 0)) if topic is not None else 0
        return counts

    @property
    def any_in_doubt(self) -> bool:
        """Whether any topic is."""
        return bool(self._doubts)

    def blocked(self, names: Iterable[str] | None) -> list[str]:
        """Which of these (None: of all) were seen with another id: it is not known yet whether their offsets are to be
        deleted."""
        return self._doubts.blocked(names)

    async def certain(self, names: Collection[str]) -> None:
        """Wait until none of these is in doubt. Raises :class:`TopicInDoubt`."""
        try:
            async with asyncio.timeout(self._pace.wait):
                await self._doubts.wait_until_over(names)
        except TimeoutError as error:
            raise TopicInDoubt from error

    # -- what clients are told

    def learn(self, name: str, topic: Topic) -> None:
        """A broker has told a client so. What is no concern of the shim's is not kept."""
        if self._table.concerns(name):
            self._table.saw(name, topic)

    async def learn_ids(self, names: Iterable[str]) -> None:
        """A client is about to be told of these by a broker that was asked for no ids: what these are is asked of all
        that answer, as it is not known here which of them knows as much as that one."""
        names = [name for name in names if self._table.concerns(name)]
        if names:
            for view in await self._cluster_topics.each(names):
                for name, topic in view.items():
                    if topic is not None:
                        self.learn(name, topic)
