"""At kafka+dual: what an old consumer wrote was carried into the log, and then the log had again what it had before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from shim.runtime.offsets_of_topics import OffsetsOfTopics
from tests.migration.simulated import virtual_time
from tests.migration.simulated.disk import WritesOf
from tests.migration.simulated.dual_place import SOON, DualPlace, at_kafka_dual
from tests.migration.simulated.shim_process import TOPIC, NotDone

BEFORE, CARRIED, ALONE = 5, 9, 20


@pytest.fixture(autouse=True)
def _writes_in_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shim.disk_log.writer.WritingThread", WritesOf)


async def _set_back(at: DualPlace) -> None:
    await at.commit({0: BEFORE})


async def _deleted(at: DualPlace) -> None:
    await at.shim.does(at.shim.delete("g", [1]))


async def _topic_deleted(at: DualPlace) -> None:
    await at.shim.does(OffsetsOfTopics(at.shim.runtime).delete(TOPIC))


_Done = Callable[[DualPlace], Coroutine[Any, Any, None]]


@asynccontextmanager
async def _begun(folder: Path) -> AsyncIterator[DualPlace]:
    """``CARRIED`` of an old consumer where the log had ``BEFORE``, and of another partition ``ALONE``, where it had
    nothing."""
    async with at_kafka_dual(folder, BEFORE) as at:
        at.consumer(0, CARRIED)
        at.consumer(1, ALONE)
        await asyncio.sleep(SOON)
        assert at.log == {0: CARRIED, 1: ALONE}
        yield at


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
            at.shim.disk.fail_once("pwrite")
            with pytest.raises(NotDone):
                await at.commit({2: 77})
            await asyncio.sleep(SOON)
            await at.is_back()
            assert at.log == at.zookeeper == {0: BEFORE, 1: ALONE}

    virtual_time.run(lived())


@pytest.mark.parametrize("deletes", [_deleted, _topic_deleted])
def test_a_sudden_end_between_a_carry_and_its_second_note(
    deletes: _Done, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client deletes meanwhile what the log had nothing of before."""

    async def lived() -> None:
        async with at_kafka_dual(tmp_path, BEFORE) as at:
            is_carried, log = asyncio.Event(), at.shim.dual_commit._log
            carry = log.carry

            async def held(*what: Any) -> None:
                await carry(*what)
                is_carried.set()
                await asyncio.Event().wait()

            monkeypatch.setattr(log, "carry", held)
            at.consumer(1, ALONE)
            await is_carried.wait()
            assert at.log == {0: BEFORE, 1: ALONE}
            left = {0: BEFORE} if deletes is _deleted else {}
            await deletes(at)
            assert at.log == left
            await at.ends_suddenly()
            assert at.log == left

    virtual_time.run(lived())


def test_a_sudden_end_behind_a_deletion_of_what_had_come_back(tmp_path: Path) -> None:
    """While ZooKeeper is away, where an old consumer goes on writing meanwhile."""

    async def lived() -> None:
        async with _begun(tmp_path) as at:
            at.shim.ensemble.lose()
            for offset in (ALONE + 1, ALONE):
                await at.commit({1: offset})
            for offset in (ALONE + 2, ALONE + 3):
                at.consumer(1, offset)
            await _topic_deleted(at)
            await at.ends_suddenly()
            assert at.log == {}

    virtual_time.run(lived())


@pytest.mark.parametrize("dies", [False, True])
def test_a_deletion_of_what_zookeeper_was_never_given(dies: bool, tmp_path: Path) -> None:
    """An old consumer has written the partition before, for the first time."""

    async def lived() -> None:
        async with at_kafka_dual(tmp_path, BEFORE) as at:
            at.shim.ensemble.lose()
            at.consumer(1, ALONE)
            await at.commit({1: ALONE + 1})
            await _topic_deleted(at)
            if dies:
                await at.ends_suddenly()
            else:
                await at.is_back()
            assert at.log == {}
            (coordinator,) = filter(None, [at.shim.runtime.coordinator(0)])
            assert coordinator.written("g") == {}, "nothing is left to be known"
            at.consumer(1, ALONE + 2)
            await asyncio.sleep(SOON)
            assert at.log == {1: ALONE + 2}, "that is newer"

    virtual_time.run(lived())


def test_a_way_back_behind_a_carry_that_a_sudden_end_came_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it was to take the place of is there once more, by a commit that ZooKeeper is yet to be read behind."""

    async def lived() -> None:
        async with at_kafka_dual(tmp_path, BEFORE) as at:
            is_noted = asyncio.Event()

            async def held(*_: Any) -> None:
                is_noted.set()
                await asyncio.Event().wait()

            monkeypatch.setattr(at.shim.dual_commit._log, "carry", held)
            at.consumer(0, CARRIED)
            await is_noted.wait()
            await at.shim.kill()
            at.consumer(0, CARRIED + 1)
            at.start()
            at.shim.ensemble.lose()
            await asyncio.sleep(1)
            for offset in (ALONE, BEFORE):
                await at.commit({0: offset})
            await at.is_back()
            assert at.log == at.zookeeper == {0: BEFORE}

    virtual_time.run(lived())
