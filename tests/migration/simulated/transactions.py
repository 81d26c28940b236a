"""Transactions of producers that commit an offset in them, as the cluster's log has them, which a shim follows."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

from protocol.offsets_log import OffsetCommitKey, OffsetCommitValue
from protocol.own.position import Position
from shim.coordinator import FollowedBatch, GroupCoordinator, Outcome, TransactionEnd
from shim.runtime import Runtime
from tests.migration.simulated.shim_process import TOPIC

_FOLLOWED: Final = 3
"""Which partition of the cluster's log."""


class Transactions:
    """Of partition 0, of one group, each of a producer of its own. ``are_followed``: a shim that has started has caught
    up."""

    def __init__(self, group: str) -> None:
        self._key = OffsetCommitKey(group, TOPIC, 0)
        self._log: list[FollowedBatch | TransactionEnd] = []
        self._open: list[int] = []
        """Producers, by their ids."""

    def followed_by(self, runtime: Runtime) -> None:
        """From its start on; one that was followed by before is no more."""
        self._runtime = runtime
        self.are_followed = asyncio.Event()
        runtime.watch(self._loaded)

    def _loaded(self, _: int, coordinator: GroupCoordinator | None) -> None:
        if coordinator is not None:
            asyncio.get_running_loop().call_soon(self._catch_up, self._runtime, coordinator)

    def _catch_up(self, runtime: Runtime, coordinator: GroupCoordinator) -> None:
        if runtime.coordinator(0) is coordinator:
            for each in self._log:
                self._follow(each)
            coordinator.caught_up(_FOLLOWED)
            self.are_followed.set()

    def _follow(self, read: FollowedBatch | TransactionEnd) -> None:
        self._runtime.decide(0, partial(_followed, read))

    async def begin(self, offset: int) -> None:
        """Done when the shim has it, if it does not fail."""
        producer = len(self._log)
        self._open.append(producer)
        records = [(self._key, OffsetCommitValue(offset))]
        self._put(FollowedBatch(producer, 0, self._next_position(), records))
        await self._runtime.settled(0)

    def end(self, *, committed: bool = True) -> None:
        """Of the last that was begun."""
        self._end(self._open.pop(), committed=committed)

    def abort_all(self) -> None:
        """Those that are open, as the cluster does when their time is over."""
        while self._open:
            self._end(self._open.pop(), committed=False)

    def _end(self, producer: int, *, committed: bool) -> None:
        self._put(TransactionEnd(producer, 0, self._next_position(), committed, coordinator_epoch=0))

    def _next_position(self) -> Position:
        return Position(_FOLLOWED, len(self._log) + 1)

    def _put(self, read: FollowedBatch | TransactionEnd) -> None:
        self._log.append(read)
        self._follow(read)


def _followed(read: FollowedBatch | TransactionEnd, coordinator: GroupCoordinator, now: int) -> Outcome:
    return coordinator.follow(now, read)
