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
import logging
import re
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple, Protocol

from protocol.wire import ZERO_UUID
from shim.config import Settings
from shim.upstream.errors import UpstreamError

log = logging.getLogger(__name__)

_LEGAL: Final = re.compile(r"(?!\.{1,2}\Z)[a-zA-Z0-9._-]{1,249}\Z")
"""What a topic can be called (Kafka 4.3, `Topic.validate`)."""

# What is asked for at once; a response of so many partitions is read in some ten milliseconds.
_TOPICS: Final = 500
_PARTITIONS: Final = 2_000
_UNSEEN: Final = 10

_MOST_WANTED: Final = 100_000
"""Beyond so many names nobody is asked for more: a broker that hangs must not make them pile up."""

_TWICE: Final = 2
"""So often all brokers have to be without a topic, with a while between."""


class Topic(NamedTuple):
    """``topic_id`` is zero where the brokers are too old to tell (before 2.8)."""

    topic_id: bytes
    partitions: int


View = Mapping[str, Topic | None]
"""Of the topics asked for; None of one that does not exist. One of which nothing can be said is missing."""


class TopicSource(Protocol):
    """Where it is asked. :meth:`one` and :meth:`all` raise :class:`UpstreamError` when nobody can say."""

    async def one(self, names: Collection[str]) -> View:
        """As one broker says."""

    async def all(self, names: Collection[str]) -> View:
        """As every broker of the cluster says; a topic of which they do not all say the same is missing. Where some do
        not answer, the others can say which topic it is, if they are most of the cluster, but not that there is none.
        """

    async def each(self, names: Collection[str]) -> Sequence[View]:
        """As the brokers say that answer in time, each for itself."""


class TopicInDoubt(Exception):
    """It is not known in time whether the topic is the one that it was; a client is to ask again."""


class Pace(NamedTuple):
    """Times, in seconds, that tests make short."""

    pause: float = 0.1
    """Between two requests of a look."""
    round: float = 1.0
    """From one time that all brokers are asked of topics in doubt to the next one."""
    doubt: float = 30.0
    """The longest that a topic is in doubt which somebody did not see; one that was seen with another id is in doubt
    for as long as the brokers do not agree, which is logged after this time."""
    wait: float = 3.0
    """The longest that a request waits to be told."""


class _Identity(NamedTuple):
    """``confirmed``: all brokers have said so."""

    topic_id: bytes
    confirmed: bool


class _Doubt:
    __slots__ = ("absent", "over", "partitions", "recreated", "seen", "since", "told")

    def __init__(self, partitions: int, *, recreated: bool) -> None:
        self.partitions = partitions
        self.recreated = recreated
        """Whether it was seen with another id, or its offsets are being deleted: what is committed is another one's.
        Otherwise somebody did not see it."""
        self.since = time.monotonic()
        self.absent = 0
        """How often in a row all brokers did not have it."""
        self.seen: bytes | None = None
        """The id with which it was seen since they were asked, if it was."""
        self.told = False
        """Whether it was logged that this one lasts."""
        self.over = asyncio.Event()


