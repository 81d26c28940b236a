"""At kafka+dual: the log goes on, and comes back to the very offset that both places had, while an old consumer has
written another one to ZooKeeper."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.migration.simulated import virtual_time
from tests.migration.simulated.disk import WritesOf
from tests.migration.simulated.dual_place import SOON, DualPlace, at_kafka_dual

BOTH_HAD, OLD, MOVED, NEXT = 9, 50, 60, 70
TURN: Final = 5.0
"""Seconds after which ZooKeeper would have had a commit, was it there."""


@pytest.fixture(autouse=True)
def _writes_in_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shim.disk_log.writer.WritingThread", WritesOf)


async def _commit(at: DualPlace, offsets: Sequence[int], pause: float) -> None:
    for offset in offsets:
        await at.commit({0: offset})
        await asyncio.sleep(pause)


@pytest.mark.parametrize("pause", [0.0, TURN], ids=["at once", "one after the other"])
def test_what_was_committed_last_is_left(pause: float, tmp_path: Path) -> None:
    async def lived() -> None:
        async with at_kafka_dual(tmp_path, BOTH_HAD) as at:
            at.shim.ensemble.lose()
            at.consumer(0, OLD)
            await _commit(at, [MOVED, BOTH_HAD], pause)
            await at.is_back()
            assert at.log == at.zookeeper == {0: BOTH_HAD}
            at.consumer(0, NEXT)
            await asyncio.sleep(SOON)
            assert at.log == at.zookeeper == {0: NEXT}, "that is newer"

    virtual_time.run(lived())


@pytest.mark.parametrize("pause", [0.0, TURN], ids=["at once", "one after the other"])
def test_where_zookeeper_has_it_by_then_what_an_old_consumer_writes_is_newer(pause: float, tmp_path: Path) -> None:
    async def lived() -> None:
        async with at_kafka_dual(tmp_path, BOTH_HAD) as at:
            await _commit(at, [MOVED, BOTH_HAD], pause)
            await asyncio.sleep(SOON)
            at.consumer(0, OLD)
            await asyncio.sleep(SOON)
            assert at.log == at.zookeeper == {0: OLD}

    virtual_time.run(lived())


@pytest.mark.parametrize("written_before", [True, False], ids=["before", "while no shim runs"])
@pytest.mark.parametrize("pause", [0.0, TURN], ids=["at once", "one after the other"])
def test_so_it_is_after_a_crash(pause: float, written_before: bool, tmp_path: Path) -> None:
    async def lived() -> None:
        async with at_kafka_dual(tmp_path, BOTH_HAD) as at:
            at.shim.ensemble.lose()
            await at.commit({1: OLD})  # so that it is known that ZooKeeper is away
            await asyncio.sleep(TURN)
            if written_before:
                at.consumer(0, OLD)
            await _commit(at, [MOVED, BOTH_HAD], pause)
            await at.ends_suddenly(lambda: None if written_before else at.consumer(0, OLD))
            assert at.log == at.zookeeper == {0: BOTH_HAD, 1: OLD}
            await at.ends_suddenly(lambda: at.consumer(0, NEXT))
            assert at.log == at.zookeeper == {0: NEXT, 1: OLD}, "that is newer"

    virtual_time.run(lived())


@pytest.mark.parametrize("came_back", [True, False])
@pytest.mark.parametrize("pause", [0.0, TURN], ids=["at once", "one after the other"])
def test_once_both_were_alike_again_what_is_written_while_no_shim_runs_is_newer(
    pause: float, came_back: bool, tmp_path: Path
) -> None:
    async def lived() -> None:
        async with at_kafka_dual(tmp_path, BOTH_HAD) as at:
            at.shim.ensemble.lose()
            if came_back:
                await at.commit({1: OLD})
                await asyncio.sleep(TURN)
            await _commit(at, [MOVED, BOTH_HAD], pause)
            await at.ends_suddenly()
            await at.ends_suddenly(lambda: at.consumer(0, NEXT))
            assert at.log[0] == at.zookeeper[0] == NEXT

    virtual_time.run(lived())


def test_the_same_once_more_is_none_after_a_crash(tmp_path: Path) -> None:
    async def lived() -> None:
        async with at_kafka_dual(tmp_path, BOTH_HAD) as at:
            at.shim.ensemble.lose()
            await _commit(at, [BOTH_HAD, BOTH_HAD], TURN)
            await at.ends_suddenly(lambda: at.consumer(0, OLD))
            assert at.log == at.zookeeper == {0: OLD}

    virtual_time.run(lived())


def test_the_same_once_more_is_no_move(tmp_path: Path) -> None:
    """As consumers commit that have read nothing since."""

    async def lived() -> None:
        async with at_kafka_dual(tmp_path, BOTH_HAD) as at:
            at.shim.ensemble.lose()
            at.consumer(0, OLD)
            await _commit(at, [BOTH_HAD, BOTH_HAD], TURN)
            await at.is_back()
            assert at.log == at.zookeeper == {0: OLD}

    virtual_time.run(lived())
