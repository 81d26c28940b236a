"""Which partitions of the cluster's own `__consumer_offsets` are followed, and that they are: from there come the
offsets of transactions, and how these end (:mod:`shim.following.transactions.taking_over`).

One task for each pair of a partition here and one of the cluster's that has groups of it: with equal numbers of
partitions that is one for each partition in which there was ever a TxnOffsetCommit. See docs/decisions/0007.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, NamedTuple

from protocol.errors import ErrorCode
from protocol.own.position import Position
from protocol.partition import partition_for
from shim.coordinator import GroupCoordinator
from shim.following.transactions.taking_over import TakingOver
from shim.logged_once import LoggedOnce
from shim.runtime.runtime import Runtime
from shim.upstream.errors import UpstreamError
from shim.upstream.topic_leaders import TopicUnknown
from shim.upstream.topic_reader import TopicReader

log = logging.getLogger(__name__)

_PREPARED_AT_ONCE: Final = 2
_PASSED_WITHIN_S: Final = 5.0


def _where_it_ends(followed: int) -> str:
    return f"where __consumer_offsets-{followed} of the cluster ends cannot be found out"


class Pair(NamedTuple):
    """A partition here, and the one of the cluster's that it follows."""

    number: int
    followed: int


class TransactionFollower:
    """For the event loop. ``cluster_log`` reads the cluster's `__consumer_offsets`."""

    def __init__(self, runtime: Runtime, cluster_log: TopicReader) -> None:
        self._runtime = runtime
        self._cluster_log = cluster_log
        self._followed_count: int | None = None
        # How many commits of each partition were overdue when that was asked last.
        self._overdue: dict[int, int] = {}
        self._followed: dict[Pair, asyncio.Task[None]] = {}
        self._taking_over: dict[Pair, TakingOver] = {}
        # None: of how many partitions the cluster's topic has.
        self._preparing: dict[Pair | None, asyncio.Task[None]] = {}
        self._preparations = asyncio.Semaphore(_PREPARED_AT_ONCE)
        self._trouble = LoggedOnce(log)
        self._why_not = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        self._stopping = False
        runtime.watch(self._served)

    # -- which partitions are followed

    def ready(self, group_id: str) -> ErrorCode:
        """NONE when a transactional commit of the group that is sent to the cluster from now on will be read there.

        Otherwise an error that clients repeat the request at, here or elsewhere, and it will be soon.
        """
        number = self._runtime.partition_of(group_id)
        if error := self._runtime.why_not(number):
            return error
        self._look_for_overdue(number)
        pair = self._pair(group_id)
        if pair is not None and pair in self._followed:
            return ErrorCode.NONE
        if pair not in self._preparing and not self._stopping:
            task = asyncio.get_running_loop().create_task(self._prepare(group_id, pair))
            self._preparing[pair] = task
            task.add_done_callback(lambda _: self._preparing.pop(pair, None))
        return self._why_not

    async def end_of(self, group_id: str) -> Position | None:
        """Where what the cluster has of the group ends. None when it cannot be found out for now."""
        pair = self._pair(group_id)
        if pair is not None:
            try:
                end = await self._cluster_log.end_of(pair.followed)
            except UpstreamError as error:
                self._trouble.failed(_where_it_ends(pair.followed), error)
            else:
                self._trouble.went_well(_where_it_ends(pair.followed))
                return end
        return None

    async def passed_by(self, group_id: str) -> bool:
        """Wait until what the cluster's log has of the group by now has been read, and durably so: none of it is taken
        over any more, whatever is done with the group from here on. False where that cannot be found out in time."""
        number = self._runtime.partition_of(group_id)
        coordinator = self._runtime.coordinator(number)
        if coordinator is None:
            return False
        what = f"how far the cluster's log has been read for group {group_id} cannot be found out"
        if not coordinator.followed:
            self._trouble.went_well(what)
            return True
        try:
            async with asyncio.timeout(_PASSED_WITHIN_S):
                if self._followed_count is None:
                    self._followed_count = await self._cluster_log.partition_count()
                pair = Pair(number, partition_for(group_id, self._followed_count))
                if pair.followed not in coordinator.followed:
                    self._trouble.went_well(what)
                    return True
                end = await self._cluster_log.end_of(pair.followed)
                taking_over = self._taking_over.get(pair)
                if taking_over is None:
                    return False
                position = await taking_over.reached(end.next_offset)
        except UpstreamError as error:
            self._trouble.failed(what, error)
            return False
        except TimeoutError:
            self._trouble.failed(what, UpstreamError(f"its end of now is not reached in {_PASSED_WITHIN_S:g} s"))
            return False
        self._trouble.went_well(what)
        self._runtime.decide(number, lambda its, now: its.follow(now, position))
        await self._runtime.settled(number)
        return self._runtime.coordinator(number) is coordinator

    def _look_for_overdue(self, number: int) -> None:
        """Where something was not read in time, what is known of the cluster's topic may not be so any more."""
        coordinator = self._runtime.coordinator(number)
        if coordinator is not None and coordinator.overdue_commits != self._overdue.get(number, 0):
            self._overdue[number] = coordinator.overdue_commits
            self._followed_count = None

    def _pair(self, group_id: str) -> Pair | None:
        if self._followed_count is None:
            return None
        return Pair(self._runtime.partition_of(group_id), partition_for(group_id, self._followed_count))

    async def _prepare(self, group_id: str, pair: Pair | None) -> None:
        async with self._preparations:
            what = "how many partitions __consumer_offsets of the cluster has cannot be found out"
            try:
                if pair is None:
                    self._followed_count = await self._cluster_log.partition_count()
                    self._trouble.went_well(what)
                    self.ready(group_id)  # goes on with the group's own
                    return
                what = _where_it_ends(pair.followed)
                coordinator = self._runtime.coordinator(pair.number)
                if coordinator is None or pair in self._followed:
                    return
                # Before anything is sent there, and durable before anything is: a restart goes on from here at the
                # latest.
                end = await self._cluster_log.end_of(pair.followed)
                self._trouble.went_well(what)
                self._why_not = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            except TopicUnknown:
                self._why_not = ErrorCode.COORDINATOR_NOT_AVAILABLE  # at which clients look, and the cluster makes it
            except UpstreamError as error:
                self._why_not = ErrorCode.COORDINATOR_NOT_AVAILABLE
                self._trouble.failed(what, error)
            except Exception:
                log.exception("%s", what)
            else:
                await self._begin(pair, coordinator, end)

    async def _begin(self, pair: Pair, coordinator: GroupCoordinator, end: Position) -> None:
        number, followed = pair
        if followed not in coordinator.followed:
            self._runtime.decide(number, lambda its, now: its.follow(now, end))
            await self._runtime.settled(number)
        if self._runtime.coordinator(number) is coordinator and followed in coordinator.followed:
            self._follow(pair, coordinator)

    def _served(self, number: int, coordinator: GroupCoordinator | None) -> None:
        """The partition was read back, or is not served any more."""
        self._overdue.pop(number, None)
        for pair in [pair for pair in self._followed if pair.number == number]:
            self._followed.pop(pair).cancel()
            self._taking_over.pop(pair, None)
        if coordinator is not None:
            for followed in coordinator.followed:
                self._follow(Pair(number, followed), coordinator)

    def _follow(self, pair: Pair, coordinator: GroupCoordinator) -> None:
        if pair not in self._followed and not self._stopping:
            taking_over = self._taking_over[pair] = TakingOver(self._runtime, self._cluster_log, coordinator, *pair)
            self._followed[pair] = asyncio.get_running_loop().create_task(taking_over.run())

    # -- the end

    async def stop(self) -> None:
        self._stopping = True
        tasks = [*self._followed.values(), *self._preparing.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
