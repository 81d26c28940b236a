"""What brokers' answers say of topics, and which of them are asked."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import pytest

from protocol.errors import ErrorCode
from protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from shim.config import HostPort, Settings
from shim.upstream import Cluster, ClusterTopics, Topic, UpstreamError, cluster_topics
from shim.upstream.cluster_topics import agreed, seen
from tests.upstream.scripted_broker import scripted_broker

A, B = bytes([1]) * 16, bytes([2]) * 16


def test_only_what_is_surely_not_there_is_said_not_to_be() -> None:
    def topic(name: str, error: int, partitions: int = 0) -> MetadataResponseTopic:
        # Of a partition without a leader, too, is known that it exists.
        its = tuple(
            MetadataResponsePartition(ErrorCode.LEADER_NOT_AVAILABLE, n, -1) for n in reversed(range(partitions))
        )
        return MetadataResponseTopic(error, name, A, partitions=its)

    answer = MetadataResponse(
        topics=(
            topic("there", ErrorCode.NONE, 3),
            topic("gone", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            topic("no name", ErrorCode.INVALID_TOPIC_EXCEPTION),
            topic("secret", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
            topic("soon", ErrorCode.LEADER_NOT_AVAILABLE),
            topic("strange", ErrorCode.UNKNOWN_SERVER_ERROR),
            topic("empty", ErrorCode.NONE),
        )
    )
    assert seen(answer) == {"there": Topic(A, 3), "gone": None, "no name": None}


def test_what_not_all_say_is_not_said() -> None:
    views = [
        {"same": Topic(A, 3), "gone": None, "new": None, "other": Topic(A, 3), "one": None, "many": Topic(A, 3)},
        {"same": Topic(A, 3), "gone": None, "new": Topic(A, 3), "other": Topic(B, 3), "many": Topic(A, 5)},
    ]
    assert agreed(views) == agreed(views[::-1]) == {"same": Topic(A, 3), "gone": None, "many": Topic(A, 5)}
    assert agreed(views[:1]) == views[0]


async def test_a_broker_that_would_make_the_topic_is_not_asked() -> None:
    async with scripted_broker() as broker:
        topics = ClusterTopics(Cluster([broker.address], Settings()), Settings())
        with pytest.raises(UpstreamError, match="no common version of Metadata"):
            await topics.one(["orders"])
        assert broker.asked.empty()
        topics.close()


async def test_of_a_cluster_of_which_no_broker_is_known_not_all_can_be_asked() -> None:
    topics = ClusterTopics(Cluster([HostPort("127.0.0.1", 1)], Settings()), Settings())
    with pytest.raises(UpstreamError, match="no broker is known"):
        await topics.all(["orders"])
    with pytest.raises(UpstreamError, match="refused"):
        await topics.one(["orders"])


class OneHangs(ClusterTopics):
    """``mistake``: of the program, made by the one that hangs when it is given up."""

    def __init__(self, cluster: Cluster, hangs: HostPort, mistake: Exception | None = None) -> None:
        super().__init__(cluster, Settings())
        self._of_cluster = cluster
        self._hangs = hangs
        self._mistake = mistake
        self.given_up = 0

    async def _ask(self, address: HostPort, names: Collection[str]) -> MetadataResponse:
        if address == self._hangs:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.given_up += 1
                if self._mistake is not None:
                    raise self._mistake from None
                raise
        brokers = tuple(
            MetadataResponseBroker(node_id, at.host, at.port) for node_id, at in self._of_cluster.brokers.items()
        )
        its = (MetadataResponsePartition(ErrorCode.NONE, 0, 1),)
        said = {
            name: MetadataResponseTopic(ErrorCode.NONE, name, A, partitions=its)
            if name == "there"
            else MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name)
            for name in names
        }
        return MetadataResponse(brokers=brokers, topics=tuple(said.values()))


async def test_a_broker_that_hangs_is_not_waited_for_where_another_one_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Which is then the one that is asked first."""
    first, second = HostPort("a", 1), HostPort("b", 1)
    topics = OneHangs(Cluster([first, second], Settings()), first)
    for seconds in (0.001, 3600.0):
        monkeypatch.setattr(cluster_topics, "NEXT_AFTER_SECONDS", seconds)
        assert await asyncio.wait_for(topics.one(["orders"]), 30) == {"orders": None}


async def test_all_are_not_waited_for_where_most_have_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """What there is they say, and not what there is not: the one that hangs may know of it."""
    monkeypatch.setattr(cluster_topics, "NEXT_AFTER_SECONDS", 0.001)
    cluster = Cluster([], Settings())
    brokers = {node_id: HostPort(name, 1) for node_id, name in enumerate("abc")}
    monkeypatch.setattr(cluster, "_brokers", brokers)
    topics = OneHangs(cluster, HostPort("b", 1))
    assert await asyncio.wait_for(topics.all(["there", "gone"]), 30) == {"there": Topic(A, 1)}
    del brokers[2]
    asking = asyncio.create_task(topics.all(["gone"]))
    await asyncio.wait([asking], timeout=0.1)
    assert not asking.done(), "one of two says nothing for both"
    asking.cancel()
    await asyncio.wait([asking])
    assert topics.given_up == 2
    brokers[2] = HostPort("c", 1)
    with pytest.raises(KeyError):
        await asyncio.wait_for(OneHangs(cluster, HostPort("b", 1), KeyError()).all(["there"]), 30)


async def test_who_does_not_answer_is_told_from_who_says_nothing() -> None:
    """Only where all have answered it is known that no broker has a topic."""
    cluster = Cluster([HostPort("127.0.0.1", 1)], Settings())
    await cluster.take({1: HostPort("127.0.0.1", 1), 2: HostPort("127.0.0.1", 2)})
    topics = ClusterTopics(cluster, Settings())
    assert await topics.each(["orders"]) == [None, None]
    topics.close()


async def test_who_leaves_while_brokers_are_asked_leaves_nothing_behind() -> None:
    cluster = Cluster([HostPort("127.0.0.1", 1)], Settings())
    async with scripted_broker() as broker:
        await cluster.take({1: broker.address})
        topics = ClusterTopics(cluster, Settings())
        before = asyncio.all_tasks()
        leaving = asyncio.create_task(topics.each(["orders"]))
        while len(asyncio.all_tasks() - before) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        assert not any("ClusterTopics._ask" in str(task.get_coro()) for task in asyncio.all_tasks())
        topics.close()
