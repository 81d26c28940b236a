"""Partitions of a topic that this process owns: taken over, read to where the former owner ends, written, released.

The first batch under a new epoch is the fence: whatever a former owner sends from then on, brokers refuse. So what lies
below it is all that there is, and was there when it was written. See docs/decisions/0018 for why that is so.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import aclosing
from typing import Final

from protocol.own.topic_log import Owner, OwnerKey, encode_own
from protocol.records.batches import BatchHeader
from shim.boottime import boottime
from shim.config import Settings
from shim.kafka_log.lease import LONGEST_SECONDS, Lease, waiting_seconds
from shim.kafka_log.owning.producer_ids import ProducerEpoch, ProducerIds
from shim.kafka_log.owning.producing import Produced, Settled, TopicProducer
from shim.kafka_log.owning.sequence import ProducerSequence, Verdict
from shim.kafka_log.reading.deletions import read_deletions
from shim.kafka_log.reading.patient_reading import read_patiently
from shim.kafka_log.reading.read_part import ReadPart
from shim.log import LogError, LoggedRecord, Runs
from shim.log.batching import RecordSet, prepare_batches
from shim.runtime.backend import OwnedElsewhere
from shim.upstream.cluster import Cluster
from shim.upstream.errors import UpstreamError
from shim.upstream.topic_leaders import TopicLeaders
from shim.upstream.topic_reader import Fetched, TopicReader

log = logging.getLogger(__name__)

LAST_EPOCH: Final = 2**15 - 1
"""No producer gets it: a batch with it fences all who have the same id."""

_CLAIMED_AGAIN_AT: Final = 0.5
"""Of the time for which an owner may be silent, while a partition is read that is not written yet."""


class Fenced(UpstreamError, OwnedElsewhere):
    """Somebody else has taken the partition over."""


class RecordSetTooLarge(UpstreamError):
    """The topic does not take it. Nothing of the partition's was written, and it is still owned."""


class _Owned:
    """A partition from one :meth:`OwnedTopic.take_over` on. ``claim``: the fence, or what was written since to say the
    same. ``resumes``: this process has served it under the claim before. ``is_read``: what it has is known, and it may
    be written. ``is_served``: that may be told, too, within the lease. ``end``: behind all that is known to be there;
    ``last``: what was written last, None where something stands before it that is not. Of CLOCK_BOOTTIME: ``heard_at``:
    when a write was last known to be acknowledged; ``sent_at``: no later than the batch under way was sent."""

    def __init__(self, sequence: ProducerSequence, lease: Lease, fence: Produced, *, resumes: bool) -> None:
        self.sequence = sequence
        self.lease = lease
        self.fence = self.claim = fence
        self.resumes = resumes
        self.is_read = self.is_served = False
        self.end = 0
        self.is_all_known = True
        self.last: Produced | None = None
        self.fenced_at = self.heard_at = self.sent_at = boottime()

    def stamp(self, batch: bytes) -> bytes:
        """To be sent at once. Raises RuntimeError while there is another."""
        self.sent_at = boottime()
        return self.sequence.stamp(batch)

    def wrote(self, produced: Produced) -> None:
        """The batch that was stamped last is in the log."""
        self.is_all_known = self.is_all_known and produced.base_offset == self.end
        self.last = produced if self.is_all_known else None
        self.end = self.sequence.end


