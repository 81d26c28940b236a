"""Partitions of the log that come to this process: taken over, and read back. What is gone on with is what was followed
of one as a standby, or what a snapshot has of it, if the log is still the one that this is of; or nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from functools import partial
from typing import Final, NamedTuple, TypeVar, TypeVarTuple

from protocol.errors import DecodeError
from protocol.own.state_log import GroupChangeKey, GroupHandsValue
from protocol.own.topic_log import Owner, Place
from shim.apart import apart
from shim.config import Settings
from shim.coordinator import CoordinatorSettings, GroupCoordinator
from shim.kafka_log.copies.partition_copy import PartitionCopy
from shim.kafka_log.copies.replaying import TopicReplay
from shim.kafka_log.copies.snapshot_format import Kept
from shim.kafka_log.copies.snapshots import TopicSnapshots
from shim.kafka_log.copies.standbys import Standbys
from shim.kafka_log.copies.tombstones import RetentionNotTold, Tombstones
from shim.kafka_log.owning.lease import boottime
from shim.kafka_log.owning.owned_topic import Fenced, OwnedTopic
from shim.kafka_log.owning.read_part import ReadPart
from shim.kafka_log.topics.wanted import TopicsWanted
from shim.log import LogError, LoggedRecord
from shim.runtime.progress import Progress
from shim.runtime.replaying import Home
from shim.upstream import Cluster, UpstreamError
from shim.upstream.topic_reader import TopicReader

log = logging.getLogger(__name__)

DISK_SECONDS = 30.0
"""How long a snapshot is waited for; without it all is read."""

_AT_ONCE: Final = 64
_QUESTIONS: Final = 5
_ASKED_AGAIN_SECONDS: Final = 1.0

_Arguments = TypeVarTuple("_Arguments")
_Result = TypeVar("_Result")


class Found(NamedTuple):
    """What a partition has: a coordinator as it is loaded, where groups stood before, which place counts (None: nothing
    is said of that), and how many records were replayed; from which offset on, where a snapshot had what is before."""

    coordinator: GroupCoordinator
    changes: Mapping[GroupChangeKey, GroupHandsValue]
    place: Place | None
    replayed: int
    snapshot_offset: int = 0


class TakingOver:
    """For the event loop. ``standbys`` follow what others have."""

    def __init__(
        self,
        cluster: Cluster,
        settings: Settings,
        wanted: TopicsWanted,
        offsets: OwnedTopic,
        reader: TopicReader,
        retention_seconds: float,
        snapshots: TopicSnapshots | None,
        coordinator_settings: Callable[[], CoordinatorSettings],
        progress: Progress,
    ) -> None:
        """``retention_seconds``: `delete.retention.ms` of the topic, as it was found. ``coordinator_settings``: of
        those that are loaded from now on."""
        self._wanted = wanted
        self._offsets = offsets
        self._snapshots = snapshots
        self._coordinator_settings = coordinator_settings
        self._progress = progress
        self._under_way: dict[int, asyncio.Task[None]] = {}
        self._places = asyncio.Semaphore(_AT_ONCE)
        self._replayer = ThreadPoolExecutor(1, thread_name_prefix="log-replay")
        self._stopping = False
        self.tombstones = Tombstones(cluster, settings, wanted, retention_seconds)
        self.standbys = Standbys(reader, wanted.offsets, self._copy, self._replayer, self.tombstones)

    def expect(self, numbers: Collection[int]) -> None:
        """They are taken over at once, as each of the former owners' leases has to have ended."""
        for number in numbers:
            if number not in self._under_way:
                self.standbys.hold(number)
                self._under_way[number] = asyncio.create_task(self._take_over(number))

    async def _take_over(self, number: int) -> None:
        async with self._places:
            await self._offsets.take_over(number)

    async def give_up(self, number: int) -> None:
        """It may be released then."""
        if (taking := self._under_way.pop(number, None)) is not None:
            await asyncio.gather(taking, return_exceptions=True)
        self.standbys.drop(number)

    async def read_back(self, number: int, level: int = logging.INFO) -> Found:
        """What the partition has, which nobody else writes any more; this process may. ``level``: of the line that says
        so. Raises Fenced, UpstreamError, LogError."""
        with self.standbys.waiting():
            taking = self._under_way.pop(number, None)
            if taking is None:
                self.standbys.hold(number)
            try:
                await (taking or self._take_over(number))
            except Fenced:
                self.standbys.drop(number)
                raise
            followed = await self._followed(number)
            restored = None if followed is not None else await self._restored(number)
            gone_on_with = followed or restored
            copy = gone_on_with or self._copy(number)
            before, snapshot = copy.replayed, copy.part.position.next_offset if restored is not None else 0
            loop = asyncio.get_running_loop()
            async with aclosing(self._offsets.read(number, copy.part)) as reading:
                async for records in reading:
                    await loop.run_in_executor(self._replayer, copy.apply, records)
                    self._progress.replayed(len(records))
            if gone_on_with is not None and await self._got_too_old(copy):
                raise UpstreamError(f"{self._where(number)}: what it had got too old while it was gone on with")
        had = before if followed is not None else None
        self.standbys.took_over(number, copy.replayed - before, had, snapshot, level)
        return Found(copy.coordinator, copy.changes, copy.place, copy.replayed, snapshot)

    async def _got_too_old(self, copy: PartitionCopy) -> bool:
        """As it is the last question, and nobody is served meanwhile, it is asked some times. Raises UpstreamError."""
        for _ in range(_QUESTIONS - 1):
            try:
                return await self.tombstones.may_be_gone(copy.up_to_date_at, boottime())
            except UpstreamError:
                await asyncio.sleep(_ASKED_AGAIN_SECONDS)  # brokers do not tell when they can tell it
        return await self.tombstones.may_be_gone(copy.up_to_date_at, boottime())

    def _where(self, number: int) -> str:
        return f"{self._wanted.offsets}-{number}"

    def _home(self, number: int) -> Home:
        return Home(number, self._wanted.partitions, self._where(number))

    def _copy(self, number: int, part: ReadPart | None = None) -> PartitionCopy:
        """Of nothing yet, or of what ``part`` says was read, once that is restored."""
        place = self._where(number)

        def skipped(offset: int, type_: int) -> None:
            log.warning("%s offset %d: key type %d skipped", place, offset, type_)

        coordinator = GroupCoordinator(self._coordinator_settings())
        replay = TopicReplay(coordinator, self._home(number), _ignored, skipped)
        return PartitionCopy(coordinator, replay, part or ReadPart(self._wanted.offsets, number))

    async def _followed(self, number: int) -> PartitionCopy | None:
        """What was followed of a partition that is taken over now, if that is still what stands there."""
        copy = await self.standbys.taken(number)
        if copy is None:
            return None
        try:
            if await self.tombstones.may_be_gone(copy.up_to_date_at, boottime()):
                self.standbys.tell_of_age(number)
                return None
            if await self._offsets.goes_on(number, copy.part):
                return copy
        except RetentionNotTold as error:
            log.warning("%s: what was followed is not used: %s", self._where(number), error)
            return None
        except UpstreamError:
            self.standbys.give_back(number, copy)
            raise
        log.warning("%s: what was followed is not what stands there any more", self._where(number))
        return None

    async def _restored(self, number: int) -> PartitionCopy | None:
        """What a snapshot says of a partition that is taken over now, if that is still what stands there."""
        if self._snapshots is None:
            return None
        kept = await on_disk(self._snapshots.newest, number, self._check_goes_on)
        if kept is None:
            return None
        copy = self._copy(number, kept.part)
        fence = self._offsets.fence(number)
        copy.up_to_date_at = kept.anchor.appended_at(fence.append_time_ms, fence.sent_at)
        try:
            is_too_old = await self.tombstones.may_be_gone(copy.up_to_date_at, boottime())
        except UpstreamError as error:  # to read it from its beginning nobody need know that
            log.warning("%s: its snapshot is not used: %s", self._where(number), error)
            return None
        if is_too_old:
            doubt: object = "it is older than half of delete.retention.ms of the topic"
        else:
            doubt = await self._doubt(number, self._snapshots, kept, copy)
        if doubt is not None:
            await on_disk(self._snapshots.refuse, kept, doubt)
            return None
        self._snapshots.gone_on_with(number, copy.up_to_date_at)
        return copy

    async def _doubt(self, number: int, snapshots: TopicSnapshots, kept: Kept, copy: PartitionCopy) -> object:
        """Why a snapshot is not gone on with; None where it is, and ``copy`` has it then. Raises UpstreamError."""
        if kept.anchor.append_time_ms > self._offsets.fence(number).append_time_ms:
            return "it is younger than the end of the log: the brokers' clocks tell nothing"
        if not await self._offsets.goes_on(number, copy.part) or not await snapshots.has(kept.anchor):
            return "it is not what stands there any more"
        restored = partial(kept.restore, copy.coordinator, self._home(number), self._check_goes_on)
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

    # -- the end

    def stop(self) -> None:
        """Snapshots that are being read are given up."""
        self._stopping = True

    async def end(self) -> None:
        """Nothing is taken over or followed any more."""
        await self.standbys.close()
        for task in self._under_way.values():
            task.cancel()
        await asyncio.gather(*self._under_way.values(), return_exceptions=True)

    async def close(self, timeout_seconds: float) -> None:
        """Raises TimeoutError where the thread that replays does not end."""
        async with asyncio.timeout(timeout_seconds):
            await asyncio.get_running_loop().run_in_executor(self._replayer, _nothing)
        self._replayer.shutdown()


async def on_disk(call: Callable[[*_Arguments], _Result], *args: *_Arguments) -> _Result | None:
    """What it gives; None where the disk hangs, of which no partition is to wait for that long."""
    try:
        async with asyncio.timeout(DISK_SECONDS):
            return await apart(call, *args)
    except TimeoutError:
        log.warning("the disk with the snapshots has not answered within %g s: none is used", DISK_SECONDS)
        return None


def _ignored(_record: LoggedRecord, _owner: Owner) -> None:
    """Who has written before is looked at where the partition is taken over."""


def _nothing() -> None:
    """Behind all that the thread has had to do."""
