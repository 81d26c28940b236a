"""The offsets of a topic that is gone are deleted in one offsets partition after the other, and the deletion may wait
for one that loads, while old consumers write what is carried."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from protocol.own.state_log import Step
from shim.runtime import OffsetsOfTopics
from tests.migration.simulated import virtual_time
from tests.migration.simulated.disk import WritesOf
from tests.migration.simulated.dual_place import GROUP, SOON, DualPlace, at_step
from tests.migration.simulated.shim_process import TOPIC

BOTH_HAD, CONSUMERS, LATER = 9, 20, 50


@pytest.fixture(autouse=True)
def _writes_in_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shim.disk_log.writer.WritingThread", WritesOf)


async def _deleted(at: DualPlace) -> None:
    assert await at.shim.does(OffsetsOfTopics(at.shim.runtime).delete(TOPIC)) == 1


@pytest.mark.parametrize("is_away", [False, True], ids=["ZooKeeper is there", "ZooKeeper is away"])
@pytest.mark.parametrize("step", [Step.ZOOKEEPER_DUAL, Step.KAFKA_DUAL])
def test_what_was_written_before_does_not_rise_again(step: Step, is_away: bool, tmp_path: Path) -> None:
    """What is written after both have none is somebody's who goes on."""

    async def lived() -> None:
        async with at_step(tmp_path, BOTH_HAD, step) as at:
            if is_away:
                at.shim.ensemble.lose()
            at.consumer(0, CONSUMERS)
            await _deleted(at)
            if is_away:
                await at.is_back()
            await asyncio.sleep(2 * SOON)
            assert at.log == {}
            assert at.stands(0) is None
            at.consumer(0, LATER)
            await asyncio.sleep(SOON)
            assert at.log == at.zookeeper == {0: LATER}

    virtual_time.run(lived())


def test_nor_after_a_crash_where_the_log_is_right(tmp_path: Path) -> None:
    async def lived() -> None:
        async with at_step(tmp_path, BOTH_HAD, Step.KAFKA_DUAL) as at:
            at.shim.ensemble.lose()
            await _deleted(at)
            await at.ends_suddenly(lambda: at.consumer(0, CONSUMERS))
            await asyncio.sleep(SOON)
            assert at.log == {}
            assert at.stands(0) is None

    virtual_time.run(lived())


def test_nor_where_the_group_has_gone_back_to_zookeeper_before_it_is_found_out(tmp_path: Path) -> None:
    """The shim has it in hand all the way there: unlike back to the cluster, nothing is forgotten."""

    async def lived() -> None:
        async with at_step(tmp_path, BOTH_HAD, Step.KAFKA_DUAL) as at:
            for step in (Step.ZOOKEEPER_DUAL, Step.ZOOKEEPER):
                await at.shim.does(at.shim.stepping.move(GROUP, step, "a test"))
            assert at.stands(0) == BOTH_HAD
            await _deleted(at)
            await asyncio.sleep(SOON)
            assert at.log == {}
            assert at.stands(0) is None

    virtual_time.run(lived())
