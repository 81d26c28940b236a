"""Takes over what is read in one partition of the cluster's `__consumer_offsets` into one partition here.

What is no transaction's, and what belongs to another partition here, is left out.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from protocol.errors import DecodeError
from protocol.offsets_log import OffsetCommitKey, OffsetCommitValue, decode_key, decode_value
from protocol.own.position import Position
from protocol.own.state_log import Hands
from protocol.records.batches import BatchHeader, ControlRecordType, Record, control_record_type, end_transaction_marker
from shim.coordinator import FollowedBatch, GroupCoordinator, LostTransaction, Reset, TransactionEnd
from shim.runtime.runtime import Runtime
from shim.upstream.topic_reader import Read, TopicReader

log = logging.getLogger(__name__)

_RETRY_S: Final = 1.0
"""Where something in the cluster's log cannot be understood."""

POSITION_EVERY: Final = 50_000
"""So many offsets of the cluster's, in which there was nothing of ours, are read again at most after a restart."""


class TakingOver:
    """From partition ``followed`` of the cluster's into partition ``number``, from where its coordinator has it on."""

    def __init__(
        self, runtime: Runtime, cluster_log: TopicReader, coordinator: GroupCoordinator, number: int, followed: int
    ) -> None:
        self._runtime = runtime
        self._cluster_log = cluster_log
        self._coordinator = coordinator
        self._number = number
        self._followed = followed
        self._position: Position | None = None
        self._read = asyncio.Event()

    async def run(self) -> None:
        """Until it is cancelled, which is when the partition has another coordinator, or none."""
        while True:
            try:
                async for read in self._cluster_log.read(self._coordinator.followed[self._followed]):
                    await self._take(read)
            except Exception:
                # What cannot be understood is not passed over: it may be the end of a transaction.
                log.exception("the cluster's __consumer_offsets-%d cannot be followed", self._followed)
            await asyncio.sleep(_RETRY_S)

    async def reached(self, offset: int) -> Position:
        """Wait until all up to there has been read; gives how far it has."""
        while (position := self._position) is None or position.next_offset < offset:
            self._read.clear()
            await self._read.wait()
        return position

    async def _take(self, read: Read) -> None:
        position = read.start
        if read.is_reset:
            for step in self._coordinator.steps_of_reset(position):
                if isinstance(step, LostTransaction):
                    log.error(
                        "the cluster's __consumer_offsets-%d has lost offsets in a transaction of producer %d: "
                        "they are not committed here either",
                        *step.producer,
                    )
                self._take_over(step)
        for header, records in read.batches:
            position = position.behind(header)
            if header.is_transactional and records:
                taken: FollowedBatch | TransactionEnd | None
                if header.is_control:
                    taken = _end(position, header, records[0])
                else:
                    taken = self._batch(position, header, records)
                if taken is not None:
                    self._take_over(taken)
        if position.next_offset - self._coordinator.followed[self._followed].next_offset >= POSITION_EVERY:
            self._take_over(position)
        # So that nothing piles up while the disk is slow.
        await self._runtime.settled(self._number)
        self._position = position
        self._read.set()
        if position.next_offset >= read.end_offset:
            self._coordinator.caught_up(self._followed)

    def _take_over(self, taken: FollowedBatch | TransactionEnd | LostTransaction | Reset | Position) -> None:
        self._runtime.decide(self._number, lambda coordinator, now: coordinator.follow(now, taken))

    def _batch(self, position: Position, header: BatchHeader, records: list[Record]) -> FollowedBatch | None:
        """None where there is nothing in it that is of this partition."""
        offsets = []
        for record in records:
            if record.key is None or record.value is None:
                continue
            key = decode_key(record.key)
            if not isinstance(key, OffsetCommitKey) or self._runtime.partition_of(key.group) != self._number:
                continue
            if self._coordinator.hands_of(key.group) is not Hands.SERVED:
                continue  # the cluster's own affair
            value = decode_value(key, record.value)
            if not isinstance(value, OffsetCommitValue):
                raise DecodeError("no offset", 0, "OffsetCommitValue")
            offsets.append((key, value))
        if not offsets:
            return None
        return FollowedBatch(header.producer_id, header.producer_epoch, position, offsets)


def _end(position: Position, header: BatchHeader, record: Record) -> TransactionEnd | None:
    """None for a control record of another kind."""
    if control_record_type(record) not in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
        return None
    marker = end_transaction_marker(record)
    return TransactionEnd(
        header.producer_id,
        header.producer_epoch,
        position,
        marker.type is ControlRecordType.COMMIT,
        marker.coordinator_epoch,
    )
