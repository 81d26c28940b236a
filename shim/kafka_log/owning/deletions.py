"""What is deleted in a partition, read before all of it is.

Compaction removes a tombstone some time after what that deletes, or together with it: at a replica that was away when
others removed the one, and comes to both when the time of the other is over, which is in it (KIP-534). A reading that
goes by at that moment has a deleted offset, and never comes to what deletes it. Time tells nothing of that.

So the partition is read twice, at one leader, and the first time only for its tombstones. One that was there then is
known. One that had gone by then had taken with it what it deletes, so that the second reading does not come to that
either. And one that was written later is as young as the second reading is (tombstones.py of copies).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

from protocol.records.batches import BatchError, BatchHeader, tombstones
from shim.kafka_log.owning.read_part import NotWhole, ReadPart
from shim.log import LogError
from shim.upstream.topic_reader import Fetched

if TYPE_CHECKING:
    from shim.upstream.topic_leaders import Leader


async def read_deletions(reading: AsyncGenerator[Fetched[bytes], None], part: ReadPart, where: str) -> None:
    """``reading``: all of the partition; it is read to where that ended when it began, and closed. ``part``: nothing
    of it was read yet; it knows then. ``where``: the partition, in words.

    Raises NotWhole where another leader may have come, or the log is another one; LogError for what is no log.
    """
    deleted: dict[bytes, int] = {}
    leader: Leader | None = None
    end = 0
    async with aclosing(reading):
        async for read in reading:
            if leader is None:
                end = read.end_offset
            elif not read.leader.has_led_since(leader):
                raise NotWhole(f"another broker has come to lead {where} while its deletions were read")
            if read.is_reset:
                raise NotWhole(f"{where} is not the log any more of which the deletions were read")
            leader = read.leader
            try:
                deleted |= await asyncio.to_thread(_deleted, read.batches)
            except BatchError as error:
                raise LogError(f"{where}: {error}") from error
            if not read.batches or read.position.next_offset >= end:
                part.know_deleted(deleted, leader)
                return


def _deleted(batches: Sequence[tuple[BatchHeader, bytes]]) -> dict[bytes, int]:
    """The offset of the last one of each key."""
    return {
        record.key: record.offset
        for header, raw in batches
        for record in tombstones(raw, 0, header)
        if record.key is not None
    }
