"""What an OffsetsWatch tells."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress

from shim.offsets.store import Partition, StoredOffset
from shim.offsets.zookeeper.ensemble import Ensemble
from shim.offsets.zookeeper.watching import OffsetsWatch
from tests.offsets.conftest import TIMEOUT_S


class Told:
    """What was told last of each partition, and each call in order."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Mapping[Partition, StoredOffset]]] = []
        self.offsets: dict[str, dict[Partition, StoredOffset]] = {}
        self._more = asyncio.Event()

    def changed(self, group: str, offsets: Mapping[Partition, StoredOffset]) -> None:
        self.calls.append((group, offsets))
        self.offsets.setdefault(group, {}).update(offsets)
        self._more.set()

    def clear(self) -> None:
        self.calls.clear()
        self.offsets.clear()

    async def until(self, enough: Callable[[], bool]) -> None:
        async with asyncio.timeout(TIMEOUT_S):
            while not enough():
                self._more.clear()
                await self._more.wait()

    async def of(self, group: str, offsets: Mapping[Partition, StoredOffset]) -> None:
        """These, and no others."""
        await self.until(lambda: self.offsets.get(group) == offsets)

    async def one(self, group: str, partition: Partition, offset: int) -> StoredOffset:
        """Of this partition, whatever else."""
        found = StoredOffset(-1)

        def told() -> bool:
            nonlocal found
            found = self.offsets.get(group, {}).get(partition, found)
            return found.offset == offset

        await self.until(told)
        return found


@asynccontextmanager
async def watching(
    ensemble: Ensemble, told: Told, *groups: str, within: float = TIMEOUT_S
) -> AsyncIterator[OffsetsWatch]:
    """It runs, and knows these groups: ``within`` so many seconds."""
    watch = OffsetsWatch(ensemble, told.changed)
    for group in groups:
        watch.watch(group)
    running = asyncio.ensure_future(watch.run())
    try:
        async with asyncio.timeout(within):
            for group in groups:
                await watch.known(group)
        yield watch
        assert not running.done()
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
