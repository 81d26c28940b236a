"""Takes over, from the cluster's own `__consumer_offsets`, the offsets of transactions and how these ended.

One task for each pair of a partition here and one of the cluster's that has groups of it: with equal numbers of
partitions that is one for each partition in which there was ever a TxnOffsetCommit. See docs/decisions/0007.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from typing import Final, NamedTuple, Protocol

from protocol.errors import DecodeError, ErrorCode
from protocol.offsets_log import OffsetCommitKey, OffsetCommitValue, decode_key, decode_value
from protocol.own.position import Position
from protocol.partition import partition_for
from protocol.records.batches import BatchHeader, ControlRecordType, Record, control_record_type, end_transaction_marker
from shim.coordinator import FollowedBatch, GroupCoordinator, LostTransaction, Reset, TransactionEnd
from shim.runtime.runtime import Runtime

log = logging.getLogger(__name__)

POSITION_EVERY: Final = 50_000
"""So many offsets of the cluster's, in which there was nothing of ours, are read again at most after a restart."""

_RETRY_S: Final = 1.0
_PREPARED_AT_ONCE: Final = 2


class Read(Protocol):
    """What one fetch has brought, from ``start`` on.

    ``is_reset``: the cluster's log is the one that was read before up to ``start`` only. ``end_offset``: where it ended
    at some time since the reading began.
    """

    @property
    def start(self) -> Position: ...

    @property
    def batches(self) -> Sequence[tuple[BatchHeader, list[Record]]]: ...

    @property
    def end_offset(self) -> int: ...

    @property
    def is_reset(self) -> bool: ...


class ClusterLog(Protocol):
    """The cluster's `__consumer_offsets`. All but ``read`` raise what ``unreachable`` is."""

    async def partition_count(self) -> int: ...

    async def end_of(self, partition: int) -> Position: ...

    def read(self, position: Position) -> AsyncIterator[Read]:
        """The first one comes at once, also where there is nothing to be read."""
        ...


class Pair(NamedTuple):
    """A partition here, and the one of the cluster's that it follows."""

    number: int
    followed: int


