"""What is committed here goes to where else it belongs: some times a second the coordinators say which groups have
changed, and these get their turns."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from typing import Final

from protocol.own.state_log import Hands
from shim.counted import counted
from shim.migration.compared import some_of
from shim.migration.dual.dual_commit import DualCommit
from shim.migration.mirror.mirror import Mirror
from shim.runtime import Runtime

log = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 0.2

_KEPT: Final = "the cluster keeps other offsets, as `migrate status` has told"
_NO_TIME: Final = "there was no time to write them"
_NOT_COMPARED: Final = "they were loaded, and not compared yet"


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
            self._tell_of_cluster()

    def _tell_of_cluster(self) -> None:
        """Whether clients that go to the brokers now, without a shim, go on where they stood."""
        served, not_loaded = 0, 0
        left: dict[str, list[str]] = defaultdict(list)
        for number in range(self._runtime.num_partitions):
            coordinator = self._runtime.coordinator(number)
            if coordinator is None:
                not_loaded += not self._runtime.is_elsewhere(number)
                continue
            for group in {*coordinator.hands(), *coordinator.group_ids()}:
                if coordinator.hands_of(group) is Hands.SERVED:
                    served += 1
                    if why := self._why_not(group):
                        left[why].append(group)
        if not left and not not_loaded:
            log.info("the cluster's own offsets are those of the log: %s", counted(served, "group"))
            return
        told = [f"{sum(map(len, left.values())):,} of {counted(served, 'group')}"] if left else []
        told += [f"{counted(not_loaded, 'partition')} not loaded"] if not_loaded else []
        which = some_of([f"{some_of(sorted(groups))} ({why})" for why, groups in left.items()])
        log.warning(
            "the cluster's own offsets may not be those of the log: %s%s", " and ".join(told), which and f": {which}"
        )

    def _why_not(self, group: str) -> str:
        """What the cluster has of it is not what the log has, or may not be; "" where it is."""
        if self._mirror.lag_seconds(group) is not None:
            return self._mirror.why(group) or _NO_TIME
        if not self._mirror.is_compared(group):
            return _NOT_COMPARED
        return _KEPT if self._mirror.alarm(group) else ""

    def close(self) -> None:
        self._mirror.close()
        if self._dual_commit is not None:
            self._dual_commit.outbox.close()
