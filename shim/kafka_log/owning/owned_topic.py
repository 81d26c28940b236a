"""Partitions of a topic that this process owns: the door to taking them over, reading them back, writing and releasing
them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import aclosing

from protocol.own.record_sets import LoggedRecord, RecordSet, Runs
from protocol.own.topic_log import Owner
from protocol.topic_partition import TopicPartition
from shim.config import Settings
from shim.kafka_log.lease import LONGEST_SECONDS
from shim.kafka_log.owning.claiming import Claiming
from shim.kafka_log.owning.outcomes import Fenced, RecordSetTooLarge
from shim.kafka_log.owning.producer_ids import ProducerEpoch, ProducerIds
from shim.kafka_log.owning.reading_back import ReadingBack
from shim.kafka_log.owning.tenure import Tenure
from shim.kafka_log.producing.in_turn import OnCompletion, send_in_turn
from shim.kafka_log.producing.produced import Produced
from shim.kafka_log.producing.producer import TopicProducer
from shim.kafka_log.reading.read_part import ReadPart
from shim.log.segments.batching import prepare_batches
from shim.upstream.cluster import Cluster
from shim.upstream.errors import UpstreamError
from shim.upstream.topic_leaders import TopicLeaders
from shim.upstream.topic_reader import TopicReader


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
        self.owner = owner
        self._topic = topic
        self._patience = patience_seconds
        self.silent_seconds = silent_seconds
        self.max_message_bytes = max_message_bytes
        self._ids = ProducerIds(cluster, settings)
        self._producer = TopicProducer(TopicLeaders(cluster, settings, topic), settings, topic)
        self._claiming = Claiming(topic, owner, self._ids, self._producer, patience_seconds)
        self._reader = TopicReader(cluster, settings, topic)
        self._tenures: dict[int, Tenure] = {}
        """By partition the last one, over or not, until it is released."""

    # -- taking over

    async def take_over(self, number: int) -> None:
        """Nobody who owned the partition before can write to it any more. Raises Fenced, also where somebody has come
        since this process took it over, without its having heard of it: once, it is not taken back then; UpstreamError.
        """
        before = self._ended(number)
        served = before is not None and before.is_read
        self._tenures[number] = await self._claiming.begin(number, served_last_claim=served)

    async def goes_on(self, number: int, part: ReadPart) -> bool:
        """Whether what was read of a partition before it was taken over is what stands there, so that it need not be
        read again. Raises UpstreamError."""
        fence = self.fence(number)
        if part.position.next_offset > fence.base_offset:
            return False
        return await self._reader.stands(part.position, max(part.leader_epoch, fence.leader_epoch))

    def fence(self, number: int) -> Produced:
        """What was written when a partition was taken over. Raises UpstreamError for one that is not owned, or is not
        from here on, as it was silent for too long; RuntimeError while it is written."""
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
        tenure = self._still_owned(number)
        reading = ReadingBack(
            self._reader,
            self._claiming,
            tenure,
            part or ReadPart(self._topic, number),
            patience_seconds=self._patience,
            silent_seconds=lambda: self.silent_seconds,
        )
        try:
            async with aclosing(reading.run(replay, replayer)) as counts:
                async for records in counts:
                    yield records
            if tenure.is_over:
                raise UpstreamError(f"{tenure.where} was taken over again while it was read")
        except BaseException:  # given up, too: what it has is not known
            tenure.give_up()
            raise
        tenure.serve()

    # -- owning

    async def write(
        self, writes: Mapping[int, Sequence[RecordSet | Runs]], timestamp_ms: int, on_completion: OnCompletion
    ) -> None:
        """Record sets, none of which is divided between batches. Where a partition has none, a claim is written, which
        changes nothing. ``on_completion`` is called in the loop as soon as something is known, once of each partition:
        of those that one broker has answered in one call. From then on the partition may be written again, while others
        are still waited for. Raises ValueError for an impossible timestamp, nothing having been written, and what
        ``on_completion`` raises; of what was not told by then nobody knows what came.
        """
        owned, failed = self._writable(writes)
        batches: dict[int, list[bytes]] = {}
        for number in owned:
            try:
                batches[number] = self._prepared(number, writes[number], timestamp_ms) or [self._claiming.batch()]
            except RecordSetTooLarge as error:
                failed[number] = error
        if failed:
            on_completion(failed)
        await self._write({number: (owned[number], its) for number, its in batches.items()}, on_completion)

    def _writable(self, numbers: Iterable[int]) -> tuple[dict[int, Tenure], dict[int, UpstreamError]]:
        """Those that are, and why others are not."""
        owned: dict[int, Tenure] = {}
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
                failed[number] = UpstreamError(f"{self._where(number)} has not been read yet")
        return owned, failed

    def _prepared(self, number: int, sets: Sequence[RecordSet | Runs], timestamp_ms: int) -> list[bytes]:
        try:
            batches = [each.data for each in prepare_batches(0, sets, timestamp_ms)]
        except OSError as error:
            raise RecordSetTooLarge(f"{self._where(number)}: {error.strerror}") from error
        largest = max(map(len, batches), default=0)
        if largest > self.max_message_bytes:
            reason = f"{largest} bytes, and max.message.bytes of {self._topic} is {self.max_message_bytes}"
            raise RecordSetTooLarge(f"{self._where(number)}: {reason}")
        return batches

    async def _write(self, writes: Mapping[int, tuple[Tenure, Sequence[bytes]]], on_completion: OnCompletion) -> None:
        def completed(told: Mapping[int, UpstreamError | None]) -> None:
            for number, trouble in told.items():
                if isinstance(trouble, Fenced):
                    self._claiming.expect_others(number)
            on_completion(told)

        await send_in_turn(self._producer, writes, self._patience, completed)

    def may_tell(self, number: int) -> bool:
        """Whether nobody else can have written by now; where not, it may be after a :meth:`write`."""
        tenure = self._tenures.get(number)
        return tenure is not None and tenure.may_tell

    def may_tell_behind(self, number: int, decided_at: float) -> bool:
        """Whether what was decided then, of CLOCK_BOOTTIME, may be told once the write that is under way is
        acknowledged. False where none is."""
        tenure = self._tenures.get(number)
        return tenure is not None and tenure.may_tell_behind(decided_at)

    def idle(self, seconds: float) -> list[int]:
        """Partitions that are served, of which nothing was acknowledged for so long and nothing is under way."""
        return [number for number, its in self._tenures.items() if its.is_idle(seconds)]

    def producer(self, number: int) -> ProducerEpoch:
        """Under which a partition is owned. Raises UpstreamError for one that is not."""
        sequence = self._owned(number).sequence
        return ProducerEpoch(sequence.producer_id, sequence.epoch)

    def last_written(self, number: int) -> Produced | None:
        """The last batch of a partition that is served, up to which the log is what was read of it and written since.
        None where nothing was written, or somebody else has."""
        tenure = self._tenures.get(number)
        return tenure.last if tenure is not None and tenure.is_served else None

    def end(self, number: int) -> int:
        """Behind all of it that is known; 0 where it is not owned."""
        tenure = self._tenures.get(number)
        return tenure.end if tenure is not None and not tenure.is_over else 0

    async def release(self, numbers: Collection[int]) -> dict[int, UpstreamError]:
        """Whoever takes them over next need not wait, and whoever comes is expected. Gives those of which it is not
        known that it is written."""
        served = [number for number in numbers if (its := self._tenures.get(number)) is not None and its.is_served]
        # Of a write that was broken off nobody knows what is written, nor what its next number would be.
        under_way = {number for number in served if self._tenures[number].sequence.is_under_way}
        for number in numbers:
            self._claiming.expect_others(number)
            if number in self._tenures:
                self._tenures[number].release()  # before anybody can read that it is
        failed = {number: UpstreamError(f"{self._where(number)} is being written") for number in under_way}

        def completed(told: Mapping[int, UpstreamError | None]) -> None:
            failed.update((number, error) for number, error in told.items() if error is not None)

        try:
            owned, unwritable = self._writable(number for number in served if number not in under_way)
            await self._write(
                {number: (its, [self._claiming.batch(released=True)]) for number, its in owned.items()}, completed
            )
        finally:
            for number in numbers:
                self._ended(number)
        return failed | unwritable

    def close(self) -> None:
        for number in list(self._tenures):
            self._ended(number)
        self._ids.close()
        self._producer.close()

    # -- tenures

    def _owned(self, number: int) -> Tenure:
        """Raises UpstreamError for one that is not."""
        tenure = self._tenures.get(number)
        if tenure is None or tenure.is_over:
            raise UpstreamError(f"{self._where(number)} is not owned")
        return tenure

    def _still_owned(self, number: int) -> Tenure:
        """See :meth:`Tenure.check_owned`."""
        tenure = self._owned(number)
        tenure.check_owned(self.silent_seconds)
        return tenure

    def _ended(self, number: int) -> Tenure | None:
        tenure = self._tenures.pop(number, None)
        if tenure is not None:
            tenure.give_up()
        return tenure

    def _where(self, number: int) -> str:
        return str(TopicPartition(self._topic, number))
