"""Each batch goes to who leads its partition, the very same bytes again until it is known what came of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Coroutine, Mapping
from typing import Final

from protocol.topic_partition import TopicPartition
from shim.boottime import boottime
from shim.config import HostPort
from shim.counted import counted
from shim.kafka_log.producing.calls import Batch, Calls
from shim.kafka_log.producing.lanes import Lane
from shim.kafka_log.producing.newest_leaders import NewestLeaders
from shim.kafka_log.producing.produced import Verdict
from shim.kafka_log.producing.requests import ProduceRequests
from shim.upstream.errors import UpstreamError
from shim.upstream.topic_leaders import LedTopic

log = logging.getLogger(__name__)

_AGAIN_S: Final = 0.05
_SELDOM_S: Final = 1.0


class Dispatching:
    """Of one topic, for the event loop. What is known of batches is told to their ``calls``."""

    def __init__(self, topic: str, calls: Calls, leaders: NewestLeaders, requests: ProduceRequests) -> None:
        self._topic = topic
        self._calls = calls
        self._leaders = leaders
        self._requests = requests
        self._lanes: dict[HostPort, Lane] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def dispatch(self, batches: Collection[Batch]) -> None:
        """No two of one partition that are awaited."""
        if not batches:
            return
        led = self._leaders.known
        if led is None:
            self._spawn(self._find_leaders(batches, None))
            return
        nobodys = []
        for batch in batches:
            place = led.places.get(batch.number)
            if place is None or place.leader is None:
                batch.why = "no broker leads the partition"
                nobodys.append(batch)
                continue
            batch.leader_epoch = place.leader_epoch
            lane = self._lanes.get(place.leader) or self._begin_lane(place.leader)
            lane.waiting.append(batch)
        if nobodys:
            self._send_again(nobodys)

    def break_off_unawaited(self) -> None:
        """Requests of which nobody waits for an answer."""
        for lane in list(self._lanes.values()):
            if lane.is_unawaited and lane.task is not None:
                lane.task.cancel()
                del self._lanes[lane.leader]
                self.dispatch(lane.leave())

    def close(self) -> None:
        """Nothing is sent any more."""
        for task in self._tasks:
            task.cancel()

    # -- once more

    def _send_again(self, batches: Collection[Batch]) -> None:
        """To whoever leads, which is asked anew: what was found out while they were on their way may be too old."""
        if new := sorted((batch for batch in batches if not batch.attempt), key=lambda batch: batch.number):
            first, *others = new  # as a rule they share why
            which = f" and {counted(len(others), 'other')} are" if others else " is"
            where = TopicPartition(self._topic, first.number)
            log.info("%s%s not written yet, and sent again: %s", where, which, first.why)
        for batch in batches:
            batch.attempt += 1
        self._spawn(self._find_leaders(batches, self._leaders.known))

    async def _find_leaders(self, batches: Collection[Batch], seen: LedTopic | None) -> None:
        while left := [batch for batch in batches if batch.is_awaited]:
            attempt = max(batch.attempt for batch in left)
            led: LedTopic | None = None
            try:
                led = await self._leaders.after(seen, min(batch.number for batch in left), attempt)
            except UpstreamError as error:
                for batch in left:
                    batch.why = str(error)
            else:
                leaders = {place.leader for place in led.places.values() if place.leader is not None}
                self._requests.close_others(leaders)
            if attempt:
                await asyncio.sleep(min(_SELDOM_S, _AGAIN_S * 2.0 ** (attempt - 1)))  # nobody tells who leads next
            if led is not None:
                self.dispatch(left)
                return
            for batch in left:
                batch.attempt += 1

    # -- to one leader

    def _begin_lane(self, leader: HostPort) -> Lane:
        lane = self._lanes[leader] = Lane(leader)
        lane.task = self._spawn(self._serve(lane))
        return lane

    async def _serve(self, lane: Lane) -> None:
        try:
            while lane.waiting:
                batches, overdue = lane.take(boottime())
                self.dispatch(self._calls.tell((batch, batch.unknown) for batch in overdue))
                if batches:
                    lane.asked = batches.values()
                    await self._try(lane, batches)
                    lane.asked = ()
        finally:
            if self._lanes.get(lane.leader) is lane:
                del self._lanes[lane.leader]

    async def _try(self, lane: Lane, batches: Mapping[int, Batch]) -> None:
        produced, failure = await self._requests.send(lane.leader, batches)
        told, again = [], []
        for number, batch in batches.items():
            its = produced[number]
            if its.verdict is not Verdict.UNKNOWN:
                told.append((batch, its))
            elif batch.is_awaited:
                batch.why = its.why
                again.append(batch)
        if failure is not None:  # what is behind them may be led by somebody else by now, too
            again += lane.leave(failure)
        if again:
            self._send_again(again)
        self.dispatch(self._calls.tell(told))

    # -- tasks

    def _spawn(self, coroutine: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._calls.fail(error)  # a mistake in here: those who wait are told, as nobody waits for the task
