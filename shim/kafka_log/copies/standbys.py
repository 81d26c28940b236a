"""Partitions that other shims own, each followed up to the high watermark and replayed into a coordinator that nobody
asks, so that taking one over is the fence and what lies between.

What was followed counts only where it is what a reading from the beginning would make. So it is thrown away where the
log is not the one that was read any more (another topic, an end that was lost, as leader epochs tell), and where it was
not read to its end for so long that tombstones may be gone that were not read (tombstones.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from concurrent.futures import Executor
from contextlib import aclosing
from typing import Final

from protocol.own.position import Position
from protocol.records.batches import BatchHeader
from protocol.topic_partition import TopicPartition
from shim.boottime import boottime
from shim.counted import counted
from shim.kafka_log.copies.partition_copy import PartitionCopy
from shim.kafka_log.copies.tombstones import TOO_OLD, Tombstones
from shim.kafka_log.reading.deletions import read_deletions
from shim.kafka_log.reading.read_part import NotWhole
from shim.log import LogError
from shim.logged_once import LoggedOnce
from shim.upstream import UpstreamError
from shim.upstream.topic_reader import Fetched, TopicReader

log = logging.getLogger(__name__)

RETRY_SECONDS: Final = 5.0

_NOT_KNOWN: Final = "it is not known whether what is followed of {} is too old"


def tell_not_used(where: str, why: object) -> None:
    """What was followed of the partition is not gone on with: by whoever follows it, or takes it over."""
    log.warning("%s: what was followed is not used: %s", where, why)


class _Standby:
    """Of one partition. ``task``: reads, and None once no more is to be read."""

    def __init__(self, copy: PartitionCopy) -> None:
        self.copy = copy
        self.is_at_end = False
        self.task: asyncio.Task[None] | None = None
        self.replaying: asyncio.Future[None] | None = None


class Standbys:
    """For the event loop."""

    def __init__(
        self,
        reader: TopicReader,
        topic: str,
        new_copy: Callable[[int], PartitionCopy],
        replayer: Executor,
        tombstones: Tombstones,
        nothing_loads: asyncio.Event,
    ) -> None:
        """``replayer``: of one thread. ``nothing_loads``: nobody is waited for, so that there is time for this."""
        self._reader = reader
        self._topic = topic
        self._new_copy = new_copy
        self._replayer = replayer
        self._tombstones = tombstones
        self._trouble = LoggedOnce(log)
        self._standbys: dict[int, _Standby] = {}
        self._nothing_loads = nothing_loads
        # What is far from its end takes all the time there is, so one after the other is.
        self._far_behind = asyncio.Semaphore(1)

    @property
    def at_end(self) -> int:
        """How many are followed, and read to their end."""
        return sum(its.is_at_end for its in self._standbys.values() if its.task is not None)

    @property
    def behind(self) -> int:
        """How many are followed, and not read to their end yet."""
        return sum(its.task is not None for its in self._standbys.values()) - self.at_end

    def follow(self, numbers: Collection[int]) -> None:
        """These, and no others; but what :meth:`hold` holds of others stays."""
        for number, its in list(self._standbys.items()):
            if its.task is not None and number not in numbers:
                self._end(number)
        for number in sorted(numbers):
            before = self._standbys.get(number)
            if before is None or before.task is None:
                its = self._standbys[number] = _Standby(self._new_copy(number))
                its.task = asyncio.get_running_loop().create_task(self._follow(number, its))

    def hold(self, number: int) -> None:
        """Read no more of it: it is about to be taken over, and what comes then is not to be mistaken for what others
        have written."""
        its = self._standbys.get(number)
        if its is not None and its.task is not None:
            its.task.cancel()
            its.task = None
            self._trouble.forget(_NOT_KNOWN.format(self._where(number)))

    async def taken(self, number: int) -> PartitionCopy | None:
        """What was replayed of a partition up to :meth:`hold`, for whoever has taken it over; it is not kept here. None
        where there is none, or it is not whole. How old it is, its `up_to_date_at` tells."""
        its = self._standbys.get(number)
        if its is None or its.task is not None:
            return None
        del self._standbys[number]
        if its.replaying is not None:
            await asyncio.gather(its.replaying, return_exceptions=True)
        copy = its.copy
        if not copy.is_whole or not copy.part.position.next_offset:
            return None
        return copy

    def give_back(self, number: int, copy: PartitionCopy) -> None:
        """It was not gone on with, and may be another time."""
        self._standbys.setdefault(number, _Standby(copy))

    def drop(self, number: int) -> None:
        """It is somebody else's after all."""
        its = self._standbys.get(number)
        if its is not None and its.task is None:
            del self._standbys[number]

    def _end(self, number: int) -> None:
        self.hold(number)
        del self._standbys[number]

    async def close(self) -> None:
        tasks = [its.task for its in self._standbys.values() if its.task is not None]
        for number in list(self._standbys):
            self._end(number)
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- following

    async def _follow(self, number: int, its: _Standby) -> None:
        try:
            while True:
                try:
                    await self._follow_one(number, its)
                except NotWhole as error:
                    if its.copy.part.records:
                        tell_not_used(self._where(number), error)
                    else:
                        log.info("%s: its reading begins again: %s", self._where(number), error)
                    await asyncio.sleep(RETRY_SECONDS)  # nobody tells when leaders come and go no more
                except LogError:
                    raise
                except Exception:  # a mistake of ours: it is not to be without a standby for good
                    log.exception("%s: its reading begins again", self._where(number))
                    await asyncio.sleep(RETRY_SECONDS)
                its.replaying = None
                its.copy = self._new_copy(number)
        except LogError as error:  # whoever owns it has to see to that
            log.warning("%s; %s is not followed", error, self._where(number))
        if self._standbys.get(number) is its:
            del self._standbys[number]

    async def _follow_one(self, number: int, its: _Standby) -> None:
        """Until its copy is of no use any more. Raises NotWhole, where that is why; LogError."""
        async with self._far_behind:
            its.copy.up_to_date_at = boottime()  # it has waited for its turn
            part = its.copy.part
            await read_deletions(lambda: self._when_nothing_loads(part.position), part, self._where(number))
            reached_at = await self._first_end(number, its)
        if reached_at is not None and await self._is_up_to_date(number, its.copy, reached_at):
            its.is_at_end = True
            log.debug(
                "%s: followed to offset %d, %s",
                *(self._where(number), its.copy.part.position.next_offset),
                counted(its.copy.part.records, "record"),
            )
            try:
                await self._go_on(number, its)
            finally:
                its.is_at_end = False

    async def _first_end(self, number: int, its: _Standby) -> float | None:
        """See :meth:`_ends`; None where there was none."""
        async with aclosing(self._ends(number, its)) as ends:
            async for reached_at in ends:
                return reached_at
        return None

    async def _go_on(self, number: int, its: _Standby) -> None:
        """Until what was read is of no use any more."""
        async with aclosing(self._ends(number, its)) as ends:
            async for reached_at in ends:
                if not await self._is_up_to_date(number, its.copy, reached_at):
                    return

    async def _ends(self, number: int, its: _Standby) -> AsyncGenerator[float, None]:
        """Read on, and give each time, of CLOCK_BOOTTIME, at which was asked for what had the end in it. It is over
        when what was read is of no use any more."""
        copy = its.copy
        asked_at = boottime()
        async with aclosing(self._when_nothing_loads(copy.part.position)) as reading:
            async for read in reading:
                if read.is_reset:
                    return  # the reader has said why
                copy.part.fetched(read.start, read.leader)
                if read.batches:
                    await self._replay(its, read.batches)
                copy.part.forget_claims()
                if copy.part.position.next_offset >= read.high_watermark:
                    copy.part.at_end()
                    yield asked_at
                asked_at = boottime()

    async def _when_nothing_loads(self, position: Position) -> AsyncGenerator[Fetched[bytes], None]:
        async with aclosing(self._reader.read_raw(position)) as reading:
            async for read in reading:
                await self._nothing_loads.wait()
                yield read

    async def _is_up_to_date(self, number: int, copy: PartitionCopy, reached_at: float) -> bool:
        """Whether it has the end as of then, and no tombstone can have been gone by then that it has not read. Asked
        until that is known."""
        what = _NOT_KNOWN.format(self._where(number))
        while True:
            try:
                gone = await self._tombstones.may_be_gone(copy.up_to_date_at, reached_at)
            except UpstreamError as error:
                self._trouble.failed(what, error)
                await asyncio.sleep(RETRY_SECONDS)  # brokers do not tell when they can tell it
                continue
            self._trouble.went_well(what)
            if gone:
                tell_not_used(self._where(number), TOO_OLD)
            else:
                copy.up_to_date_at = reached_at
            return not gone

    async def _replay(self, its: _Standby, batches: Sequence[tuple[BatchHeader, bytes]]) -> None:
        its.replaying = asyncio.get_running_loop().run_in_executor(self._replayer, its.copy.take, batches)
        # The thread goes on where this is cancelled: whoever takes the copy waits for it.
        await asyncio.shield(its.replaying)
        its.replaying = None

    def _where(self, number: int) -> str:
        return str(TopicPartition(self._topic, number))
