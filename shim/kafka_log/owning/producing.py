"""Sends batches to the leaders of their partitions, the very same bytes again until it is known what came of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from protocol.errors import ErrorCode
from protocol.messages import produce
from protocol.own.position import UNKNOWN_EPOCH
from shim.boottime import boottime
from shim.config import HostPort, Settings
from shim.counted import counted
from shim.kafka_log.owning.sequence import Verdict, verdict_of
from shim.upstream.errors import UpstreamError
from shim.upstream.kept_connection import KeptConnections
from shim.upstream.topic_leaders import LedTopic, TopicLeaders

log = logging.getLogger(__name__)

MAX_REQUEST_BYTES: Final = 32 << 20
"""Of batches in one request, unless one alone has more. Brokers refuse more than ``socket.request.max.bytes`` (100 MiB
unless they are told otherwise) by closing the connection."""

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
    no later than it was sent first, of CLOCK_BOOTTIME; ``leader_epoch``: of who has written it, or an older one, where
    he had come to lead anew and that was not known. ``why``: the last that was said of what was not."""

    verdict: Verdict
    sent_at: float
    base_offset: int = -1
    append_time_ms: int = -1
    leader_epoch: int = UNKNOWN_EPOCH
    why: str = ""

    def moment_of(self, append_time_ms: int) -> float:
        """When the leader's clock said that, if it goes right; of CLOCK_BOOTTIME, and no later than it was."""
        return self.sent_at - (self.append_time_ms - append_time_ms) / 1000


Known: TypeAlias = Callable[[Mapping[int, Produced]], Mapping[int, bytes]]

Settled: TypeAlias = Callable[[Mapping[int, UpstreamError | None]], None]
"""Told of partitions: None where all is in all in-sync replicas, else why that is not known, or that it is not so."""


class _Flight:
    """What one call has on its way; at most one batch of each partition."""

    def __init__(self, seconds: float, known: Known) -> None:
        self.seconds = seconds
        self.known = known
        self.left: dict[int, _Batch] = {}
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.timer: asyncio.TimerHandle | None = None

    def fail(self, error: BaseException) -> None:
        self.left.clear()
        if not self.ended.done():
            self.ended.set_exception(error)


class _Batch:
    """``until``, of CLOCK_BOOTTIME: behind a suspend it is not sent any more, as the brokers may have forgotten who may
    send it."""

    __slots__ = ("attempt", "data", "flight", "leader_epoch", "number", "sent_at", "until", "why")

    def __init__(self, flight: _Flight, number: int, data: bytes, now: float) -> None:
        self.flight = flight
        self.number = number
        self.data = data
        self.sent_at = now
        self.until = now + flight.seconds
        self.attempt = 0
        self.leader_epoch = UNKNOWN_EPOCH
        self.why = "not sent yet"

    @property
    def is_awaited(self) -> bool:
        return self.flight.left.get(self.number) is self

    @property
    def unknown(self) -> Produced:
        return Produced(Verdict.UNKNOWN, self.sent_at, why=self.why)


class _Lane:
    """To one leader: a request at a time, as its connection takes them, and what waits for the next."""

    def __init__(self, leader: HostPort) -> None:
        self.leader = leader
        self.waiting: list[_Batch] = []
        self.asked: Collection[_Batch] = ()
        self.task: asyncio.Task[None] | None = None


