"""Whether what this process has of a partition that comes to it counts: what was followed, and what a snapshot has."""

from __future__ import annotations

import asyncio
from typing import Final

from shim.boottime import boottime
from shim.kafka_log.copies.partition_copy import PartitionCopy
from shim.kafka_log.copies.tombstones import TOO_OLD, AgeNotKnown, Tombstones
from shim.kafka_log.owning.owned_topic import OwnedTopic

NOT_THERE: Final = "it is not what stands there any more"
"""Why it is not gone on with, where it is not too old."""

_QUESTIONS: Final = 5
_ASKED_AGAIN_SECONDS: Final = 1.0


class Doubts:
    """For the event loop."""

    def __init__(self, offsets: OwnedTopic, tombstones: Tombstones) -> None:
        self._offsets = offsets
        self._tombstones = tombstones

    async def why_not(self, number: int, copy: PartitionCopy) -> str | None:
        """Why the partition, which was taken over, is not gone on with from there; None where it is. Raises
        UpstreamError, and of its kinds AgeNotKnown where it is that which is not known."""
        if await self._is_too_old(copy):
            return TOO_OLD
        return None if await self._offsets.goes_on(number, copy.part) else NOT_THERE

    async def got_too_old(self, copy: PartitionCopy) -> bool:
        """While it was gone on with. As it is the last question, and nobody is served meanwhile, it is asked some
        times. Raises AgeNotKnown."""
        for _ in range(_QUESTIONS - 1):
            try:
                return await self._is_too_old(copy)
            except AgeNotKnown:
                await asyncio.sleep(_ASKED_AGAIN_SECONDS)  # brokers do not tell when they can tell it
        return await self._is_too_old(copy)

    async def _is_too_old(self, copy: PartitionCopy) -> bool:
        return await self._tombstones.may_be_gone(copy.up_to_date_at, boottime())
