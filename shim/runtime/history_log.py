"""The log that the history of commits is kept in, as it is read beside the commits that go on; and that on the disk."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, Protocol, TypeAlias

from protocol.own.history_log import HISTORY_TOPIC
from protocol.records.batches import Record
from shim.log import LogError, OffsetsLog
from shim.log.partition import PartitionLog
from shim.log.segment import SoundBatch


class NoHistory(Exception):
    """None is kept."""


class Part(NamedTuple):
    """Of a partition: the offsets from ``first`` to below ``end``."""

    first: int
    end: int


class HistoryBatch(Protocol):
    """``records`` may have to be decoded each time, which raises LogError; ``raw`` is there, and not compressed."""

    @property
    def raw(self) -> bytes: ...

    @property
    def records(self) -> Sequence[Record]: ...


Take: TypeAlias = Callable[[Iterable[HistoryBatch]], object]
"""Is called in a thread, with one batch after the other."""


class HistoryLog(Protocol):
    """For the event loop. Everything raises NoHistory, LogError, OSError, UpstreamError; nobody waits for ever."""

    @property
    def num_partitions(self) -> int: ...

    async def end(self, number: int) -> int:
        """The offset behind all that is acknowledged."""

    async def parts(self, number: int, since: int = 0) -> Sequence[Part]:
        """What together has all that is acknowledged, from ``since`` on; the newest first, as large as it is good to
        read at once by who looks for something there. None of them is empty."""

    async def read(self, number: int, part: Part, take: Take) -> None:
        """Calls ``take`` with the batches that have these offsets, in order, until all of them were given; of several
        calls each goes on where the one before it ended. Given up when nobody waits any more."""

    def close(self) -> None:
        """What is being read is given up by whoever waits for it."""


class LocalHistoryLog:
    """On the disk. One question after the other, in a thread of its own."""

    def __init__(self, offsets_log: OffsetsLog) -> None:
        self._log = offsets_log
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="history")

    @property
    def num_partitions(self) -> int:
        return self._log.num_partitions

    async def end(self, number: int) -> int:
        return self._partition(number).log_end_offset

    async def parts(self, number: int, since: int = 0) -> Sequence[Part]:
        """Its segments."""
        partition = self._partition(number)
        closed = partition.closed_segments()
        # Behind the list: what is rolled meanwhile is in the first part.
        newest = Part(closed[-1].next_offset if closed else 0, partition.log_end_offset)
        segments = (Part(segment.base_offset, segment.next_offset) for segment in reversed(closed))
        wanted = (Part(max(since, first), end) for first, end in (newest, *segments))
        return [part for part in wanted if part.first < part.end]

    async def read(self, number: int, part: Part, take: Take) -> None:
        given_up = threading.Event()
        try:
            await asyncio.get_running_loop().run_in_executor(
                self._thread, lambda: take(_between(self._partition(number), part, given_up))
            )
        finally:
            given_up.set()

    def _partition(self, number: int) -> PartitionLog:
        try:
            return self._log.partition_log(number, topic=HISTORY_TOPIC)
        except ValueError as error:
            raise NoHistory from error

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)


def _between(partition: PartitionLog, part: Part, given_up: threading.Event) -> Iterator[SoundBatch]:
    for batch in partition.read(part.first):
        if given_up.is_set():
            raise LogError("nobody waits for it any more")
        if batch.header.base_offset >= part.end:
            return
        yield batch
