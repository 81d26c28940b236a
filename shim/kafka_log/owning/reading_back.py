"""A partition that was taken over, read to where its former owners end, while it stays this process's."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterable
from concurrent.futures import Executor
from contextlib import aclosing
from typing import Final

from protocol.own.record_sets import LoggedRecord
from protocol.records.batches import BatchHeader
from shim.kafka_log.lease import waiting_seconds
from shim.kafka_log.owning.claiming import LAST_EPOCH, Claiming
from shim.kafka_log.owning.tenure import Tenure
from shim.kafka_log.reading.deletions import read_deletions
from shim.kafka_log.reading.patient_reading import read_patiently
from shim.kafka_log.reading.read_part import ReadPart
from shim.upstream.errors import UpstreamError
from shim.upstream.topic_reader import Fetched, TopicReader

log = logging.getLogger(__name__)

_CLAIMED_AGAIN_AT: Final = 0.5
"""Of the time for which an owner may be silent, while a partition is read that is not written yet."""


class ReadingBack:
    """Of one tenure, once."""

    def __init__(
        self,
        reader: TopicReader,
        claiming: Claiming,
        tenure: Tenure,
        part: ReadPart,
        *,
        patience_seconds: float,
        silent_seconds: Callable[[], float],
    ) -> None:
        """``part``: what was read before; only what is behind it is read. ``patience_seconds``: how long is waited for
        more. ``silent_seconds``: see :class:`OwnedTopic`."""
        self._reader = reader
        self._claiming = claiming
        self._tenure = tenure
        self._part = part
        self._patience = patience_seconds
        self._silent = silent_seconds

    async def run(
        self, replay: Callable[[list[LoggedRecord]], object], replayer: Executor | None
    ) -> AsyncGenerator[int, None]:
        """To the fence, and behind those of others; then it waits for the leases of the owners before. See
        :meth:`OwnedTopic.read`."""
        tenure, part = self._tenure, self._part
        own, fence = tenure.sequence, tenure.fence.base_offset
        if not part.position.next_offset and fence:
            await read_deletions(self._batches, part, tenure.where, fence + 1)
        async with aclosing(self._batches()) as batches:
            async for read in batches:
                part.fetched(read.start, read.leader)
                before = part.records
                if read.start.next_offset <= tenure.claim.base_offset < read.position.next_offset:
                    self._check_claim(read.batches)
                await asyncio.get_running_loop().run_in_executor(replayer, part.take_all, read.batches, replay, fence)
                yield part.records - before
                if part.position.next_offset <= tenure.claim.base_offset:
                    continue
                others = [
                    producer_id
                    for producer_id, epoch in part.epochs.items()
                    if producer_id != own.producer_id and epoch < LAST_EPOCH
                ]
                if not others or tenure.has_fenced_others:
                    break
                await self._claiming.fence_others(tenure, others)
        tenure.read_to(part.position.next_offset)
        claims = part.claims(self._claiming.owner.incarnation)
        seconds = waiting_seconds(claims, served_last_claim=tenure.served_last_claim)
        # One more millisecond: a timer of the loop may fire a fraction early.
        await asyncio.sleep(max(0.0, seconds - tenure.since_fence + 0.001))
        last = part.last_owner
        log.debug(
            "%s: read to offset %d, after %s; owners before it were waited for %.2f s",
            *(tenure.where, tenure.end, last.name if last is not None else "nobody", seconds),
        )

    async def _batches(self) -> AsyncGenerator[Fetched[bytes], None]:
        """Behind what was read, for ever, as leaders tell that came no earlier than who has told that, and has written
        the fence. It stays this process's meanwhile: a claim is written now and then. Raises UpstreamError, Fenced
        among them, also where nothing comes any more."""
        tenure, position = self._tenure, self._part.position
        raw = self._reader.read_raw(position, max(self._part.leader_epoch, tenure.fence.leader_epoch))
        async with aclosing(read_patiently(raw, position, self._patience, tenure.where)) as reading:
            async for read in reading:
                yield read
                tenure.check_owned(self._silent())
                if tenure.silent_for > self._silent() * _CLAIMED_AGAIN_AT:
                    await self._claiming.again(tenure)

    def _check_claim(self, batches: Iterable[tuple[BatchHeader, bytes]]) -> None:
        """That what says last that it is this process's stands where it was written: compaction leaves the last batch
        of a producer, if not its record."""
        offset, own = self._tenure.claim.base_offset, self._tenure.sequence
        there = [header for header, _ in batches if header.base_offset <= offset <= header.last_offset]
        if [(each.producer_id, each.producer_epoch) for each in there] != [(own.producer_id, own.epoch)]:
            raise UpstreamError(f"{self._tenure.where}: what was written at {offset} is not there")
