"""A group at kafka+dual, in a shim and a ZooKeeper in memory."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from compat import zookeeper as layout
from protocol.own.state_log import Step
from shim.migration.own_offsets import own_offsets
from tests.migration.simulated.shim_process import TOPIC, ShimProcess
from tests.migration.simulated.znode_tree import ZnodeTree

SOON: Final = 30
"""Seconds, of the loop's own, in which all that can be done is."""
GROUP: Final = "g"


class DualPlace:
    def __init__(self, folder: Path) -> None:
        self.tree = ZnodeTree(random.Random(0))
        self._folder = folder
        self.shim = self._started()

    def _started(self) -> ShimProcess:
        shim = ShimProcess(self._folder, self.tree, random.Random(0))
        shim.start()
        shim.ensemble.connect()
        return shim

    @property
    def log(self) -> dict[int, int]:
        coordinator = self.shim.runtime.coordinator(0)
        assert coordinator is not None
        return {at.partition: its.offset for at, its in own_offsets(coordinator, GROUP).items()}

    @property
    def zookeeper(self) -> dict[int, int | None]:
        """What stands there of the partitions that the log has."""
        return {at: layout.parse_offset(self.tree.leader.znodes[_path(at)].data) for at in self.log}

    def consumer(self, partition: int, offset: int) -> None:
        """An old one writes that."""
        self.tree.put(_path(partition), layout.offset_data(offset))

    async def commit(self, offsets: Mapping[int, int | None]) -> None:
        await self.shim.does(self.shim.commit(GROUP, dict(offsets)))

    async def begin(self, offset: int) -> None:
        """That is what both have of partition 0."""
        self.consumer(0, offset)
        await asyncio.sleep(SOON)
        await self.shim.does(self.shim.fetch(GROUP))
        for step in (Step.ZOOKEEPER_DUAL, Step.KAFKA_DUAL):
            await self.shim.does(self.shim.stepping.move(GROUP, step, "a test"))
            await asyncio.sleep(SOON)

    async def ends_suddenly(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        await self.shim.kill()
        meanwhile()
        self.tree.catch_up()
        self.shim = self._started()
        await asyncio.sleep(SOON)

    async def is_back(self) -> None:
        """ZooKeeper."""
        self.shim.ensemble.connect(expired=True)
        self.tree.catch_up()
        await asyncio.sleep(SOON)


def _path(partition: int) -> str:
    return layout.offset_path(GROUP, TOPIC, partition)


@asynccontextmanager
async def at_kafka_dual(folder: Path, offset: int) -> AsyncIterator[DualPlace]:
    at = DualPlace(folder)
    try:
        await at.begin(offset)
        yield at
    finally:
        await at.shim.kill()
