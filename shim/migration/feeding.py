"""What is committed here goes to where else it belongs: some times a second the coordinators say which groups have
changed, and these get their turns."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Final

from shim.counted import counted, some_of
from shim.migration.dual.dual_commit import DualCommit
from shim.migration.mirror.last_word import NO_TIME, say_last_word
from shim.migration.mirror.mirror import Mirror
from shim.runtime import Runtime

log = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 0.2


class Feeding:
    """For the event loop. ``dual_commit``: None where the shim runs without a ZooKeeper."""

    def __init__(self, runtime: Runtime, mirror: Mirror, dual_commit: DualCommit | None) -> None:
        self._runtime = runtime
        self._mirror = mirror
        self._dual_commit = dual_commit
        self._any_touched = False
        """Since :meth:`drain` has last begun to wait, whoever has handed it out."""

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            self._hand_out()

    def _hand_out(self) -> None:
        for number in range(self._runtime.num_partitions):
            coordinator = self._runtime.coordinator(number)
            touched = coordinator.take_touched() if coordinator is not None else ()
            self._any_touched = self._any_touched or bool(touched)
            self._mirror.touched(touched)
            if self._dual_commit is not None:
                for group in filter(self._dual_commit.keeps, touched):
                    self._dual_commit.outbox.touch(group)

    async def drain(self, seconds: float) -> None:
        """Bring there what has been committed by now, and what is meanwhile, in so many seconds at most, and
        tell whether the cluster has all."""
        try:
            async with asyncio.timeout(seconds):
                self._any_touched = True
                while self._any_touched:
                    for number in range(self._runtime.num_partitions):
                        await self._runtime.settled(number)
                    self._hand_out()
                    self._any_touched = False
                    outboxes = [] if self._dual_commit is None else [self._dual_commit.outbox.drained()]
                    await asyncio.gather(self._mirror.drained(), *outboxes)
                    self._hand_out()
        except TimeoutError:
            log.warning("other places for offsets are not up to date: not all could be written in %g s", seconds)
            self._hand_out()
        if self._mirror.is_on:
            say_last_word(self._runtime, self._mirror)
        if self._dual_commit is not None and (left := self._dual_commit.outbox.left()):
            _say_left_in_zookeeper(left)

    def close(self) -> None:
        self._mirror.close()
        if self._dual_commit is not None:
            self._dual_commit.outbox.close()


def _say_left_in_zookeeper(left: Mapping[str, Sequence[str]]) -> None:
    which = some_of([f"{some_of(sorted(groups))} ({why or NO_TIME})" for why, groups in left.items()])
    log.warning(
        "offsets in ZooKeeper may not be those of the log: %s: %s",
        counted(sum(map(len, left.values())), "group"),
        which,
    )
