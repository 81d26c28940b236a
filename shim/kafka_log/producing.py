"""Sends batches to the leaders of their partitions, the very same bytes again until it is known what came of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Final, NamedTuple

from protocol.errors import ErrorCode
from protocol.messages import produce
from shim.config import HostPort, Settings
from shim.kafka_log.lease import boottime
from shim.kafka_log.sequence import Verdict, verdict_of
from shim.upstream.errors import UpstreamError
from shim.upstream.kept_connection import KeptConnections
from shim.upstream.topic_leaders import LedTopic, TopicLeaders

log = logging.getLogger(__name__)

_ALL_IN_SYNC: Final = -1
_OLDEST, _NEWEST = 3, 12
"""Of Produce: with batches of magic 2, and with topics by name."""
_REPLICATED_WITHIN_S: Final = 1.5
"""Then the leader says that its followers do not keep up, before the connection passes for lost. It knows the batch
when it comes again."""
_ANSWERED_WITHIN_S: Final = 3.0
"""Of the first attempt: then somebody else may lead."""
_LOOK_UP_S: Final = 3.0
_EACH_ASKED: Final = 4
"""So many attempts in vain, and all brokers are asked who leads: the one that answers first may be cut off from the
others, and not know it."""
_AGAIN_S: Final = 0.05
_SELDOM_S: Final = 1.0


class Produced(NamedTuple):
    """``base_offset`` and ``append_time_ms`` are of what was written, the second by the leader's clock; ``sent_at``:
    when it was sent first, of CLOCK_BOOTTIME. ``why``: the last that was said of what was not."""

    verdict: Verdict
    sent_at: float
    base_offset: int = -1
    append_time_ms: int = -1
    why: str = ""


class TopicProducer:
    """Of one topic, for the event loop. One call at a time for each partition."""

    def __init__(self, leaders: TopicLeaders, settings: Settings, topic: str) -> None:
        self._leaders = leaders
        self._topic = topic
        self._connections = KeptConnections(settings)
        self._led: LedTopic | None = None
        self._newest: LedTopic | None = None
        self._looking_up = asyncio.Lock()

    async def send(self, batches: Mapping[int, bytes], seconds: float) -> dict[int, Produced]:
        """One stamped batch for each partition. Of each it is told what came of it within that time; none waits for one
        that has another leader, but who has called waits for all."""
        sent_at = boottime()
        told = {number: Produced(Verdict.UNKNOWN, sent_at, why="not sent yet") for number in batches}
        try:
            async with asyncio.timeout(seconds):
                await self._until_known(dict(batches), told, sent_at + seconds)
        except TimeoutError:
            self._led = None  # whoever hangs is not asked first the next time
        return told

    async def _until_known(self, left: dict[int, bytes], told: dict[int, Produced], until: float) -> None:
        """``until``, of CLOCK_BOOTTIME: behind a suspend nothing is sent any more, as the brokers may have forgotten
        who may send it."""
        attempt = 0
        while left and boottime() < until:
            if attempt:
                await asyncio.sleep(min(_SELDOM_S, _AGAIN_S * 2.0 ** (attempt - 1)))  # nobody tells who leads next
            led = self._led or await self._look_up(None, left, attempt, told)
            if led is not None:
                async with asyncio.TaskGroup() as tries:
                    for leader, its in _by_leader(led, left, told).items():
                        tries.create_task(self._try(leader, its, told, attempt))
            left = {number: batch for number, batch in left.items() if told[number].verdict is Verdict.UNKNOWN}
            if left and not attempt:
                number = min(left)
                log.info("%s-%d is not written yet, and sent again: %s", self._topic, number, told[number].why)
            if left and led is not None:
                await self._look_up(led, left, attempt, told)
            attempt += 1

    async def _try(
        self, leader: HostPort, batches: Mapping[int, bytes], told: dict[int, Produced], attempt: int
    ) -> None:
        seconds = _ANSWERED_WITHIN_S * 2.0 ** min(attempt, 10)  # a large batch takes its time on a slow link
        why = f"{leader}: Produce: not answered within {seconds:g} s"
        try:
            async with asyncio.timeout(seconds):
                answers = await self._ask(leader, batches)
        except UpstreamError as error:
            answers, why = {}, str(error)
        except TimeoutError:
            answers = {}
        for number in batches:
            answer = answers.get(number)
            told[number] = told[number]._replace(why=why) if answer is None else _judged(leader, answer, told[number])

    async def _ask(
        self, leader: HostPort, batches: Mapping[int, bytes]
    ) -> dict[int, produce.PartitionProduceResponse | None]:
        """None of a partition of which it is not clear what was said. Raises UpstreamError."""
        data = tuple(produce.PartitionProduceData(number, batch) for number, batch in batches.items())
        request = produce.ProduceRequest(
            acks=_ALL_IN_SYNC,
            timeout_ms=int(_REPLICATED_WITHIN_S * 1000),
            topic_data=(produce.TopicProduceData(self._topic, partition_data=data),),
        )
        answer = await self._connections.to(leader).ask(produce.API, request, at_least=_OLDEST, at_most=_NEWEST)
        found: dict[int, produce.PartitionProduceResponse | None] = {}
        for topic in answer.responses:
            for each in topic.partition_responses:
                clear = topic.name == self._topic and each.index in batches and each.index not in found
                found[each.index] = each if clear else None
        return found

    async def _look_up(
        self, seen: LedTopic | None, left: Mapping[int, bytes], attempt: int, told: dict[int, Produced]
    ) -> LedTopic | None:
        """Who leads, unless somebody else has found out since ``seen``."""
        async with self._looking_up:
            if self._led is not None and self._led is not seen:
                return self._led
            self._led = None
            try:
                if attempt % _EACH_ASKED == _EACH_ASKED - 1:
                    found = await self._leaders.look_up_at_most_brokers(min(left), _LOOK_UP_S)
                else:
                    found = await self._leaders.look_up(_LOOK_UP_S)
            except UpstreamError as error:
                told.update((number, told[number]._replace(why=str(error))) for number in left)
            else:
                self._led = self._newest = found.newer(self._newest)
                leaders = {place.leader for place in self._led.places.values() if place.leader is not None}
                self._connections.close_others(leaders)
            return self._led

    def close(self) -> None:
        self._connections.close()


def _by_leader(
    led: LedTopic, batches: Mapping[int, bytes], told: dict[int, Produced]
) -> dict[HostPort, dict[int, bytes]]:
    found: dict[HostPort, dict[int, bytes]] = {}
    for number, batch in batches.items():
        place = led.places.get(number)
        if place is None or place.leader is None:
            told[number] = told[number]._replace(why="no broker leads the partition")
        else:
            found.setdefault(place.leader, {})[number] = batch
    return found


def _judged(leader: HostPort, answer: produce.PartitionProduceResponse, before: Produced) -> Produced:
    verdict = verdict_of(answer.error_code)
    if verdict is Verdict.WRITTEN:
        if answer.base_offset < 0:
            return before._replace(why=f"{leader}: Produce: written, and nowhere")
        return Produced(verdict, before.sent_at, answer.base_offset, answer.log_append_time_ms)
    error = ErrorCode.for_code(answer.error_code)
    why = f"{leader}: Produce: {error.name}" + (f": {answer.error_message}" if answer.error_message else "")
    return before._replace(verdict=verdict, why=why)