class TopicProducer:
    """Of one topic, for the event loop. One batch at a time of each partition. What waits for one leader goes out in
    one request, whoever has called; nothing waits for another leader's partitions."""

    def __init__(self, leaders: TopicLeaders, settings: Settings, topic: str) -> None:
        self._leaders = leaders
        self._topic = topic
        self._connections = KeptConnections(settings)
        self._led: LedTopic | None = None
        self._newest: LedTopic | None = None
        self._looking_up = asyncio.Lock()
        self._flights: set[_Flight] = set()
        self._lanes: dict[HostPort, _Lane] = {}
        self._tasks: set[asyncio.Task[None]] = set()

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
        flight = _Flight(seconds, known)
        self._flights.add(flight)
        try:
            self._begin(flight, batches)
            await flight.ended
        finally:
            self._flights.discard(flight)
            flight.left.clear()
            if flight.timer is not None:
                flight.timer.cancel()
            self._break_off_unawaited()

    async def send_in_turn(
        self,
        batches: Mapping[int, Sequence[bytes]],
        seconds: float,
        *,
        stamped: Callable[[int, bytes], bytes],
        judged: Callable[[int, Produced], UpstreamError | None],
        given_up: Callable[[int], None],
        settled: Settled,
    ) -> None:
        """Of each partition one batch after the other, each ``stamped`` when its turn has come; none is sent behind one
        of which ``judged`` has found something wrong. ``settled`` is told of a partition once, ``given_up`` of those
        that it was not told of: nobody knows what came of them. Raises what any of these raises.
        """
        left = {number: iter(its) for number, its in batches.items()}

        def known(sent: Mapping[int, Produced]) -> Mapping[int, bytes]:
            told: dict[int, UpstreamError | None] = {}
            more: dict[int, bytes] = {}
            for number, produced in sent.items():
                trouble = judged(number, produced)
                batch = next(left[number], None) if trouble is None else None
                if batch is not None:
                    more[number] = stamped(number, batch)
                    continue
                del left[number]
                told[number] = trouble
            if told:
                settled(told)
            return more

        try:
            await self.send_each({number: stamped(number, next(its)) for number, its in left.items()}, seconds, known)
        finally:
            for number in left:
                given_up(number)

    def close(self) -> None:
        """What is on its way is told to be unknown."""
        for task in self._tasks:
            task.cancel()
        self._connections.close()
        for flight in list(self._flights):
            self._tell([(batch, batch.unknown) for batch in flight.left.values()])

    # -- flights

    def _begin(self, flight: _Flight, batches: Mapping[int, bytes]) -> None:
        now = boottime()
        made = [_Batch(flight, number, data, now) for number, data in batches.items()]
        flight.left.update((batch.number, batch) for batch in made)
        if flight.timer is None:
            self._set_timer(flight, now)
        self._dispatch(made)

    def _set_timer(self, flight: _Flight, now: float) -> None:
        seconds = min(batch.until for batch in flight.left.values()) - now
        flight.timer = asyncio.get_running_loop().call_later(seconds, self._expire, flight)

    def _expire(self, flight: _Flight) -> None:
        flight.timer = None
        now = boottime()
        overdue = [batch for batch in flight.left.values() if batch.until <= now]
        if overdue:
            self._led = None  # whoever hangs is not asked first the next time
            self._tell([(batch, batch.unknown) for batch in overdue])
            self._break_off_unawaited()
        if flight.left and flight.timer is None:
            self._set_timer(flight, now)

    def _tell(self, told: Iterable[tuple[_Batch, Produced]]) -> None:
        by_flight: dict[_Flight, dict[int, Produced]] = {}
        for batch, produced in told:
            if batch.is_awaited:
                by_flight.setdefault(batch.flight, {})[batch.number] = produced
        for flight, its in by_flight.items():
            for number in its:
                del flight.left[number]
            try:
                more = flight.known(its)
            except Exception as error:  # it is the caller's, and no other flight is to suffer from it
                flight.fail(error)
                continue
            if more:
                self._begin(flight, more)
            if not flight.left and not flight.ended.done():
                flight.ended.set_result(None)

    # -- leaders

    def _dispatch(self, batches: Collection[_Batch]) -> None:
        led = self._led
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
            lane = self._lanes.get(place.leader)
            if lane is None:
                lane = self._lanes[place.leader] = _Lane(place.leader)
                lane.task = self._spawn(self._serve(lane))
            batch.leader_epoch = place.leader_epoch
            lane.waiting.append(batch)
        if nobodys:
            self._send_again(nobodys)

    def _send_again(self, batches: Collection[_Batch]) -> None:
        """To whoever leads, which is asked anew: what was found out while they were on their way may be too old."""
        if new := sorted((batch for batch in batches if not batch.attempt), key=lambda batch: batch.number):
            first, *others = new  # as a rule they share why
            which = f" and {counted(len(others), 'other')} are" if others else " is"
            log.info("%s-%d%s not written yet, and sent again: %s", self._topic, first.number, which, first.why)
        for batch in batches:
            batch.attempt += 1
        self._spawn(self._find_leaders(batches, self._led))

    async def _find_leaders(self, batches: Collection[_Batch], seen: LedTopic | None) -> None:
        while left := [batch for batch in batches if batch.is_awaited]:
            attempt = max(batch.attempt for batch in left)
            led = await self._look_up(seen, left, attempt)
            if attempt:
                await asyncio.sleep(min(_SELDOM_S, _AGAIN_S * 2.0 ** (attempt - 1)))  # nobody tells who leads next
            if led is not None:
                self._dispatch(left)
                return
            for batch in left:
                batch.attempt += 1

    async def _look_up(self, seen: LedTopic | None, left: Collection[_Batch], attempt: int) -> LedTopic | None:
        """Who leads, unless somebody else has found out since ``seen``."""
        async with self._looking_up:
            if self._led is not None and self._led is not seen:
                return self._led
            self._led = None
            try:
                if attempt and attempt % _EACH_ASKED == 0:
                    number = min(batch.number for batch in left)
                    found = await self._leaders.look_up_at_most_brokers(number, _LOOK_UP_S)
                else:
                    found = (await self._leaders.look_up(_LOOK_UP_S)).newer(self._newest)
            except UpstreamError as error:
                for batch in left:
                    batch.why = str(error)
            else:
                # Most brokers are believed of an older one, too: the topic may have been put back to an earlier time.
                self._led = self._newest = found
                leaders = {place.leader for place in self._led.places.values() if place.leader is not None}
                self._connections.close_others(leaders)
            return self._led

    # -- requests

    async def _serve(self, lane: _Lane) -> None:
        try:
            while lane.waiting:
                if batches := self._take(lane):
                    lane.asked = batches.values()
                    await self._try(lane, batches)
                    lane.asked = ()
        finally:
            if self._lanes.get(lane.leader) is lane:
                del self._lanes[lane.leader]

    def _take(self, lane: _Lane) -> dict[int, _Batch]:
        """What goes out together. Those that were tried more often have more time, and go by themselves."""
        now = boottime()
        waiting = [batch for batch in lane.waiting if batch.is_awaited]
        overdue = [batch for batch in waiting if batch.until <= now]
        taken: dict[int, _Batch] = {}
        size = attempt = 0
        lane.waiting = []
        for batch in waiting:
            if batch.until <= now:
                continue
            fits = size + len(batch.data) <= MAX_REQUEST_BYTES and batch.number not in taken
            if not taken or (fits and batch.attempt == attempt):
                attempt = batch.attempt
                size += len(batch.data)
                taken[batch.number] = batch
            else:
                lane.waiting.append(batch)
        self._tell([(batch, batch.unknown) for batch in overdue])
        return taken

    async def _try(self, lane: _Lane, batches: Mapping[int, _Batch]) -> None:
        leader = lane.leader
        attempt = max(batch.attempt for batch in batches.values())
        seconds = _ANSWERED_WITHIN_S * 2.0 ** min(attempt, 10)  # a large batch takes its time on a slow link
        why = f"{leader}: Produce: not answered within {seconds:g} s"
        try:
            async with asyncio.timeout(seconds):
                answers = await self._ask(leader, batches)
        except UpstreamError as error:
            answers, why = {}, str(error)
        except TimeoutError:
            answers = {}
        told: list[tuple[_Batch, Produced]] = []
        again = []
        for number, batch in batches.items():
            answer = answers.get(number)
            produced = batch.unknown._replace(why=why) if answer is None else _judged(leader, answer, batch)
            if produced.verdict is not Verdict.UNKNOWN:
                told.append((batch, produced))
            elif batch.is_awaited:
                batch.why = produced.why
                again.append(batch)
        if not answers:  # what is behind them may be led by somebody else by now, too
            for batch in lane.waiting:
                batch.why = why
            again += lane.waiting
            lane.waiting = []
        if again:
            self._send_again(again)
        self._tell(told)

    async def _ask(
        self, leader: HostPort, batches: Mapping[int, _Batch]
    ) -> dict[int, produce.PartitionProduceResponse | None]:
        """None of a partition of which it is not clear what was said. Raises UpstreamError."""
        data = tuple(produce.PartitionProduceData(number, batch.data) for number, batch in batches.items())
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

    def _break_off_unawaited(self) -> None:
        """Requests of which nobody waits for an answer: what is behind them is not to wait for it either."""
        for lane in list(self._lanes.values()):
            if lane.asked and lane.task is not None and not any(batch.is_awaited for batch in lane.asked):
                lane.task.cancel()
                del self._lanes[lane.leader]
                self._dispatch([batch for batch in lane.waiting if batch.is_awaited])

    # -- tasks

    def _spawn(self, coroutine: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            for flight in self._flights:  # a mistake in here: those who wait are told, as nobody waits for the task
                flight.fail(error)


def _judged(leader: HostPort, answer: produce.PartitionProduceResponse, batch: _Batch) -> Produced:
    sent_at = batch.sent_at
    verdict = verdict_of(answer.error_code)
    if verdict is Verdict.WRITTEN:
        if answer.base_offset < 0:
            return Produced(Verdict.UNKNOWN, sent_at, why=f"{leader}: Produce: written, and nowhere")
        return Produced(verdict, sent_at, answer.base_offset, answer.log_append_time_ms, batch.leader_epoch)
    error = ErrorCode.for_code(answer.error_code)
    why = f"{leader}: Produce: {error.name}" + (f": {answer.error_message}" if answer.error_message else "")
    return Produced(verdict, sent_at, why=why)
