"""The history of commits on the disk, as it is read beside the commits that go on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from protocol.own.history_log import HISTORY_TOPIC
from protocol.records.batches import BatchHeader
from shim.log import LogError, OffsetsLog
from shim.log.partition.partition import PartitionLog
from shim.runtime.history_log import HistoryBatch, NoHistory, Part, Take, doubling


class DiskHistoryLog:
    """One question after the other, in a thread of its own."""

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
