"""The log that the history of commits is kept in, wherever that is, as it is read beside the commits that go on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

from protocol.records.batches import BatchError, Record, decode_records
from shim.log import LogError

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


def doubling(first: int, end: int, begin: Callable[[int], int] = lambda offset: offset) -> list[Part]:
    """The newest first, each twice as long as the one before it in this list. ``begin``: at or below an offset, where a
    part may begin."""
    parts = []
    size = _NEWEST_OFFSETS
    while first < end:
        parts.append(Part(max(first, begin(end - size)), end))
        end, size = parts[-1].first, 2 * size
    return parts
