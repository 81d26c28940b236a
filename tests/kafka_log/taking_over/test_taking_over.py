"""What comes to this process is counted and told, and what is followed makes way for it. That the right thing is gone
on with, a real broker shows (test_snapshots_live.py)."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import pytest

from shim.boottime import boottime
from shim.config import Settings
from shim.coordinator import CoordinatorSettings
from shim.kafka_log.copies.partition_copy import PartitionCopy
from shim.kafka_log.owning.outcomes import Fenced
from shim.kafka_log.owning.owned_topic import OwnedTopic
from shim.kafka_log.producing.produced import Produced, Verdict
from shim.kafka_log.reading.read_part import ReadPart
from shim.kafka_log.taking_over import taking_over
from shim.kafka_log.taking_over.taking_over import TakingOver
from shim.kafka_log.topics.wanted import TopicsWanted
from shim.runtime.progress import Progress
from shim.upstream import Cluster
from shim.upstream.topic_reader import TopicReader
from tests.kafka_log.copies.test_standbys import Topic, committed
from tests.waiting import turns_of_the_loop, until

WANTED = TopicsWanted("t", partitions=1)


class Owned:
    """A topic of which every partition is this process's once the test lets it be, with nothing behind what it had."""

    def __init__(self) -> None:
        self.may_be_taken: defaultdict[int, asyncio.Event] = defaultdict(asyncio.Event)
        self.fenced: set[int] = set()

    async def take_over(self, number: int) -> None:
        await self.may_be_taken[number].wait()
        if number in self.fenced:
            raise Fenced(f"somebody else has got {number}")

    def fence(self, _number: int) -> Produced:
        return Produced(Verdict.WRITTEN, boottime(), 100, 0)

    async def goes_on(self, _number: int, _part: ReadPart) -> bool:
        return True

    async def read(self, *_: object) -> AsyncGenerator[int, None]:
        yield 0


class Comes:
    def __init__(self) -> None:
        self.topic = Topic()
        self.owned = Owned()
        self.its = TakingOver(
            cast(Cluster, None),
            Settings(),
            WANTED,
            cast(OwnedTopic, self.owned),
            cast(TopicReader, self.topic),
            None,
            CoordinatorSettings,
            Progress(),
        )
        self.its.retention_told(3_600.0)

    async def counts(self, at_end: int, behind: int) -> None:
        await until(lambda: (self.its.counts.at_end, self.its.counts.behind) == (at_end, behind))


@asynccontextmanager
async def following(*numbers: int) -> AsyncIterator[Comes]:
    made = Comes()
    made.its.follow(numbers)
    try:
        yield made
    finally:
        await made.its.end()
        await made.its.close(20.0)


async def test_what_comes_is_counted_and_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, taking_over.__name__)
    async with following() as comes:
        comes.its._took_over(3, 1, 70_000, 0, logging.INFO)
        comes.its._took_over(4, 12, None, 0, logging.INFO)
        comes.its._took_over(5, 2, None, 1_000, logging.INFO)
        comes.its._took_over(6, 2, None, 1_000, logging.DEBUG)
        counts = comes.its.counts
        assert counts.taken_over == {"standby": 1, "snapshot": 2, "beginning": 1}
        assert counts.records == {"standby": 1, "snapshot": 4, "beginning": 12}
    assert [each.getMessage() for each in caplog.records] == [
        f"{WANTED.offsets}-3: taken over, 1 record read behind 70,000 records that it had",
        f"{WANTED.offsets}-4: taken over, 12 records read from the beginning",
        f"{WANTED.offsets}-5: taken over, 2 records read behind a snapshot of offset 1,000",
    ]


async def test_what_was_followed_is_gone_on_with(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, taking_over.__name__)
    async with following(0) as comes:
        comes.topic.brings(0, 5, 6)
        await comes.counts(1, 0)
        comes.owned.may_be_taken[0].set()
        found = await comes.its.read_back(0)
        assert committed(cast(PartitionCopy, found)) == {0: 5, 1: 6}
        assert (comes.its.counts.at_end, comes.its.counts.taken_over["standby"]) == (0, 1)
    assert caplog.messages == [f"{WANTED.offsets}-0: taken over, 0 records read behind 2 records that it had"]


async def test_nothing_is_followed_while_anything_is_read_back() -> None:
    """Of what is read back the last one counts, and one that comes to nothing is one no more."""
    async with following(0) as comes:
        comes.owned.fenced = {1, 2}
        reading = [asyncio.create_task(comes.its.read_back(number)) for number in (1, 2)]
        await asyncio.sleep(0)
        comes.topic.brings(0, 5)
        comes.owned.may_be_taken[1].set()
        with pytest.raises(Fenced):
            await reading[0]
        await turns_of_the_loop()
        assert (comes.its.counts.at_end, comes.its.counts.behind) == (0, 1)
        comes.owned.may_be_taken[2].set()
        with pytest.raises(Fenced):
            await reading[1]
        await comes.counts(1, 0)
