"""Who leads what is written is looked up by one for all, and a newer leader that was known is not forgotten for an
older one, unless most brokers name that."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from shim.config import HostPort
from shim.kafka_log.producing.newest_leaders import NewestLeaders
from shim.upstream.errors import UpstreamError
from shim.upstream.topic_leaders import LedTopic, Place, TopicLeaders


def led(epoch: int) -> LedTopic:
    return LedTopic(b"\1" * 16, {0: Place(HostPort("10.0.0.1", 9092 + epoch), epoch, epoch)})


class Told:
    """What brokers say, each once."""

    def __init__(self, *answers: LedTopic | UpstreamError) -> None:
        self.answers = list(answers)
        self.asked: list[int | None] = []
        """None: the first that answers; a partition: most of them."""

    async def look_up(self, _patience: float) -> LedTopic:
        return await self._next(None)

    async def look_up_at_most_brokers(self, partition: int, _patience: float) -> LedTopic:
        return await self._next(partition)

    async def _next(self, asked: int | None) -> LedTopic:
        self.asked.append(asked)
        await asyncio.sleep(0)
        answer = self.answers.pop(0)
        if isinstance(answer, UpstreamError):
            raise answer
        return answer


def newest(told: Told) -> NewestLeaders:
    return NewestLeaders(cast(TopicLeaders, told))


async def test_one_looks_for_all_who_have_seen_the_same() -> None:
    told = Told(led(1), led(2))
    its = newest(told)
    assert await asyncio.gather(*(its.after(None, 0, 0) for _ in range(3))) == [led(1)] * 3
    seen = its.known
    assert await asyncio.gather(*(its.after(seen, 0, 1) for _ in range(3))) == [led(2)] * 3
    assert await its.after(seen, 0, 1) is its.known
    assert told.asked == [None, None]


async def test_an_older_leader_is_believed_of_most_brokers_alone() -> None:
    told = Told(led(5), *[led(4)] * 5)
    its = newest(told)
    for attempt in range(4):
        assert await its.after(its.known, 0, attempt) == led(5)
    assert await its.after(its.known, 0, 4) == led(4)
    assert await its.after(its.known, 0, 5) == led(4)
    assert told.asked == [None] * 4 + [0, None]


async def test_where_nobody_tells_nobody_is_known() -> None:
    told = Told(led(1), UpstreamError("no answer"), led(1))
    its = newest(told)
    seen = await its.after(None, 0, 0)
    with pytest.raises(UpstreamError, match="no answer"):
        await its.after(seen, 0, 1)
    assert its.known is None
    its.forget()
    assert await its.after(seen, 0, 2) == led(1)