class OwnedTopic:
    """For the event loop. Of each partition one call at a time, and they come in this order: :meth:`take_over`,
    :meth:`read` to its end, then :meth:`write` and :meth:`release`. A partition of which any of them has failed is
    owned no more, until it is taken over again, unless it was RecordSetTooLarge.
    """

    def __init__(
        self,
        cluster: Cluster,
        settings: Settings,
        topic: str,
        owner: Owner,
        *,
        patience_seconds: float,
        silent_seconds: float,
        max_message_bytes: int,
    ) -> None:
        """``owner``: what this process says of itself; nobody else may have its incarnation. ``patience_seconds``: how
        long is asked for the outcome of a write, for a producer id, and for more of what is to be read.
        ``silent_seconds``: an owner that has had nothing acknowledged for so long may have been forgotten, and so may
        those who have fenced it. ``max_message_bytes``: no batch may be larger. These two may change between calls.
        Raises ValueError for a lease that nobody may have.
        """
        if not 0 <= owner.lease_ms <= LONGEST_SECONDS * 1000:
            raise ValueError(f"a lease of {owner.lease_ms} ms")
        self._topic = topic
        self._owner = owner
        self._patience = patience_seconds
        self.silent_seconds = silent_seconds
        self.max_message_bytes = max_message_bytes
        self._ids = ProducerIds(cluster, settings)
        self._producer = TopicProducer(TopicLeaders(cluster, settings, topic), settings, topic)
        self._reader = TopicReader(cluster, settings, topic)
        self._owned: dict[int, _Owned] = {}
        self._epochs: dict[int, tuple[ProducerEpoch, int]] = {}
        """By partition the last epoch, and how many had been asked for by then."""
        self._served_last: set[int] = set()
        """Partitions whose last claim is this process's own, and was served under, unless somebody else has come."""

    # -- taking over

    async def take_over(self, number: int) -> None:
        """Nobody who owned the partition before can write to it any more. Raises Fenced, also where somebody has come
        since this process took it over, without its having heard of it: once, it is not taken back then; UpstreamError.
        """
        self._owned.pop(number, None)
        resumes = number in self._served_last
        self._served_last.discard(number)
        producer = await self._next_epoch(number)
        self._check_nobody_came(number, producer)
        sequence = ProducerSequence(*producer)
        fence = await self._send(number, sequence, self._claim())
        if fence.append_time_ms < 0:
            raise LogError(f"{self._topic}: message.timestamp.type is not LogAppendTime")
        self._owned[number] = _Owned(sequence, Lease(self._owner.lease_ms / 1000), fence, resumes=resumes)
        log.debug(
            "%s-%d: taken over at offset %d, as producer %d with epoch %d",
            *(self._topic, number, fence.base_offset, sequence.producer_id, sequence.epoch),
        )

    async def goes_on(self, number: int, part: ReadPart) -> bool:
        """Whether what was read of a partition before it was taken over is what stands there, so that it need not be
        read again. Raises UpstreamError."""
        owned = self._still_owned(number)
        if part.position.next_offset > owned.fence.base_offset:
            return False
        return await self._reader.stands(part.position, max(part.leader_epoch, owned.fence.leader_epoch))

    def fence(self, number: int) -> Produced:
        """With which a partition was taken over. Raises UpstreamError for one that is not owned."""
        return self._still_owned(number).fence

    async def read(
        self,
        number: int,
        replay: Callable[[list[LoggedRecord]], object],
        part: ReadPart | None = None,
        replayer: Executor | None = None,
    ) -> AsyncGenerator[int, None]:
        """What the partition has, which is all of it once this has come to its end; then, and not before, what it has
        may be told. ``replay`` is given the records of each batch, in ``replayer`` (None: in any thread); what comes is
        how many were read meanwhile. ``part``: what was read of it before, if it :meth:`goes_on`; only what is behind
        it is read.

        Raises LogError for what no shim has written, and where something is gone; Fenced, UpstreamError, NotWhole among
        them; what ``replay`` raises.
        """
        owned = self._still_owned(number)
        try:
            async with aclosing(
                self._read(number, owned, part or ReadPart(self._topic, number), replay, replayer)
            ) as reading:
                async for records in reading:
                    yield records
            if self._owned.get(number) is not owned:
                raise UpstreamError(f"{self._topic}-{number} was taken over again while it was read")
        except BaseException:  # given up, too: what it has is not known
            self._give_up(number, owned)
            raise
        owned.lease.acknowledged(owned.fence.sent_at)
        owned.is_read = owned.is_served = True
        self._served_last.add(number)

    async def _read(
        self,
        number: int,
        owned: _Owned,
        part: ReadPart,
        replay: Callable[[list[LoggedRecord]], object],
        replayer: Executor | None,
    ) -> AsyncGenerator[int, None]:
        """To the fence, and behind those of others; then it waits for the leases of the owners before."""
        where, own, fence = f"{self._topic}-{number}", owned.sequence, owned.fence.base_offset
        resumes, waits_from = owned.resumes, owned.fenced_at
        if not part.position.next_offset and fence:
            await read_deletions(lambda: self._batches(number, owned, part), part, where, fence + 1)
        others_are_fenced = False
        async with aclosing(self._batches(number, owned, part)) as batches:
            async for read in batches:
                part.fetched(read.start, read.leader)
                before = part.records
                if read.start.next_offset <= owned.claim.base_offset < read.position.next_offset:
                    self._check_claim(number, read.batches, owned)
                await asyncio.get_running_loop().run_in_executor(replayer, part.take_all, read.batches, replay, fence)
                yield part.records - before
                if part.position.next_offset <= owned.claim.base_offset:
                    continue
                others = [
                    producer_id
                    for producer_id, epoch in part.epochs.items()
                    if producer_id != own.producer_id and epoch < LAST_EPOCH
                ]
                if not others or others_are_fenced:
                    break
                await self._fence_others(number, owned, others)
                others_are_fenced, resumes, waits_from = True, False, boottime()
        owned.end = part.position.next_offset
        if owned.end == own.end and not others_are_fenced:
            owned.last = owned.claim
        seconds = waiting_seconds(part.claims(self._owner.incarnation), resumes=resumes)
        # One more millisecond: a timer of the loop may fire a fraction early.
        await asyncio.sleep(max(0.0, waits_from + seconds - boottime() + 0.001))
        last = part.last_owner
        log.debug(
            "%s: read to offset %d, after %s; owners before it were waited for %.2f s",
            *(where, owned.end, last.name if last is not None else "nobody", seconds),
        )

    async def _batches(self, number: int, owned: _Owned, part: ReadPart) -> AsyncGenerator[Fetched[bytes], None]:
        """Behind what was read, for ever, as leaders tell that came no earlier than who has told that, and has written
        the fence. It stays this process's meanwhile: a claim is written now and then. Raises UpstreamError, Fenced
        among them, also where nothing comes any more."""
        where, position = f"{self._topic}-{number}", part.position
        raw = self._reader.read_raw(position, max(part.leader_epoch, owned.fence.leader_epoch))
        async with aclosing(read_patiently(raw, position, self._patience, where)) as reading:
            async for read in reading:
                yield read
                if boottime() - self._still_owned(number).heard_at > self.silent_seconds * _CLAIMED_AGAIN_AT:
                    await self._claim_again(number, owned)

    def _check_claim(self, number: int, batches: Iterable[tuple[BatchHeader, bytes]], owned: _Owned) -> None:
        """That what says last that it is this process's stands where it was written: compaction leaves the last batch
        of a producer, if not its record."""
        offset, own = owned.claim.base_offset, owned.sequence
        there = [header for header, _ in batches if header.base_offset <= offset <= header.last_offset]
        if [(each.producer_id, each.producer_epoch) for each in there] != [(own.producer_id, own.epoch)]:
            raise UpstreamError(f"{self._topic}-{number}: what was written at {offset} is not there")

    async def _fence_others(self, number: int, owned: _Owned, producer_ids: Sequence[int]) -> None:
        """Where the transactional id was forgotten, those who had it before have another producer id, which its new
        epochs do not fence. The claim is written again behind them: whoever comes next is to find it there. Raises
        Fenced, UpstreamError."""
        now = await self._next_epoch(number)
        if now.producer_id != owned.sequence.producer_id:  # the others' is the newer one
            raise UpstreamError(f"{self._topic}-{number}: producer id {owned.sequence.producer_id} is out of date")
        for producer_id in producer_ids:
            log.warning(
                "%s-%d: producer %d, whose id nobody gets any more, is fenced", self._topic, number, producer_id
            )
            await self._send(number, ProducerSequence(producer_id, LAST_EPOCH), self._claim())
        await self._claim_again(number, owned)

    async def _claim_again(self, number: int, owned: _Owned) -> None:
        """It has to be read on to behind that. Raises Fenced, UpstreamError."""
        owned.claim = await self._send(number, owned.sequence, self._claim())
        owned.heard_at = boottime()

    async def _next_epoch(self, number: int) -> ProducerEpoch:
        return await self._ids.next_epoch(f"{self._topic}-{number}", self._patience)

    def _check_nobody_came(self, number: int, producer: ProducerEpoch) -> None:
        """An epoch that was given out fences nobody before something is written under it."""
        asked = self._ids.asked(f"{self._topic}-{number}")
        before = self._epochs.get(number)
        self._epochs[number] = producer, asked
        if before is None:
            return
        (producer_id, epoch), asked_before = before
        if producer.producer_id != producer_id or producer.epoch - epoch > asked - asked_before:
            del self._epochs[number]
            raise Fenced(f"{self._topic}-{number}: somebody else has got an epoch")

    # -- owning

    async def write(
        self, writes: Mapping[int, Sequence[RecordSet | Runs]], timestamp_ms: int, settled: Settled
    ) -> None:
        """Record sets, none of which is divided between batches. Where a partition has none, a claim is written, which
        changes nothing. ``settled`` is called in the loop as soon as something is known, once of each partition: of
        those that one broker has answered in one call. From then on the partition may be written again, while others
        are still waited for. Raises ValueError for an impossible timestamp, nothing having been written, and what
        ``settled`` raises; of what was not told by then nobody knows what came.
        """
        owned, failed = self._writable(writes)
        batches: dict[int, list[bytes]] = {}
        for number in owned:
            try:
                batches[number] = self._prepared(number, writes[number], timestamp_ms) or [self._claim()]
            except RecordSetTooLarge as error:
                failed[number] = error
        if failed:
            settled(failed)
        await self._write({number: (owned[number], its) for number, its in batches.items()}, settled)

    def _writable(self, numbers: Iterable[int]) -> tuple[dict[int, _Owned], dict[int, UpstreamError]]:
        """Those that are, and why others are not."""
        owned: dict[int, _Owned] = {}
        failed: dict[int, UpstreamError] = {}
        for number in numbers:
            try:
                its = self._still_owned(number)
            except UpstreamError as error:
                failed[number] = error
                continue
            if its.is_read:
                owned[number] = its
            else:
                failed[number] = UpstreamError(f"{self._topic}-{number} has not been read yet")
        return owned, failed

    def _prepared(self, number: int, sets: Sequence[RecordSet | Runs], timestamp_ms: int) -> list[bytes]:
        try:
            batches = [each.data for each in prepare_batches(0, sets, timestamp_ms)]
        except OSError as error:
            raise RecordSetTooLarge(f"{self._topic}-{number}: {error.strerror}") from error
        largest = max(map(len, batches), default=0)
        if largest > self.max_message_bytes:
            reason = f"{largest} bytes, and max.message.bytes of {self._topic} is {self.max_message_bytes}"
            raise RecordSetTooLarge(f"{self._topic}-{number}: {reason}")
        return batches

    async def _write(self, batches: Mapping[int, tuple[_Owned, list[bytes]]], settled: Settled) -> None:
        """Of each partition one batch after the other."""

        def judged(number: int, produced: Produced) -> UpstreamError | None:
            its, _ = batches[number]
            trouble = self._settle(number, its.sequence, produced)
            if trouble is None:
                its.lease.acknowledged(produced.sent_at)
                its.heard_at = boottime()
                its.wrote(produced)
            else:
                self._give_up(number, its)
            return trouble

        await self._producer.send_in_turn(
            {number: data for number, (_, data) in batches.items()},
            self._patience,
            stamped=lambda number, batch: batches[number][0].stamp(batch),
            judged=judged,
            given_up=lambda number: self._give_up(number, batches[number][0]),
            settled=settled,
        )

    def may_tell(self, number: int) -> bool:
        """Whether nobody else can have written by now; where not, it may be after a :meth:`write`."""
        owned = self._owned.get(number)
        return owned is not None and owned.is_served and owned.lease.holds(boottime())

    def may_tell_behind(self, number: int, decided_at: float) -> bool:
        """Whether what was decided then, of CLOCK_BOOTTIME, may be told once the write that is under way is
        acknowledged. False where none is."""
        owned = self._owned.get(number)
        if owned is None or not owned.is_served or not owned.sequence.is_under_way:
            return False
        return owned.lease.will_hold(decided_at, owned.sent_at)

    def idle(self, seconds: float) -> list[int]:
        """Partitions that are served, of which nothing was acknowledged for so long and nothing is under way."""
        before = boottime() - seconds
        return [
            number
            for number, its in self._owned.items()
            if its.is_served and its.heard_at <= before and not its.sequence.is_under_way
        ]

    def producer(self, number: int) -> ProducerEpoch:
        """Under which a partition is owned. Raises UpstreamError for one that is not."""
        owned = self._owned.get(number)
        if owned is None:
            raise UpstreamError(f"{self._topic}-{number} is not owned")
        return ProducerEpoch(owned.sequence.producer_id, owned.sequence.epoch)

    def last_written(self, number: int) -> Produced | None:
        """The last batch of a partition that is served, up to which the log is what was read of it and written since.
        None where nothing was written, or somebody else has."""
        owned = self._owned.get(number)
        return owned.last if owned is not None and owned.is_served else None

    def end(self, number: int) -> int:
        """Behind all of it that is known; 0 where it is not owned."""
        owned = self._owned.get(number)
        return owned.end if owned is not None else 0

    @property
    def owner(self) -> Owner:
        """What this process says of itself."""
        return self._owner

    async def release(self, numbers: Collection[int]) -> dict[int, UpstreamError]:
        """Whoever takes them over next need not wait, and whoever comes is expected. Gives those of which it is not
        known that it is written."""
        served = [number for number in numbers if (its := self._owned.get(number)) is not None and its.is_served]
        # Of a write that was broken off nobody knows what is written, nor what its next number would be.
        under_way = {number for number in served if self._owned[number].sequence.is_under_way}
        for number in numbers:
            self._served_last.discard(number)
            self._epochs.pop(number, None)
            if number in self._owned:
                self._owned[number].is_served = False  # before anybody can read that it is
        failed = {number: UpstreamError(f"{self._topic}-{number} is being written") for number in under_way}

        def settled(told: Mapping[int, UpstreamError | None]) -> None:
            failed.update((number, error) for number, error in told.items() if error is not None)

        try:
            owned, unwritable = self._writable(number for number in served if number not in under_way)
            await self._write({number: (its, [self._claim(released=True)]) for number, its in owned.items()}, settled)
        finally:
            for number in numbers:
                self._owned.pop(number, None)
        return failed | unwritable

    def close(self) -> None:
        self._owned.clear()
        self._ids.close()
        self._producer.close()

    # -- a batch

    def _still_owned(self, number: int) -> _Owned:
        """It is given up here where it is not. Raises UpstreamError then."""
        owned = self._owned.get(number)
        if owned is None:
            raise UpstreamError(f"{self._topic}-{number} is not owned")
        if owned.sequence.is_under_way:
            raise RuntimeError(f"{self._topic}-{number}: two calls at a time")
        if boottime() - owned.heard_at > self.silent_seconds:
            self._give_up(number, owned)
            raise UpstreamError(
                f"{self._topic}-{number} was not written for {self.silent_seconds:g} s, and is owned no more"
            )
        return owned

    def _give_up(self, number: int, owned: _Owned) -> None:
        owned.is_served = False
        if self._owned.get(number) is owned:
            del self._owned[number]

    def _claim(self, *, released: bool = False) -> bytes:
        record = encode_own((OwnerKey(), self._owner._replace(released=released)))
        (batch,) = prepare_batches(0, [[record]], 0)
        return batch.data

    async def _send(self, number: int, sequence: ProducerSequence, batch: bytes) -> Produced:
        """Raises Fenced, UpstreamError."""
        sent = (await self._producer.send({number: sequence.stamp(batch)}, self._patience))[number]
        trouble = self._settle(number, sequence, sent)
        if trouble is not None:
            raise trouble
        return sent

    def _settle(self, number: int, sequence: ProducerSequence, sent: Produced) -> UpstreamError | None:
        trouble = outcome(f"{self._topic}-{number}", sequence, sent)
        if isinstance(trouble, Fenced):
            self._epochs.pop(number, None)  # who takes it over now knows what he does
        return trouble


def outcome(where: str, sequence: ProducerSequence, sent: Produced) -> UpstreamError | None:
    """What came of the batch under way; None where it is written."""
    if sent.verdict is not Verdict.WRITTEN:
        kind = Fenced if sent.verdict is Verdict.FENCED else UpstreamError
        return kind(f"{where}: {sent.verdict.name.lower()}: {sent.why}")
    if not sequence.written(sent.base_offset):
        return UpstreamError(f"{where}: lost: a batch stands at {sent.base_offset}, where others were acknowledged")
    return None
