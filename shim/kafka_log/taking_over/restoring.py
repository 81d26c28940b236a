"""A snapshot of a partition that comes to this process: gone on with, if the log is still the one that it is of."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import Executor
from functools import partial

from protocol.errors import DecodeError
from protocol.topic_partition import TopicPartition
from shim.kafka_log.copies.partition_copy import NewCopies, PartitionCopy
from shim.kafka_log.copies.snapshot_format import Kept
from shim.kafka_log.copies.snapshots import TopicSnapshots, on_disk
from shim.kafka_log.copies.tombstones import AgeNotKnown
from shim.kafka_log.owning.owned_topic import OwnedTopic
from shim.kafka_log.taking_over.doubts import NOT_THERE, Doubts
from shim.log import LogError
from shim.upstream import UpstreamError

log = logging.getLogger(__name__)


class Restoring:
    """For the event loop."""

    def __init__(
        self,
        snapshots: TopicSnapshots,
        topic: str,
        offsets: OwnedTopic,
        copies: NewCopies,
        doubts: Doubts,
        replayer: Executor,
    ) -> None:
        self._snapshots = snapshots
        self._topic = topic
        self._offsets = offsets
        self._copies = copies
        self._doubts = doubts
        self._replayer = replayer
        self._stopping = False

    async def restored(self, number: int) -> PartitionCopy | None:
        """What a snapshot says of a partition that is taken over now, if that is still what stands there."""
        kept = await on_disk(self._snapshots.newest, number, self._check_goes_on)
        if kept is None:
            return None
        copy = self._copies.of(number, kept.part)
        fence = self._offsets.fence(number)
        copy.up_to_date_at = min(fence.moment_of(kept.anchor.append_time_ms), kept.written_at)
        try:
            why_not = await self._restore(number, kept, copy)
        except AgeNotKnown as error:  # to read it from its beginning nobody need know that
            log.warning("%s: its snapshot is not used: %s", self._where(number), error)
            return None
        if why_not is not None:
            await on_disk(self._snapshots.refuse, kept, why_not)
            return None
        self._snapshots.gone_on_with(number, copy.up_to_date_at)
        return copy

    async def _restore(self, number: int, kept: Kept, copy: PartitionCopy) -> object:
        """A snapshot, if it counts: ``copy`` has it then. Gives why not, else None. Raises UpstreamError, AgeNotKnown
        among them."""
        fence = self._offsets.fence(number)
        if kept.anchor.append_time_ms > fence.append_time_ms:
            return "it is younger than the end of the log: the brokers' clocks tell nothing"
        if (why_not := await self._doubts.why_not(number, copy)) is not None:
            return why_not
        if not await self._snapshots.has(kept.anchor, fence.leader_epoch):
            return NOT_THERE
        restored = partial(kept.restore, copy.coordinator, self._copies.home(number), self._check_goes_on)
        try:
            await asyncio.get_running_loop().run_in_executor(self._replayer, restored)
        except (DecodeError, LogError) as error:
            return error
        except UpstreamError:
            raise
        except Exception as error:  # a mistake of ours, for which nobody is to be left without the partition
            log.exception("%s: its snapshot cannot be restored", self._where(number))
            return repr(error)
        return None

    def _check_goes_on(self) -> None:
        if self._stopping:
            raise UpstreamError("the shim stops")

    def _where(self, number: int) -> str:
        return str(TopicPartition(self._topic, number))

    def stop(self) -> None:
        """Snapshots that are being read are given up."""
        self._stopping = True
