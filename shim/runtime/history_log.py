"""The log that the history of commits is kept in, as it is read beside the commits that go on; and that on the disk."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple, Protocol, TypeAlias

from protocol.own.history_log import HISTORY_TOPIC
from protocol.records.batches import BatchError, BatchHeader, Record, decode_records
from shim.log import LogError, OffsetsLog
from shim.log.partition.partition import PartitionLog

_NEWEST_OFFSETS: Final = 256
"""Of the newest part. Less than a fetch, or a few reads of the disk, where commits are of 100 partitions each."""


class NoHistory(Exception):
    """None is kept."""


class Part(NamedTuple):
    """Of a partition: the offsets from ``first`` to below ``end``."""

    first: int
    end: int


class HistoryBatch(NamedTuple):
    """``where``: in words. ``raw`` is not compressed; most batches have nothing of what is looked for, so ``records``
    are decoded when they are asked for, each time, which raises LogError."""

    where: str
    raw: bytes

    @property
    def records(self) -> list[Record]:
        try:
            return decode_records(self.raw)
        except BatchError as error:
            raise LogError(f"{self.where}: {error}") from error


Take: TypeAlias = Callable[[Iterable[HistoryBatch]], object]
"""Is called in a thread, with one batch after the other."""


class HistoryLog(Protocol):
    """For the event loop. Everything raises NoHistory, LogError, OSError, UpstreamError; nobody waits for ever."""

    @property
    def num_partitions(self) -> int: ...

    async def end(self, number: int) -> int:
        """The offset behind all that is acknowledged."""

    async def parts(self, number: int, since: int = 0) -> Sequence[Part]:
        """What together has all that is acknowledged, from ``since`` on, each offset once: the newest first, which is
        short, and longer ones behind, so that who finds what he looks for has read about twice as far back as that is,
        and who finds nothing has begun few times. A batch that has offsets of two of them comes with both."""

    async def read(self, number: int, part: Part, take: Take) -> None:
        """Calls ``take`` with the batches that have these offsets, in order, until all of them were given; of several
        calls each goes on where the one before it ended. Given up when nobody waits any more."""

    def close(self) -> None:
        """What is being read is given up by whoever waits for it."""


class LocalHistoryLog:
    """On the disk. One question after the other, in a thread of its own."""

    def __init__(self, offsets_log: OffsetsLog, settle: Callable[[int], Awaitable[None]]) -> None:
        """``settle``: has what waits of the partition's history written, by the thread that writes. Raises LogError,
        OSError, and ValueError where there is none."""
        self.num_partitions = offsets_log.num_partitions
        self._log = offsets_log
        self._settle = settle
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="history")

    async def end(self, number: int) -> int:
        return (await self._settled(number)).log_end_offset

    async def parts(self, number: int, since: int = 0) -> Sequence[Part]:
        partition = await self._settled(number)
        return doubling(since, partition.log_end_offset, partition.seekable)

    async def read(self, number: int, part: Part, take: Take) -> None:
        given_up = threading.Event()
        try:
            await asyncio.get_running_loop().run_in_executor(
                self._thread, lambda: take(_between(self._partition(number), part, given_up))
            )
        finally:
            given_up.set()

    async def _settled(self, number: int) -> PartitionLog:
        partition = self._partition(number)
        await self._settle(number)
        return partition

    def _partition(self, number: int) -> PartitionLog:
        try:
            return self._log.partition_log(number, topic=HISTORY_TOPIC)
        except ValueError as error:
            raise NoHistory from error

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)


def doubling(first: int, end: int, begin: Callable[[int], int] = lambda offset: offset) -> list[Part]:
    """The newest first, each twice as long as the one before it in this list. ``begin``: at or below an offset, where a
    part may begin."""
    parts = []
    size = _NEWEST_OFFSETS
    while first < end:
        parts.append(Part(max(first, begin(end - size)), end))
        end, size = parts[-1].first, 2 * size
    return parts


def _between(partition: PartitionLog, part: Part, given_up: threading.Event) -> Iterator[HistoryBatch]:
    for batch in partition.read(part.first, unread=_is_plain):
        if given_up.is_set():
            raise LogError("nobody waits for it any more")
        header = batch.header
        if header.base_offset >= part.end:
            return
        yield HistoryBatch(f"{partition.topic_partition} offset {header.base_offset}", batch.raw)
        if header.next_offset >= part.end:
            return


def _is_plain(header: BatchHeader) -> bool:
    """Others are damage in this log: reading their records says so."""
    return not header.compression