class Following:
    """For the event loop."""

    def __init__(
        self,
        runtime: Runtime,
        cluster_log: ClusterLog,
        timeout_seconds: float,
        *,
        unreachable: type[Exception],
        not_there: type[Exception],
    ) -> None:
        """``timeout_seconds``: how long a commit that the cluster has taken may wait until it is read there.
        ``not_there``: what the cluster log raises while the cluster has none yet; it is an ``unreachable``, too.
        """
        self.timeout_seconds = timeout_seconds
        self._runtime = runtime
        self._cluster_log = cluster_log
        self._unreachable = unreachable
        self._not_there = not_there
        self._count: int | None = None
        self._tasks: dict[Pair, asyncio.Task[None]] = {}
        self._ready: set[Pair] = set()
        # None: of how many partitions the cluster's topic has.
        self._preparing: dict[Pair | None, asyncio.Task[None]] = {}
        self._preparations = asyncio.Semaphore(_PREPARED_AT_ONCE)
        self._told: str | None = None
        self._why_not = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        self._stopping = False
        runtime.watch(self._served)

    # -- which partitions are followed

    def ready(self, group_id: str) -> ErrorCode:
        """NONE when a transactional commit of the group that is sent to the cluster from now on will be read there.

        Otherwise an error that clients repeat the request at, and it will be soon.
        """
        pair = self._pair(group_id)
        if pair is not None and pair in self._ready:
            return ErrorCode.NONE
        if pair not in self._preparing and not self._stopping:
            task = asyncio.get_running_loop().create_task(self._prepare(group_id, pair))
            self._preparing[pair] = task
            task.add_done_callback(lambda _: self._preparing.pop(pair, None))
        return self._why_not

    def doubt(self) -> None:
        """Something was not read in time: what is known of the cluster's topic may not be so any more."""
        self._count = None

    async def end_of(self, group_id: str) -> Position | None:
        """Where what the cluster has of the group ends. None when it cannot be found out for now."""
        pair = self._pair(group_id)
        if pair is not None:
            try:
                return await self._cluster_log.end_of(pair.followed)
            except self._unreachable as error:
                self._tell(f"where __consumer_offsets-{pair.followed} of the cluster ends", error)
        return None

    def _pair(self, group_id: str) -> Pair | None:
        if self._count is None:
            return None
        return Pair(self._runtime.partition_of(group_id), partition_for(group_id, self._count))

    async def _prepare(self, group_id: str, pair: Pair | None) -> None:
        async with self._preparations:
            what = "how many partitions __consumer_offsets of the cluster has"
            try:
                if pair is None:
                    self._count = await self._cluster_log.partition_count()
                    self._told = None
                    self.ready(group_id)  # goes on with the group's own
                    return
                what = f"where __consumer_offsets-{pair.followed} of the cluster ends"
                coordinator = self._runtime.coordinator(pair.number)
                if coordinator is None or pair in self._ready:
                    return
                # Before anything is sent there, and durable before anything is: a restart goes on from here at the
                # latest.
                end = await self._cluster_log.end_of(pair.followed)
                self._why_not, self._told = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, None
            except self._not_there:
                self._why_not = ErrorCode.COORDINATOR_NOT_AVAILABLE  # at which clients look, and the cluster makes it
            except self._unreachable as error:
                self._why_not = ErrorCode.COORDINATOR_NOT_AVAILABLE
                self._tell(what, error)
            except Exception:
                log.exception("%s cannot be found out", what)
            else:
                await self._begin(pair, coordinator, end)

    def _tell(self, what: str, error: Exception) -> None:
        """Once, however many ask."""
        if str(error) != self._told:
            self._told = str(error)
            log.warning("%s cannot be found out for now: %s", what, error)

    async def _begin(self, pair: Pair, coordinator: GroupCoordinator, end: Position) -> None:
        number, followed = pair
        if followed not in coordinator.followed:
            self._runtime.decide(number, lambda its, now: its.follow(now, end))
            await self._runtime.landed(number)
        if self._runtime.coordinator(number) is coordinator and followed in coordinator.followed:
            self._follow(pair, coordinator)

    def _served(self, number: int, coordinator: GroupCoordinator | None) -> None:
        """The partition was read back, or is not served any more."""
        for pair in [pair for pair in self._tasks if pair.number == number]:
            self._tasks.pop(pair).cancel()
        self._ready = {pair for pair in self._ready if pair.number != number}
        if coordinator is not None:
            for followed in coordinator.followed:
                self._follow(Pair(number, followed), coordinator)

    def _follow(self, pair: Pair, coordinator: GroupCoordinator) -> None:
        self._ready.add(pair)
        if pair not in self._tasks and not self._stopping:
            self._tasks[pair] = asyncio.get_running_loop().create_task(self._run(pair, coordinator))

    # -- reading

    async def _run(self, pair: Pair, coordinator: GroupCoordinator) -> None:
        """Until it is cancelled, which is when the partition has another coordinator, or none."""
        while True:
            try:
                async for read in self._cluster_log.read(coordinator.followed[pair.followed]):
                    await self._take(pair, coordinator, read)
            except Exception:
                # What cannot be understood is not passed over: it may be the end of a transaction.
                log.exception("the cluster's __consumer_offsets-%d cannot be followed", pair.followed)
            await asyncio.sleep(_RETRY_S)

    async def _take(self, pair: Pair, coordinator: GroupCoordinator, read: Read) -> None:
        number, position = pair.number, read.start
        if read.is_reset:
            for step in coordinator.steps_of_reset(position):
                if isinstance(step, LostTransaction):
                    log.error(
                        "the cluster's __consumer_offsets-%d has lost offsets in a transaction of producer %d: "
                        "they are not committed here either",
                        *step.producer,
                    )
                self._take_over(number, step)
        for header, records in read.batches:
            position = position.behind(header)
            if header.is_transactional and records:
                taken = (
                    _end(position, header, records[0])
                    if header.is_control
                    else self._batch(number, position, header, records)
                )
                if taken is not None:
                    self._take_over(number, taken)
        if position.next_offset - coordinator.followed[pair.followed].next_offset >= POSITION_EVERY:
            self._take_over(number, position)
        # So that nothing piles up while the disk is slow.
        await self._runtime.landed(number)
        if position.next_offset >= read.end_offset:
            coordinator.caught_up(pair.followed)

    def _take_over(
        self, number: int, taken: FollowedBatch | TransactionEnd | LostTransaction | Reset | Position
    ) -> None:
        self._runtime.decide(number, lambda coordinator, now: coordinator.follow(now, taken))

    def _batch(
        self, number: int, position: Position, header: BatchHeader, records: list[Record]
    ) -> FollowedBatch | None:
        offsets = []
        for record in records:
            if record.key is None or record.value is None:
                continue
            key = decode_key(record.key)
            if not isinstance(key, OffsetCommitKey) or self._runtime.partition_of(key.group) != number:
                continue
            value = decode_value(key, record.value)
            if not isinstance(value, OffsetCommitValue):
                raise DecodeError("no offset", 0, "OffsetCommitValue")
            offsets.append((key, value))
        if not offsets:
            return None
        return FollowedBatch(header.producer_id, header.producer_epoch, position, offsets)

    # -- the end

    async def stop(self) -> None:
        self._stopping = True
        tasks = [*self._tasks.values(), *self._preparing.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _end(position: Position, header: BatchHeader, record: Record) -> TransactionEnd | None:
    """None for a control record of another kind."""
    if control_record_type(record) not in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
        return None
    marker = end_transaction_marker(record)
    return TransactionEnd(
        header.producer_id,
        header.producer_epoch,
        position,
        marker.type is ControlRecordType.COMMIT,
        marker.coordinator_epoch,
    )
