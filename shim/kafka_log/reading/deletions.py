"""What is deleted in a partition, read before all of it is.

Compaction removes a tombstone some time after what that deletes, or together with it: at a replica that was away when
others removed the one, and comes to both when the time of the other is over, which is in it (KIP-534). A reading that
goes by at that moment has a deleted offset, and never comes to what deletes it. Time tells nothing of that.

So the partition is read twice, at one leader, and the first time only for its tombstones. One that was there then is
known. One that had gone by then had taken with it what it deletes, so that the second reading does not come to that
either. And one that was written later is as young as the second reading is (copies/tombstones.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

from protocol.records.batches import BatchError, BatchHeader, tombstones
from shim.kafka_log.reading.read_part import NotWhole, ReadPart
from shim.log import LogError
from shim.upstream.topic_reader import Fetched

if TYPE_CHECKING:
    from shim.upstream.topic_leaders import Leader

_TIMES: Final = 5
"""It is begun, before whoever reads has to begin anew: each time another leader came, or another log."""


async def read_deletions(
    begin: Callable[[], AsyncGenerator[Fetched[bytes], None]], part: ReadPart, where: str, least_end: int = 0
) -> None:
    """``begin``: a reading of all of the partition; it is read to where that ends then, which is ``least_end`` or
    behind it. ``part``: nothing of it was read yet; it knows then. ``where``: the partition, in words.

    Raises NotWhole where it does not come to the end under one leader; LogError for what is no log; what readings
    raise.
    """
    for _ in range(_TIMES):
        async with aclosing(begin()) as reading:
            if await _are_known(reading, part, where, least_end):
                return
    raise NotWhole(f"{_TIMES} times another broker had come to lead {where} before its deletions were read")


async def _are_known(reading: AsyncGenerator[Fetched[bytes], None], part: ReadPart, where: str, least_end: int) -> bool:
    """False where another leader may have come, or the log is another one."""
    deleted: dict[bytes, int] = {}
    leader: Leader | None = None
    end = least_end
    async for read in reading:
        if leader is None:
            end = max(end, read.end_offset)
        elif not read.leader.has_led_since(leader):
            return False
        if read.is_reset:
            return False
        leader = read.leader
        try:
            await asyncio.to_thread(_add, deleted, read.batches)
        except BatchError as error:
            raise LogError(f"{where}: {error}") from error
        # Nothing but what compaction has left empty may stand before the end.
        is_all = not read.batches and read.high_watermark >= end
        if is_all or read.position.next_offset >= end:
            part.know_deleted(deleted, leader, read.position.topic_id)
            return True
    raise AssertionError("a partition is read for ever")


def _add(deleted: dict[bytes, int], batches: Sequence[tuple[BatchHeader, bytes]]) -> None:
    """The offset of the last one of each key."""
    for header, raw in batches:
        deleted.update((record.key, record.offset) for record in tombstones(raw, 0, header) if record.key is not None)
