"""Brokers that say of topics what the test has them say, each for itself."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from shim.config import Settings
from shim.following import Topics
from shim.following.topics.pace import Pace
from shim.upstream import ClusterTopics, Topic, UpstreamError
from shim.upstream.cluster_topics import View, agreed

QUICK = Pace(pause=0.0, round=0.001, doubt=0.05, wait=0.5)


class Brokers(ClusterTopics):
    """``views``: what each believes; ``down``: those that do not answer; ``unclear``: of these nobody says anything.

    The first one that is up is asked where any will do.
    """

    def __init__(self, count: int = 1) -> None:
        self.views: list[dict[str, Topic]] = [{} for _ in range(count)]
        self.down: set[int] = set()
        self.unclear: set[str] = set()
        self.asked_one: list[list[str]] = []
        self.asked_all: list[list[str]] = []
        self.asked_each: list[list[str]] = []

    def make(self, name: str, topic_id: int = 1, partitions: int = 3, *, at: Collection[int] | None = None) -> None:
        for number in range(len(self.views)) if at is None else at:
            self.views[number][name] = Topic(bytes([topic_id]) * 16, partitions)

    def delete(self, name: str, *, at: Collection[int] | None = None) -> None:
        for number in range(len(self.views)) if at is None else at:
            self.views[number].pop(name, None)

    def _view(self, number: int, names: Collection[str]) -> dict[str, Topic | None]:
        return {name: self.views[number].get(name) for name in names if name not in self.unclear}

    async def one(self, names: Collection[str]) -> View:
        self.asked_one.append(list(names))
        await asyncio.sleep(0)
        for number in range(len(self.views)):
            if number not in self.down:
                return self._view(number, names)
        raise UpstreamError("no broker answers")

    async def all(self, names: Collection[str]) -> View:
        self.asked_all.append(list(names))
        await asyncio.sleep(0)
        up = [number for number in range(len(self.views)) if number not in self.down]
        if 2 * len(up) <= len(self.views):
            raise UpstreamError("too few brokers answer")
        said = agreed([self._view(number, names) for number in up])
        return {name: topic for name, topic in said.items() if topic is not None} if self.down else said

    async def each(self, names: Collection[str]) -> list[View | None]:
        self.asked_each.append(list(names))
        await asyncio.sleep(0)
        return [None if number in self.down else self._view(number, names) for number in range(len(self.views))]


def topics_of(brokers: Brokers, pace: Pace = QUICK) -> Topics:
    return Topics(brokers, Settings(topology_refresh_interval_ms=10), pace)


class _AnyTopic(dict[str, int]):
    def get(self, key: str, default: int | None = None) -> int:  # type: ignore[override]
        return 1 << 31


def any_topic() -> Topics:
    """For which every topic exists, with every partition."""
    topics = topics_of(Brokers())
    topics.partition_counts = _AnyTopic()
    return topics
