"""A group at a step with dual commit, in a shim and a ZooKeeper in memory."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Final

from compat import zookeeper as layout
from protocol.own.state_log import Step
from shim.migration.own_offsets import own_offsets
from tests.migration.simulated.shim_process import TOPIC, ShimProcess
from tests.migration.simulated.transactions import Transactions
from tests.migration.simulated.znode_tree import ZnodeTree

SOON: Final = 30
"""Seconds, of the loop's own, in which all that can be done is."""
GROUP: Final = "g"
_STEPS: Final = (Step.ZOOKEEPER_DUAL, Step.KAFKA_DUAL)


class DualPlace:
    def __init__(self, folder: Path, seed: int = 0) -> None:
        self._rng = random.Random(seed)
        self.tree = ZnodeTree(self._rng)
        self.transactions = Transactions(GROUP)
        self._folder = folder
        self.start()

    def start(self, *, has_zookeeper: bool = True) -> None:
        """Another shim, where the last one is no more."""
        self.shim = ShimProcess(self._folder, self.tree, self._rng, has_zookeeper=has_zookeeper)
        self.transactions.followed_by(self.shim.runtime)
        self.shim.start()
        self.shim.ensemble.connect()

    @property
    def log(self) -> dict[int, int]:
        coordinator = self.shim.runtime.coordinator(0)
        assert coordinator is not None
        return {at.partition: its.offset for at, its in own_offsets(coordinator, GROUP).items()}

    @property
    def zookeeper(self) -> dict[int, int | None]:
        """What stands there of the partitions that the log has."""
        return {at: self.stands(at) for at in self.log}

    def stands(self, partition: int) -> int | None:
        """What is in ZooKeeper, None for nothing."""
        znode = self.tree.leader.znodes.get(_path(partition))
        return None if znode is None else layout.parse_offset(znode.data)

    async def fetched(self) -> dict[int, int | None]:
        """What a client is told."""
        return await self.shim.does(self.shim.fetch(GROUP))

    def consumer(self, partition: int, offset: int) -> None:
        """An old one writes that."""
        self.tree.put(_path(partition), layout.offset_data(offset))

    def deleted(self, partition: int) -> bool:
        """By somebody, past the shim: whether anything was there."""
        return self.tree.remove(_path(partition))

    async def commit(self, offsets: Mapping[int, int | None]) -> None:
        await self.shim.does(self.shim.commit(GROUP, dict(offsets)))

    async def begin(self, offset: int, step: Step) -> None:
        """That is what both have of partition 0."""
        self.consumer(0, offset)
        await asyncio.sleep(SOON)
        await self.fetched()
        for each in _STEPS[: _STEPS.index(step) + 1]:
            await self.shim.does(self.shim.stepping.move(GROUP, each, "a test"))
            await asyncio.sleep(SOON)

    async def ends_suddenly(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        await self.shim.kill()
        meanwhile()
        self.tree.catch_up()
        self.start()
        await asyncio.sleep(SOON)

    async def is_back(self) -> None:
        """ZooKeeper."""
        self.shim.ensemble.connect(expired=True)
        self.tree.catch_up()
        await asyncio.sleep(SOON)


def _path(partition: int) -> str:
    return layout.offset_path(GROUP, TOPIC, partition)


def at_kafka_dual(folder: Path, offset: int) -> AbstractAsyncContextManager[DualPlace]:
    return at_step(folder, offset, Step.KAFKA_DUAL)


@asynccontextmanager
async def at_step(folder: Path, offset: int, step: Step) -> AsyncIterator[DualPlace]:
    at = DualPlace(folder)
    try:
        await at.begin(offset, step)
        yield at
    finally:
        await at.shim.kill()
