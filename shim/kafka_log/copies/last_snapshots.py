"""Snapshots of partitions on a topic that are taken at the end, for the next start."""

from __future__ import annotations

import asyncio
import time

from shim.kafka_log.copies.snapshots import TopicSnapshots
from shim.runtime.snapshots import LAST_SNAPSHOTS_SECONDS, End, Retired, Snapshots


class LastSnapshots:
    """For the event loop. They are chosen while the partitions are owned still, and taken when others may have them."""

    def __init__(self, taking: Snapshots, files: TopicSnapshots) -> None:
        self._taking = taking
        self._files = files
        self._of_use: Retired = []
        self._ends: dict[int, list[End]] = {}

    def choose(self, last: Retired) -> None:
        """Where all was written."""
        self._of_use = self._taking.of_use(last)
        self._ends = {number: ends for number, _ in self._of_use if (ends := self._files.ends_of(number))}

    async def take(self, timeout_seconds: float) -> None:
        """Those that were chosen, if any were, for LAST_SNAPSHOTS_SECONDS at most. Raises TimeoutError where the disk
        hangs."""
        until = time.monotonic() + LAST_SNAPSHOTS_SECONDS
        async with asyncio.timeout(timeout_seconds):
            await self._taking.ended()
        anchored = await self._files.completed(self._ends, until - time.monotonic())
        left = max(0.0, until - time.monotonic())
        of_use = [each for each in self._of_use if each[0] in anchored]
        async with asyncio.timeout(left + timeout_seconds):
            await self._taking.in_thread(self._taking.take_last, of_use, anchored.__getitem__, left)
        self._taking.shutdown()
