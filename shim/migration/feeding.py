"""What is committed here goes to where else it belongs: some times a second the coordinators say which groups have
changed, and these get their turns."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from shim.migration.dual.dual_commit import DualCommit
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

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            self._hand_out()

    def _hand_out(self) -> bool:
        """Whether there was anything."""
        any_touched = False
        for number in range(self._runtime.num_partitions):
            coordinator = self._runtime.coordinator(number)
            touched = coordinator.take_touched() if coordinator is not None else ()
            any_touched = any_touched or bool(touched)
            self._mirror.touched(touched)
            if self._dual_commit is not None:
                for group in filter(self._dual_commit.keeps, touched):
                    self._dual_commit.outbox.touch(group)
        return any_touched

    async def drain(self, seconds: float) -> None:
        """Bring there what has been committed by now, and what is meanwhile, in so many seconds at most."""
        try:
            async with asyncio.timeout(seconds):
                while True:
                    for number in range(self._runtime.num_partitions):
                        await self._runtime.settled(number)
                    more = self._hand_out()
                    outboxes = [] if self._dual_commit is None else [self._dual_commit.outbox.drained()]
                    await asyncio.gather(self._mirror.drained(), *outboxes)
                    if not more:
                        break
        except TimeoutError:
            log.warning("other places for offsets are not up to date: not all could be written in %g s", seconds)

    def close(self) -> None:
        self._mirror.close()
        if self._dual_commit is not None:
            self._dual_commit.outbox.close()
