"""Which topics the cluster has: the one place that says whether an offset can be committed, and when it is of nothing.

What is known here is what was seen: each topic for which there are offsets is looked at again and again, one that is
not known when it is asked for, and before a client is told so one that a response says is another one, or was made or
deleted. Only what brokers tell the shim itself counts: a response to a client has it ask, and, where nobody shows in
time what it has done, doubt. What was seen may be old, as a broker may be behind. So a topic that seems to be gone, or
to be another one under the same name (its id has changed), is in doubt, until all brokers say the same: of a topic that
is gone, twice, or once where its deletion was answered before.

While another topic is suspected, no offset is committed. So whatever was committed before is the old topic's, and is
deleted; whatever is committed later is the new one's, and stays.

As in Kafka, a topic is gone only where it was seen before: offsets for one that was never there since the start, which
may have been brought from elsewhere, stay until they expire.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from protocol.wire import ZERO_UUID
from shim.config import Settings
from shim.following.topics.doubts import Doubt, TopicInDoubt
from shim.following.topics.looks import TopicLooks
from shim.following.topics.lookup import TopicLookup
from shim.following.topics.pace import Pace
from shim.following.topics.refresh import TopicRefresh
from shim.following.topics.settlement import TopicSettlement
from shim.following.topics.table import TopicTable
from shim.runtime.offsets_of_topics import OffsetsOfTopics
from shim.upstream.cluster_topics import ClusterTopics, Topic, View, is_legal
from shim.upstream.errors import UpstreamError

_NOTHING_SAID: Final = Topic(ZERO_UUID, 0)


class Topics:
    """As handlers know them; for the event loop."""

    def __init__(self, cluster_topics: ClusterTopics, settings: Settings, pace: Pace | None = None) -> None:
        self._pace = pace or Pace()
        self._table = TopicTable()
        self._doubts = self._table.doubts
        self._lookup = TopicLookup(cluster_topics, self._table.saw)
        self._looks = TopicLooks(cluster_topics)
        interval_seconds = settings.topology_refresh_interval_ms / 1000
        self._refresh = TopicRefresh(cluster_topics, self._table, interval_seconds, self._pace)
        self._settlement = TopicSettlement(cluster_topics, self._table, self._pace)
        self.partition_counts = self._table.partition_counts
        """Of the topics that are known and not in doubt; to be looked at only. One that is not there may exist."""

    def take_settings(self, settings: Settings) -> None:
        self._refresh.take_interval(settings.topology_refresh_interval_ms / 1000)

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

    async def uncertain(self, names: Collection[str]) -> list[str]:
        """All brokers are asked for these, and those in doubt are waited for: which may yet not be the topics that they
        were. Of the others whatever was committed for a topic that had the name before is deleted. Raises
        :class:`UpstreamError` where no more than half of the brokers answer.
        """
        await self._refresh.ask_all(names)
        with suppress(TopicInDoubt):  # it is among those that are given
            await self.certain(names)
        return [name for name in names if name in self._doubts]

    # -- what clients are told

    def strange(self, ids: Mapping[str, bytes]) -> dict[str, bytes]:
        """Which of the topics that a client is about to be told of are other ones than is known here, or in doubt, by
        their ids. What is no concern of the shim's is left out."""
        identities, doubts = self._table.identities, self._doubts
        return {
            name: topic_id
            for name, topic_id in ids.items()
            if topic_id != ZERO_UUID
            and self._table.concerns(name)
            and (name in doubts or name not in identities or identities[name].topic_id != topic_id)
        }

    async def look_at(self, ids: Mapping[str, bytes]) -> set[str]:
        """A client is about to be told of these: what they are is asked of all that answer, as it is not known here
        which of them knows as much as the broker that has told the client.

        Gives those of which no broker has shown that id to the shim: it does not suspect another topic, so offsets
        would be served and taken as if it were the one that is known. Those of which they say nothing (the shim may not
        see them) are not among them.
        """
        names = [name for name in ids if self._table.concerns(name)]
        shown = self._take(names, await self._looks.each(names)) if names else {}
        known = self._table.identities
        return {
            name
            for name, of_name in shown.items()
            if ids[name] not in of_name and not (name in known and known[name].topic_id == ids[name])
        }

    # -- what clients have done

    def of_concern(self, changes: Mapping[str, bytes | None]) -> dict[str, bytes | None]:
        """Those of which there may be offsets."""
        return {name: made for name, made in changes.items() if self._table.concerns(name)}

    async def look_for(self, changes: Mapping[str, bytes | None]) -> dict[str, bytes | None]:
        """A client is about to be told that these were made, with that id (zero where it is not told any), or deleted
        (None). Gives those of which no broker shows that yet, or one still shows the deleted one.

        A topic whose deletion was answered, and that then no broker has, is gone, also where it has no id by which the
        next one could be told from it. Nothing is committed while they are asked. So whatever was committed is of a
        topic that some broker had before, and none has any more.
        """
        known = {name: self._table.identities[name].topic_id for name in changes if name in self._table.identities}
        with self._held([name for name, made in changes.items() if made is None]) as held:
            views = await self._looks.each(changes) if changes else []
            shown = self._take(changes, views)
            for name, doubt in held.items():
                if views and all(view is not None and view.get(name, _NOTHING_SAID) is None for view in views):
                    doubt.gone = doubt.blocks = True
        return {
            name: made
            for name, made in changes.items()
            if name in shown and not _shows(shown[name], made, known.get(name))
        }

    def suspect(self, changes: Mapping[str, bytes | None]) -> None:
        """Of these nobody has shown it in time, and the client is told: they are in doubt, and of one that was made no
        offset is served or taken, until all brokers say the same."""
        for name, made in changes.items():
            self._table.missed(name)
            doubt = self._doubts.get(name)
            if doubt is not None and made is not None:
                doubt.blocks = True

    @contextmanager
    def _held(self, names: Collection[str]) -> Iterator[dict[str, Doubt]]:
        """Of these no offset is served or taken meanwhile; gives the doubts of those for which there may be any."""
        for name in names:
            self._table.missed(name)
        doubts = {name: doubt for name in names if (doubt := self._doubts.get(name)) is not None}
        for doubt in doubts.values():
            doubt.held += 1
        try:
            yield doubts
        finally:
            for doubt in doubts.values():
                doubt.held -= 1

    def _take(self, names: Collection[str], views: Sequence[View | None]) -> dict[str, set[bytes | None]]:
        """With which ids those that answer show these, None where there is no such topic; they are taken as seen. What
        they say nothing of is left out; where nobody answers each is shown by none."""
        answers = [view for view in views if view is not None]
        shown: dict[str, set[bytes | None]] = {} if answers else {name: set() for name in names}
        for view in answers:
            for name, topic in view.items():
                shown.setdefault(name, set()).add(None if topic is None else topic.topic_id)
                if topic is not None and self._table.concerns(name):
                    self._table.saw(name, topic)
        for name, of_name in shown.items():
            if of_name == {None}:
                self._table.missed(name)
        return shown


def _shows(shown: Collection[bytes | None], made: bytes | None, known: bytes | None) -> bool:
    """Whether brokers show what has become of a topic that was known with that id."""
    if made is None:
        return bool(shown) and all(topic_id is None or known not in (None, topic_id) for topic_id in shown)
    if made != ZERO_UUID:
        return made in shown
    return any(topic_id not in (None, known) for topic_id in shown)