class Topics:
    """For the event loop."""

    def __init__(self, source: TopicSource, settings: Settings, pace: Pace | None = None) -> None:
        self._source = source
        self._interval = settings.topology_refresh_interval_ms / 1000
        self._pace = pace or Pace()
        self.partition_counts: dict[str, int] = {}
        """Of the topics that are known and not in doubt; to be looked at only. One that is not there may exist."""
        self._identities: dict[str, _Identity] = {}
        self._doubts: dict[str, _Doubt] = {}
        self._doubted = asyncio.Event()
        self._unused: set[str] = set()
        self._wanted: dict[str, asyncio.Future[Topic | UpstreamError | None]] = {}
        self._asking: asyncio.Task[None] | None = None
        self._told: dict[str, str] = {}

    # -- for requests

    async def partitions_of(self, names: Iterable[str]) -> dict[str, int | None]:
        """How many partitions the topics have, as the cluster says now: 0 where there is none; None where nobody can
        say, or not in time. Raises :class:`TopicInDoubt`.
        """
        legal = {name for name in names if _LEGAL.match(name)}
        seen: Mapping[str, Topic | None] = {}
        counts: dict[str, int | None] = {name: None if name in legal else 0 for name in names}
        try:
            async with asyncio.timeout(self._pace.wait):
                seen = await self._ask(legal)
                # Also of one of which nobody could say anything: it may be another one by now.
                await self._none_in_doubt([name for name in legal if seen.get(name, _UNCLEAR) is not None])
        except (TimeoutError, UpstreamError) as error:
            if self.in_doubt(legal) or any(seen.get(name) is not None for name in self._doubts):
                raise TopicInDoubt from error
        else:
            for name, topic in seen.items():
                counts[name] = max(topic.partitions, self.partition_counts.get(name, 0)) if topic is not None else 0
        return counts

    @property
    def any_in_doubt(self) -> bool:
        """Whether any topic is."""
        return bool(self._doubts)

    def in_doubt(self, names: Iterable[str] | None) -> list[str]:
        """Which of these (None: of all) were seen with another id: it is not known yet whether their offsets are to be
        deleted."""
        if not self._doubts:
            return []
        of_concern = self._doubts if names is None else names
        return [name for name in of_concern if name in self._doubts and self._doubts[name].recreated]

    async def certain(self, names: Collection[str]) -> None:
        """Wait until none of these is in doubt. Raises :class:`TopicInDoubt`."""
        try:
            async with asyncio.timeout(self._pace.wait):
                await self._none_in_doubt(names)
        except TimeoutError as error:
            raise TopicInDoubt from error

    async def _none_in_doubt(self, names: Collection[str]) -> None:
        while (doubt := next((self._doubts[name] for name in names if name in self._doubts), None)) is not None:
            await doubt.over.wait()

    def learn(self, name: str, topic: Topic) -> None:
        """A broker has told a client so. What is no concern of the shim's is not kept."""
        if self._concerns(name):
            self._saw(name, topic)

    async def learn_ids(self, names: Iterable[str]) -> None:
        """A client is about to be told of these by a broker that was asked for no ids: what these are is asked of all
        that answer, as it is not known here which of them knows as much as that one."""
        names = [name for name in names if self._concerns(name)]
        if names:
            for view in await self._source.each(names):
                for name, topic in view.items():
                    if topic is not None:
                        self.learn(name, topic)

    def _concerns(self, name: str) -> bool:
        return name in self.partition_counts or name in self._doubts

    # -- asking of what is not known

    async def _ask(self, names: Collection[str]) -> dict[str, Topic | None]:
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
            topic = answer.result()
            if isinstance(topic, UpstreamError):
                raise topic
            seen[name] = topic
        return {name: topic for name, topic in seen.items() if topic is not _UNCLEAR}

    async def _ask_for_wanted(self) -> None:
        """One request at a time, for all that was wanted meanwhile."""
        try:
            while self._wanted:
                names = list(islice(self._wanted, _TOPICS))
                asked = {name: self._wanted.pop(name) for name in names}
                answers: dict[str, Topic | UpstreamError | None]
                try:
                    view: dict[str, Topic | None] = dict(await self._source.one(names))
                    # A topic may be so new that not every broker has heard of it.
                    absent = [name for name, topic in view.items() if topic is None]
                    if absent:
                        everywhere = await self._source.all(absent)
                        view.update({name: everywhere.get(name, _UNCLEAR) for name in absent})
                except UpstreamError as error:
                    answers = dict.fromkeys(names, error)
                else:
                    answers = {name: view.get(name, _UNCLEAR) for name in names}
                    for name, topic in view.items():
                        if topic is not None and topic is not _UNCLEAR:
                            self._saw(name, topic)
                for name, answer in asked.items():
                    answer.set_result(answers[name])
        finally:
            self._asking = None

    # -- what was seen

    def _saw(self, name: str, topic: Topic) -> None:
        before = self._identities.get(name)
        has_changed = before is not None and topic.topic_id not in (before.topic_id, ZERO_UUID)
        doubt = self._doubts.get(name)
        if before is not None and before.confirmed and has_changed:
            if doubt is None:
                doubt = self._begin_doubt(name, recreated=True)
            doubt.recreated = True
        if doubt is not None:
            doubt.seen = topic.topic_id
            return
        if (before is None or has_changed) and topic.topic_id != ZERO_UUID:
            self._identities[name] = _Identity(topic.topic_id, confirmed=False)
        known = 0 if has_changed else self.partition_counts.get(name, 0)
        self.partition_counts[name] = max(topic.partitions, known)  # it grows only: who says less is behind

    def _begin_doubt(self, name: str, *, recreated: bool) -> _Doubt:
        doubt = self._doubts[name] = _Doubt(self.partition_counts.pop(name, 0), recreated=recreated)
        self._doubted.set()
        return doubt

    def _end_doubt(self, name: str) -> None:
        self._doubts.pop(name).over.set()

    # -- looking

    async def run(
        self, in_use: Callable[[], Awaitable[Collection[str]]], delete: Callable[[str], Awaitable[int]]
    ) -> None:
        """Look, every `topology.refresh.interval.ms`, at the topics that are ``in_use``, for ever; have the offsets of
        those that are gone deleted, and be told how many these were."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._settle(delete))
            while True:
                await self._look(await in_use())
                await asyncio.sleep(self._interval)

    async def _look(self, in_use: Collection[str]) -> None:
        try:
            for names in self._requests(in_use):
                for name, topic in (await self._source.one(names)).items():
                    if topic is not None:
                        self._saw(name, topic)
                    elif name in self.partition_counts:
                        self._begin_doubt(name, recreated=False)
                await self._confirm(names)
                await asyncio.sleep(self._pace.pause)
        except UpstreamError as error:
            self._tell("topics cannot be looked up", error)
        else:
            self._tell("topics cannot be looked up", None)
        self._forget_unused(in_use)

    def _requests(self, in_use: Collection[str]) -> Iterator[list[str]]:
        names: list[str] = []
        partitions = 0
        for name in in_use:
            if _LEGAL.match(name):
                names.append(name)
                partitions += self.partition_counts.get(name, _UNSEEN)
                if len(names) >= _TOPICS or partitions >= _PARTITIONS:
                    yield names
                    names, partitions = [], 0
        if names:
            yield names

    async def _confirm(self, names: Iterable[str]) -> None:
        """Which topic it is that has a name, before any offset is deleted since it is not that one any more."""
        unconfirmed = [name for name in names if name in self._identities and not self._identities[name].confirmed]
        if not unconfirmed:
            return
        try:
            view = await self._source.all(unconfirmed)
        except UpstreamError as error:  # at the next look, perhaps
            self._tell("whether a topic is made anew would not be noticed", error)
            return
        self._tell("whether a topic is made anew would not be noticed", None)
        for name, topic in view.items():
            before = self._identities.get(name)
            if before is not None and topic is not None and topic.topic_id == before.topic_id:
                self._identities[name] = _Identity(topic.topic_id, confirmed=True)

    def _forget_unused(self, in_use: Collection[str]) -> None:
        unused = self.partition_counts.keys() - in_use
        for name in unused & self._unused:
            del self.partition_counts[name]
            self._identities.pop(name, None)
        self._unused = unused

    def _tell(self, what: str, error: UpstreamError | None) -> None:
        """Once, until it goes well again or something else is wrong."""
        why = "" if error is None else str(error)
        if why and self._told.get(what) != why:
            log.warning("%s for now: %s", what, why)
        self._told[what] = why

    # -- settling what is in doubt

    async def _settle(self, delete: Callable[[str], Awaitable[int]]) -> None:
        while True:
            if not self._doubts:
                self._doubted.clear()
                await self._doubted.wait()
            doubtful = list(self._doubts)
            for first in range(0, len(doubtful), _TOPICS):
                await self._settle_some(doubtful[first : first + _TOPICS], delete)
            await asyncio.sleep(self._pace.round)

    async def _settle_some(self, names: list[str], delete: Callable[[str], Awaitable[int]]) -> None:
        for name in names:
            self._doubts[name].seen = None
        try:
            view = await self._source.all(names)
        except UpstreamError as error:
            self._tell("whether topics have been deleted cannot be found out", error)
            view = {}
        else:
            self._tell("whether topics have been deleted cannot be found out", None)
        for name in names:
            doubt = self._doubts[name]
            topic = view.get(name, _UNCLEAR)
            if topic is None and doubt.seen is None:
                doubt.absent += 1
            else:
                doubt.absent = 0
            if topic is not None and topic is not _UNCLEAR:
                await self._settle_present(name, topic, delete)
            elif doubt.absent >= _TWICE:
                doubt.recreated = True
                deleted = await delete(name)
                self._identities.pop(name, None)
                self._end_doubt(name)
                log.warning("topic %s has been deleted: deleted %d offsets that were committed for it", name, deleted)
            if name in self._doubts and time.monotonic() - doubt.since >= self._pace.doubt:
                self._last_too_long(name, doubt)

    async def _settle_present(self, name: str, topic: Topic, delete: Callable[[str], Awaitable[int]]) -> None:
        before = self._identities.get(name)
        if before is not None and before.confirmed and topic.topic_id not in (before.topic_id, ZERO_UUID):
            deleted = await delete(name)
            log.warning(
                "topic %s has been deleted and made anew: deleted %d offsets that were committed for the old one",
                *(name, deleted),
            )
        if topic.topic_id != ZERO_UUID:
            self._identities[name] = _Identity(topic.topic_id, confirmed=True)
        if self._doubts[name].seen in (None, ZERO_UUID, topic.topic_id):  # otherwise somebody saw a third one
            self.partition_counts[name] = topic.partitions
            self._end_doubt(name)

    def _last_too_long(self, name: str, doubt: _Doubt) -> None:
        if not doubt.recreated:
            self._end_doubt(name)
            self.partition_counts[name] = doubt.partitions  # as before, to be looked at again
        elif not doubt.told:
            doubt.told = True
            log.error(
                "topic %s was seen with another id, and the brokers do not agree, or too few of them answer: its "
                "offsets are neither served nor taken until they do",
                name,
            )


_UNCLEAR: Final = Topic(ZERO_UUID, -1)
