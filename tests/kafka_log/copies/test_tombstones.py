"""How long what was read of a topic may be gone on with."""

from __future__ import annotations

import asyncio
import socket
import uuid
from typing import Final, cast

import pytest

from shim.config import Settings, parse_servers
from shim.demo.parts import Broker
from shim.kafka_log.copies import tombstones
from shim.kafka_log.copies.tombstones import RetentionNotTold, Tombstones
from shim.kafka_log.topics.ready import make_ready
from shim.kafka_log.topics.wanted import TopicsUnfit, TopicsWanted
from shim.upstream import Cluster, UpstreamError

HOUR_S: Final = 3600.0
SETTINGS: Final = Settings()


class Topic:
    """Its setting, or why it is not told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.retention_ms = 2 * 3_600_000
        self.error: Exception | None = None
        self.asked = 0
        self.now = 1000.0
        monkeypatch.setattr(tombstones, "look_up_retention", self._look)
        monkeypatch.setattr(tombstones, "boottime", lambda: self.now)
        self.its = Tombstones(cast(Cluster, None), Settings(), TopicsWanted())
        self.its.told(2 * HOUR_S)

    async def _look(self, *_: object) -> int:
        self.asked += 1
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        return self.retention_ms

    async def gone_after(self, seconds: float) -> bool:
        return await self.its.may_be_gone(500.0, 500.0 + seconds)


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> Topic:
    return Topic(monkeypatch)


async def test_what_compaction_leaves_alone_is_there_whatever_is_set(topic: Topic) -> None:
    topic.retention_ms = 0
    assert not await topic.gone_after(30.0)
    assert topic.asked == 0
    assert await topic.gone_after(30.1)


async def test_half_of_what_is_set_by_now_counts(topic: Topic) -> None:
    assert not await topic.gone_after(HOUR_S - 1)
    assert await topic.gone_after(HOUR_S)
    assert topic.asked == 1
    topic.retention_ms //= 2
    topic.now += 30.1
    assert await topic.gone_after(HOUR_S / 2)
    assert not await topic.gone_after(HOUR_S / 2 - 1)


async def test_the_least_that_it_was_since_counts(topic: Topic) -> None:
    """Tombstones that went under it are gone, whatever it is now."""

    async def gone_after(seconds: float, since: float) -> bool:
        return await topic.its.may_be_gone(since, since + seconds)

    topic.now = 2000.0
    topic.its.told(60.0)
    topic.now = 3000.0
    topic.its.told(2 * HOUR_S)
    topic.now = 20_000.0
    for since in (900.0, 1000.0, 1999.0, 2000.0, 2999.0):
        assert await gone_after(31.0, since), since
    assert not await gone_after(HOUR_S - 1, 3000.0)
    assert await gone_after(HOUR_S, 3000.0)


async def test_what_is_not_told_is_not_remembered(topic: Topic) -> None:
    topic.error = TopicsUnfit("the shim's principal needs DescribeConfigs on topic t")
    with pytest.raises(RetentionNotTold, match="is not known: the shim's principal needs DescribeConfigs"):
        await topic.gone_after(HOUR_S)
    topic.error = UpstreamError("no answer")
    topic.now += 0.001
    with pytest.raises(UpstreamError, match="no answer"):
        await topic.gone_after(HOUR_S)
    topic.error = None
    topic.now += 0.001
    assert await topic.gone_after(HOUR_S)


async def test_of_many_partitions_that_come_at_once_one_asks(topic: Topic) -> None:
    assert await asyncio.gather(*(topic.gone_after(HOUR_S) for _ in range(17))) == [True] * 17
    assert topic.asked == 1


async def test_what_comes_of_it_is_told_to_all_who_wait(topic: Topic) -> None:
    """Otherwise each of them would wait for brokers that hang, one after the other."""
    topic.error = UpstreamError("no answer")
    answers = await asyncio.gather(*(topic.gone_after(HOUR_S) for _ in range(17)), return_exceptions=True)
    assert [str(each) for each in answers] == ["no answer"] * 17
    assert topic.asked == 1
    topic.now += 0.001
    topic.error = None
    assert await topic.gone_after(HOUR_S), "whoever comes later asks again"


async def test_a_broker_that_hangs_is_passed_over_soon(broker: Broker) -> None:
    settings = Settings(offsets_log_topics_prefix=f"__tombstones_{uuid.uuid4().hex[:12]}", request_timeout_ms=2_000)
    wanted = TopicsWanted(settings.offsets_log_topics_prefix, 1, 1, 1 << 20, 60)
    cluster = Cluster(parse_servers(broker.bootstrap_servers), SETTINGS)
    following = asyncio.create_task(cluster.run())
    try:
        await make_ready(cluster, SETTINGS, wanted)
    finally:
        following.cancel()
        await asyncio.wait([following])
    with socket.create_server(("127.0.0.1", 0)) as hangs:
        host, port = hangs.getsockname()
        asked = Cluster(parse_servers(f"{host}:{port},{broker.bootstrap_servers}"), settings)
        its = Tombstones(asked, settings, wanted)
        its.told(7 * 24 * HOUR_S)
        assert not await its.may_be_gone(0.0, 3 * 24 * HOUR_S)
