"""The topic with the history of commits, as it is written beside the offsets, under the same producer ids and epochs.

Nothing is replayed from it. So no record set has to stay whole, and a partition need not be read before it is written:
of a commit that was not acknowledged the history may have what the offsets do not have.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Final

from protocol.own.record_sets import RecordSet, Runs
from protocol.topic_partition import TopicPartition
from shim.config import Settings
from shim.kafka_log.owning.outcomes import outcome
from shim.kafka_log.owning.producer_ids import ProducerEpoch
from shim.kafka_log.producing.in_turn import OnCompletion, send_in_turn
from shim.kafka_log.producing.produced import Produced
from shim.kafka_log.producing.producer import TopicProducer
from shim.kafka_log.producing.sequence import ProducerSequence
from shim.log.segments.batching import prepare_batches
from shim.upstream.cluster import Cluster
from shim.upstream.errors import UpstreamError
from shim.upstream.topic_leaders import TopicLeaders
from shim.upstream.topic_reader import TopicReader

log = logging.getLogger(__name__)

_TOLD_WITHIN_S: Final = 5.0
"""Where a partition ends."""

RecordSets = Sequence[RecordSet | Runs]


class _Begun:
    """A partition that is written under one epoch; ``is_over``: no more. ``where``: it, in words."""

    def __init__(self, where: str, sequence: ProducerSequence) -> None:
        self.where = where
        self.sequence = sequence
        self.is_over = False

    def stamp(self, batch: bytes) -> bytes:
        return self.sequence.stamp(batch)

    def conclude(self, produced: Produced) -> UpstreamError | None:
        trouble = outcome(self.where, self.sequence, produced)
        if trouble is not None:
            self.give_up()
        return trouble

    def give_up(self) -> None:
        self.is_over = True


class HistoryTopic:
    """For the event loop. Of each partition one write at a time; one of which a write has failed is not written any
    more, until :meth:`begin`."""

    def __init__(
        self, cluster: Cluster, settings: Settings, topic: str, *, patience_seconds: float, max_message_bytes: int
    ) -> None:
        """``patience_seconds``: how long is asked for the outcome of a write. ``max_message_bytes``: no batch may be
        larger; it may change between writes."""
        self._topic = topic
        self._patience = patience_seconds
        self.max_message_bytes = max_message_bytes
        self._producer = TopicProducer(TopicLeaders(cluster, settings, topic), settings, topic)
        self._reader = TopicReader(cluster, settings, topic)
        self._begun: dict[int, _Begun] = {}
        """By partition the last one, over or not."""
        self._has_left_out = False

    def begin(self, number: int, producer: ProducerEpoch) -> None:
        """The offsets partition of that number was taken over as this producer, under an epoch that is new."""
        self._begun[number] = _Begun(self._where(number), ProducerSequence(*producer))

    async def write(self, writes: Mapping[int, RecordSets], timestamp_ms: int, on_completion: OnCompletion) -> None:
        """``on_completion`` is told as :meth:`OwnedTopic.write` does it: Fenced for partitions that somebody else
        writes by now. A record that the topic does not take is left out, and the log says so once."""
        begun: dict[int, tuple[_Begun, list[bytes]]] = {}
        at_once: dict[int, UpstreamError | None] = {}
        for number, sets in writes.items():
            its = self._begun.get(number)
            if its is None or its.is_over:
                at_once[number] = UpstreamError(f"{self._where(number)} is not written by this process")
            elif its.sequence.is_under_way:
                raise RuntimeError(f"{self._where(number)}: two writes at a time")
            elif batches := self._prepared(number, sets, timestamp_ms):
                begun[number] = its, batches
            else:
                at_once[number] = None
        if at_once:
            on_completion(at_once)
        await send_in_turn(self._producer, begun, self._patience, on_completion)

    def _prepared(self, number: int, sets: RecordSets, timestamp_ms: int) -> list[bytes]:
        fitting, left_out = fitting_batches(sets, timestamp_ms, self.max_message_bytes)
        if left_out and not self._has_left_out:
            self._has_left_out = True
            log.warning(
                "%s: a record of the history is left out, as any that is too large, of which nothing more is said: "
                "max.message.bytes is %d",
                *(self._where(number), self.max_message_bytes),
            )
        return fitting

    def acknowledged_end(self, number: int) -> int:
        """Behind the last write since :meth:`begin` that is known to be acknowledged; 0 where there is none."""
        its = self._begun.get(number)
        return 0 if its is None or its.is_over else its.sequence.end

    async def end(self, number: int) -> int:
        """The same, or where the topic ends, where there is none. Raises UpstreamError."""
        return self.acknowledged_end(number) or (await self.ends(number))[1]

    async def ends(self, number: int) -> tuple[int, int]:
        """The earliest offset that is there, and the one behind all that was acknowledged by now, as far as the leader
        knows that the first broker names; what this process has written is among it in any case. Raises UpstreamError.
        """
        # A leader that is cut off from the others, and does not know it, tells less than another one has acknowledged.
        acknowledged = self.acknowledged_end(number)
        try:
            async with asyncio.timeout(_TOLD_WITHIN_S):
                earliest, end = await self._reader.ends_of(number)
        except TimeoutError as error:
            raise UpstreamError(f"{self._where(number)}: nobody has told in time where it ends") from error
        return earliest, max(end, acknowledged)

    def close(self) -> None:
        self._begun.clear()
        self._producer.close()

    def _where(self, number: int) -> str:
        return str(TopicPartition(self._topic, number))


def fitting_batches(sets: RecordSets, timestamp_ms: int, most_bytes: int) -> tuple[list[bytes], bool]:
    """Batches of so many bytes at most, with record sets divided where they have to be; and whether a record by itself
    is too large, and left out."""
    try:
        batches = [each.data for each in prepare_batches(0, sets, timestamp_ms)]
        if max(map(len, batches), default=0) <= most_bytes:
            return batches, False
    except OSError:  # EMSGSIZE, for a set that no log takes
        pass
    halves = _halves(sets)
    if halves is None:
        return [], True
    (first, of_first), (second, of_second) = (fitting_batches(half, timestamp_ms, most_bytes) for half in halves)
    return first + second, of_first or of_second


def _halves(sets: RecordSets) -> tuple[RecordSets, RecordSets] | None:
    """None of a single record. Runs of the history have one each."""
    if len(sets) > 1:
        return sets[: len(sets) // 2], sets[len(sets) // 2 :]
    (only,) = sets
    at = len(only.runs if isinstance(only, Runs) else only) // 2
    if not at:
        return None
    if isinstance(only, Runs):
        return [Runs(only.runs[:at], at)], [Runs(only.runs[at:], only.total - at)]
    return [only[:at]], [only[at:]]
