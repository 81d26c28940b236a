"""Looks for clients that are about to be told of topics: one at a time, and one more for all who came meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import pytest

from shim.config import Settings
from shim.following.topics.looks import TopicLooks
from shim.upstream.cluster import Cluster
from shim.upstream.cluster_topics import ClusterTopics, Topic, View

TOPIC = Topic(b"i" * 16, 1)


class Slow(ClusterTopics):
    """A look takes until it is told to end. ``failing``: the one that does."""

    def __init__(self, failing: Exception | None = None) -> None:
        super().__init__(Cluster([], Settings()), Settings())
        self.asked: list[list[str]] = []
        self.may_end = asyncio.Semaphore(0)
        self._failing = failing

    async def each(self, names: Collection[str]) -> list[View | None]:
        self.asked.append(sorted(names))
        await self.may_end.acquire()
        if self._failing is not None:
            failing, self._failing = self._failing, None
            raise failing
        return [dict.fromkeys(names, TOPIC)]


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_crowd_is_one_look_that_begins_behind_the_one_under_way() -> None:
    topics = Slow()
    looks = TopicLooks(topics)
    first = asyncio.create_task(looks.each(["orders"]))
    await turns()
    crowd = [asyncio.create_task(looks.each(names)) for names in (["orders"], ["orders", "bills"], ["bills"]) * 50]
    await turns()
    assert topics.asked == [["orders"]], "the others may not rely on what was asked before they came"
    topics.may_end.release()
    assert await first == [{"orders": TOPIC}]
    await turns()
    assert topics.asked == [["orders"], ["bills", "orders"]]
    assert not any(each.done() for each in crowd)
    topics.may_end.release()
    found = await asyncio.gather(*crowd)
    assert found == [[{"orders": TOPIC}], [{"orders": TOPIC, "bills": TOPIC}], [{"bills": TOPIC}]] * 50
    assert len(topics.asked) == 2
    topics.may_end.release()
    assert await looks.each(["later"]) == [{"later": TOPIC}]


async def test_who_leaves_takes_no_look_from_the_others() -> None:
    topics = Slow()
    looks = TopicLooks(topics)
    leaving, staying = (asyncio.create_task(looks.each(["orders"])) for _ in range(2))
    await turns()
    leaving.cancel()
    topics.may_end.release()
    assert await staying == [{"orders": TOPIC}]
    assert leaving.cancelled()


async def test_a_look_that_fails_fails_for_its_own_alone() -> None:
    topics = Slow(ValueError("broken"))
    looks = TopicLooks(topics)
    first = asyncio.create_task(looks.each(["orders"]))
    await turns()
    second = asyncio.create_task(looks.each(["orders"]))
    await turns()
    topics.may_end.release()
    topics.may_end.release()
    with pytest.raises(ValueError, match="broken"):
        await first
    assert await second == [{"orders": TOPIC}]
