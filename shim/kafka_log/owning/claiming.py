"""What is written to a partition to say that it is this process's, under an epoch by which brokers refuse all others.

The first batch under a new epoch is the fence: whatever a former owner sends from then on, brokers refuse. So what lies
below it is all that there is, and was there when it was written. See docs/decisions/0018 for why that is so.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from protocol.own.topic_log import Owner, OwnerKey, encode_own
from protocol.topic_partition import TopicPartition
from shim.kafka_log.lease import Lease
from shim.kafka_log.owning.outcomes import Fenced, outcome
from shim.kafka_log.owning.producer_ids import ProducerEpoch, ProducerIds
from shim.kafka_log.owning.tenure import Tenure
from shim.kafka_log.producing.produced import Produced
from shim.kafka_log.producing.producer import TopicProducer
from shim.kafka_log.producing.sequence import ProducerSequence
from shim.log import LogError
from shim.log.segments.batching import prepare_batches
from shim.upstream.errors import UpstreamError

log = logging.getLogger(__name__)

LAST_EPOCH: Final = 2**15 - 1
"""No producer gets it: a batch with it fences all who have the same id."""


class Claiming:
    """Of one topic, for the event loop."""

    def __init__(
        self, topic: str, owner: Owner, ids: ProducerIds, producer: TopicProducer, patience_seconds: float
    ) -> None:
        """``patience_seconds``: how long is asked for the outcome of a write, and for a producer id."""
        self.owner = owner
        self._topic = topic
        self._ids = ids
        self._producer = producer
        self._patience = patience_seconds
        self._epochs: dict[int, tuple[ProducerEpoch, int]] = {}
        """By partition the last epoch, and how many had been asked for by then."""

    async def begin(self, number: int, *, served_last_claim: bool) -> Tenure:
        """Nobody who owned the partition before can write to it any more. ``served_last_claim``: see :class:`Tenure`.
        Raises Fenced, also where somebody has come since this process took it over, without its having heard of it:
        once; LogError for a topic that has not the brokers' times; UpstreamError."""
        producer = await self._next_epoch(number)
        self._check_nobody_came(number, producer)
        sequence = ProducerSequence(*producer)
        fence = await self._send(number, sequence, sequence.stamp(self.batch()))
        if fence.append_time_ms < 0:
            raise LogError(f"{self._topic}: message.timestamp.type is not LogAppendTime")
        log.debug(
            "%s: taken over at offset %d, as producer %d with epoch %d",
            *(self._where(number), fence.base_offset, sequence.producer_id, sequence.epoch),
        )
        lease = Lease(self.owner.lease_ms / 1000)
        return Tenure(number, self._where(number), sequence, lease, fence, served_last_claim=served_last_claim)

    async def again(self, tenure: Tenure) -> None:
        """Raises Fenced, UpstreamError; the tenure is over then, as nobody knows what came of its last batch."""
        try:
            tenure.claimed(await self._send(tenure.number, tenure.sequence, tenure.stamp(self.batch())))
        except BaseException:  # given up, too
            tenure.give_up()
            raise

    async def fence_others(self, tenure: Tenure, producer_ids: Sequence[int]) -> None:
        """Where the transactional id was forgotten, those who had it before have another producer id, which its new
        epochs do not fence. The claim is written again behind them: whoever comes next is to find it there. Raises
        Fenced, UpstreamError."""
        now = await self._next_epoch(tenure.number)
        if now.producer_id != tenure.sequence.producer_id:  # the others' is the newer one
            raise UpstreamError(f"{tenure.where}: producer id {tenure.sequence.producer_id} is out of date")
        for producer_id in producer_ids:
            log.warning("%s: producer %d, whose id nobody gets any more, is fenced", tenure.where, producer_id)
            theirs = ProducerSequence(producer_id, LAST_EPOCH)
            await self._send(tenure.number, theirs, theirs.stamp(self.batch()))
        await self.again(tenure)
        tenure.fenced_others()

    def batch(self, *, released: bool = False) -> bytes:
        record = encode_own((OwnerKey(), self.owner._replace(released=released)))
        (batch,) = prepare_batches(0, [[record]], 0)
        return batch.data

    def expect_others(self, number: int) -> None:
        """Who has the partition next may have got any number of epochs meanwhile: who takes it over then knows what he
        does."""
        self._epochs.pop(number, None)

    async def _send(self, number: int, sequence: ProducerSequence, stamped: bytes) -> Produced:
        """What was ``stamped`` by that sequence. Raises Fenced, UpstreamError."""
        sent = (await self._producer.send({number: stamped}, self._patience))[number]
        trouble = outcome(self._where(number), sequence, sent)
        if isinstance(trouble, Fenced):
            self.expect_others(number)
        if trouble is not None:
            raise trouble
        return sent

    async def _next_epoch(self, number: int) -> ProducerEpoch:
        return await self._ids.next_epoch(self._where(number), self._patience)

    def _check_nobody_came(self, number: int, producer: ProducerEpoch) -> None:
        """An epoch that was given out fences nobody before something is written under it."""
        asked = self._ids.asked(self._where(number))
        before = self._epochs.get(number)
        self._epochs[number] = producer, asked
        if before is None:
            return
        (producer_id, epoch), asked_before = before
        if producer.producer_id != producer_id or producer.epoch - epoch > asked - asked_before:
            self.expect_others(number)
            raise Fenced(f"{self._where(number)}: somebody else has got an epoch")

    def _where(self, number: int) -> str:
        """The partition, in words; its transactional id, too."""
        return str(TopicPartition(self._topic, number))
