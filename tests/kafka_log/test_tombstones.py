"""How long what was read of a topic may be gone on with."""

from __future__ import annotations

from typing import cast

import pytest

from shim.config import Settings
from shim.kafka_log import tombstones
from shim.kafka_log.tombstones import RetentionNotTold, Tombstones
from shim.kafka_log.topics import Looked, TopicsUnfit, TopicsWanted
from shim.upstream import Cluster, UpstreamError

HOUR_S = 3600.0


class Topic:
    """Its setting, or why it is not told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.retention_ms = 2 * 3_600_000
        self.error: Exception | None = None
        self.asked = 0
        self.now = 1000.0
        self.its = Tombstones(cast(Cluster, None), Settings(), TopicsWanted())
        monkeypatch.setattr(tombstones, "look", self._look)
        monkeypatch.setattr(tombstones, "boottime", lambda: self.now)

    async def _look(self, *_: object) -> Looked:
        self.asked += 1
        if self.error is not None:
            raise self.error
        return Looked((), self.retention_ms)

    async def gone_after(self, seconds: float) -> bool:
        return await self.its.may_be_gone(500.0, 500.0 + seconds)


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> Topic:
    return Topic(monkeypatch)


async def test_what_compaction_leaves_alone_is_there_whatever_is_set(topic: Topic) -> None:
    topic.retention_ms = 0
    assert not await topic.gone_after(60.0)
    assert topic.asked == 0
    assert await topic.gone_after(60.1)


async def test_half_of_what_is_set_by_now_counts(topic: Topic) -> None:
    assert not await topic.gone_after(HOUR_S - 1)
    assert await topic.gone_after(HOUR_S)
    assert topic.asked == 1, "many partitions come at once"
    topic.retention_ms //= 2
    topic.now += 10.1
    assert await topic.gone_after(HOUR_S / 2)
    assert not await topic.gone_after(HOUR_S / 2 - 1)


async def test_what_is_not_told_is_not_remembered(topic: Topic) -> None:
    topic.error = TopicsUnfit("the shim's principal needs DescribeConfigs on topic t")
    with pytest.raises(RetentionNotTold, match="is not known: the shim's principal needs DescribeConfigs"):
        await topic.gone_after(HOUR_S)
    topic.error = UpstreamError("no answer")
    with pytest.raises(UpstreamError, match="no answer"):
        await topic.gone_after(HOUR_S)
    topic.error = None
    assert await topic.gone_after(HOUR_S)
