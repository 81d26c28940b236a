"""At kafka+dual: what an old consumer wrote was carried into the log, and then the log had again what it had before."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from compat import zookeeper as layout
from protocol.own.state_log import Step
from shim.migration.own_offsets import own_offsets
from shim.runtime.offsets_of_topics import OffsetsOfTopics
from tests.migration.simulated import virtual_time
from tests.migration.simulated.disk import WritesOf
from tests.migration.simulated.shim_process import TOPIC, NotDone, ShimProcess
from tests.migration.simulated.znode_tree import ZnodeTree

SOON: Final = 30
BEFORE, CARRIED, ALONE = 5, 9, 20
AT_FIRST, SECOND = (layout.offset_path("g", TOPIC, number) for number in range(2))


@pytest.fixture(autouse=True)
def _writes_in_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shim.runtime.writer.WritingThread", WritesOf)


class Place:
    """``CARRIED`` of an old consumer where the log had ``BEFORE``, and of another partition ``ALONE``, where it had
    nothing."""

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
        return {at.partition: its.offset for at, its in own_offsets(coordinator, "g").items()}

    async def begin(self) -> None:
        self.tree.put(AT_FIRST, b"%d" % BEFORE)
        await asyncio.sleep(SOON)
        await self.shim.does(self.shim.fetch("g"))
        for step in (Step.ZOOKEEPER_DUAL, Step.KAFKA_DUAL):
            await self.shim.does(self.shim.stepping.move("g", step, "a test"))
            await asyncio.sleep(SOON)
        self.tree.put(AT_FIRST, b"%d" % CARRIED)
        self.tree.put(SECOND, b"%d" % ALONE)
        await asyncio.sleep(SOON)
        assert self.log == {0: CARRIED, 1: ALONE}

    async def ends_suddenly(self) -> None:
        await self.shim.kill()
        self.tree.catch_up()
        self.shim = self._started()
        await asyncio.sleep(SOON)

    async def is_read_back(self) -> None:
        """ZooKeeper being away, which then comes back."""
        self.shim.disk.fail_once("pwrite")
        with pytest.raises(NotDone):
            await self.shim.does(self.shim.commit("g", {2: 77}))
        await asyncio.sleep(SOON)
        self.shim.ensemble.connect(expired=True)
        self.tree.catch_up()
        await asyncio.sleep(SOON)


async def _set_back(at: Place) -> None:
    await at.shim.does(at.shim.commit("g", {0: BEFORE}))


async def _deleted(at: Place) -> None:
    await at.shim.does(at.shim.delete("g", [1]))


async def _topic_deleted(at: Place) -> None:
    await at.shim.does(OffsetsOfTopics(at.shim.runtime).delete(TOPIC))


_Done = Callable[[Place], Coroutine[Any, Any, None]]


@asynccontextmanager
async def _begun(folder: Path) -> AsyncIterator[Place]:
    at = Place(folder)
    try:
        await at.begin()
        yield at
    finally:
        await at.shim.kill()


@pytest.mark.parametrize(
    ("done", "left", "is_away"),
    [
        pytest.param(_set_back, {0: BEFORE, 1: ALONE}, False, id="set back"),
        pytest.param(_set_back, {0: BEFORE, 1: ALONE}, True, id="set back, without ZooKeeper"),
        pytest.param(_deleted, {0: CARRIED}, False, id="deleted"),
        pytest.param(_topic_deleted, {}, False, id="topic deleted"),
        pytest.param(_topic_deleted, {}, True, id="topic deleted, without ZooKeeper"),
    ],
)
def test_a_sudden_end_behind_it(done: _Done, left: dict[int, int], is_away: bool, tmp_path: Path) -> None:
    """``is_away``: ZooKeeper, from before that until the next start."""

    async def lived() -> None:
        async with _begun(tmp_path) as at:
            if is_away:
                at.shim.ensemble.lose()
            await done(at)
            assert at.log == left
            await at.ends_suddenly()
            assert at.log == left

    virtual_time.run(lived())


def test_a_partition_that_is_read_back_behind_it(tmp_path: Path) -> None:
    async def lived() -> None:
        async with _begun(tmp_path) as at:
            at.shim.ensemble.lose()
            await _set_back(at)
            await at.is_read_back()
            assert at.log == {0: BEFORE, 1: ALONE}
            assert at.tree.leader.znodes[AT_FIRST].data == b"%d" % BEFORE

    virtual_time.run(lived())
