"""Sends batches to the leaders of their partitions, and tells who has called what came of them, in time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from shim.boottime import boottime
from shim.config import Settings
from shim.kafka_log.producing.calls import Call, Calls, Known
from shim.kafka_log.producing.dispatching import Dispatching
from shim.kafka_log.producing.newest_leaders import NewestLeaders
from shim.kafka_log.producing.produced import Produced
from shim.kafka_log.producing.requests import ProduceRequests
from shim.upstream.topic_leaders import TopicLeaders


class TopicProducer:
    """Of one topic, for the event loop. One batch at a time of each partition. What waits for one leader goes out in
    one request, whoever has called; nothing waits for another leader's partitions."""

    def __init__(self, leaders: TopicLeaders, settings: Settings, topic: str) -> None:
        self._calls = Calls()
        self._leaders = NewestLeaders(leaders)
        self._requests = ProduceRequests(settings, topic)
        self._dispatching = Dispatching(topic, self._calls, self._leaders, self._requests)
        self._timers: dict[Call, asyncio.TimerHandle] = {}

    async def send(self, batches: Mapping[int, bytes], seconds: float) -> dict[int, Produced]:
        """One stamped batch for each partition. Of each it is told what came of it within that time; who has called
        waits for all."""
        told: dict[int, Produced] = {}

        def known(some: Mapping[int, Produced]) -> Mapping[int, bytes]:
            told.update(some)
            return {}

        await self.send_each(batches, seconds, known)
        return told

    async def send_each(self, batches: Mapping[int, bytes], seconds: float, known: Known) -> None:
        """The same, but told as soon as it is known, each partition's once, and all of one answer's in one call of
        ``known``. What that gives is the next batch of such partitions, which has the same time. Raises what ``known``
        raises; of what was not told by then, or when who has called gives up, nothing is sent any more.
        """
        if not batches:
            return
        call = Call(seconds, known)
        self._calls.add(call)
        try:
            self._dispatching.dispatch(call.begin(batches))
            self._set_timer(call)
            await call.over
        finally:
            self._calls.end(call)
            if (timer := self._timers.pop(call, None)) is not None:
                timer.cancel()
            self._dispatching.break_off_unawaited()

    def _set_timer(self, call: Call) -> None:
        seconds = min(batch.until for batch in call.left.values()) - boottime()
        self._timers[call] = asyncio.get_running_loop().call_later(seconds, self._expire, call)

    def _expire(self, call: Call) -> None:
        now = boottime()
        overdue = [batch for batch in call.left.values() if batch.until <= now]
        if overdue:
            self._leaders.forget()
            self._dispatching.dispatch(self._calls.tell((batch, batch.unknown) for batch in overdue))
            self._dispatching.break_off_unawaited()
        if call.left:
            self._set_timer(call)

    def close(self) -> None:
        """What is on its way is told to be unknown."""
        self._dispatching.close()
        self._requests.close()
        self._calls.tell((batch, batch.unknown) for batch in self._calls.left)
