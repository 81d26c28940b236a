"""What comes between the look at a group and what is done by it, while the group is moved: its partition is another
shim's for a while, or its topic is deleted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import pytest

from protocol.offsets_log import CommittedOffset
from protocol.own.state_log import Hands, Step
from protocol.topic_partition import TopicPartition
from shim.migration.moving.locks import LockedGroup
from shim.migration.words import Refused
from shim.runtime.offsets_of_topics import OffsetsOfTopics
from tests.migration.simulated import virtual_time
from tests.migration.simulated.disk import WritesOf
from tests.migration.simulated.dual_place import GROUP, SOON, DualPlace, at_kafka_dual
from tests.migration.simulated.shim_process import TOPIC

BOTH_HAD, THEIRS = 9, 60
AT: Final = TopicPartition(TOPIC, 0)
_Meanwhile = Callable[[DualPlace], Awaitable[object]]


@pytest.fixture(autouse=True)
def _writes_in_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shim.disk_log.writer.WritingThread", WritesOf)


async def _another_shim_commits(at: DualPlace) -> None:
    await at.shim.loses_its_partition()
    await at.shim.gets_it_back(GROUP, {0: THEIRS})
    assert at.log == {0: THEIRS}


async def _another_shim_has_it(at: DualPlace) -> None:
    """And the cluster what that one has acknowledged."""
    await at.shim.loses_its_partition()
    at.shim.cluster.offsets[AT] = CommittedOffset(THEIRS, -1, "", 0)


async def _topic_is_deleted(at: DualPlace) -> None:
    assert await OffsetsOfTopics(at.shim.runtime).delete(TOPIC) == 1


def _at_the_look(at: DualPlace, number: int, meanwhile: _Meanwhile, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of those at consumers in ZooKeeper: the second is behind what both have, and before the step is decided."""
    look, looks = at.shim.stepping._look_at_consumers, []

    async def looks_beside(group: str, step: Step) -> None:
        await look(group, step)
        looks.append(step)
        if len(looks) == number:
            await meanwhile(at)

    monkeypatch.setattr(at.shim.stepping, "_look_at_consumers", looks_beside)


def test_what_another_shim_has_acknowledged_is_not_undone_by_zookeeper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lived() -> None:
        async with at_kafka_dual(tmp_path, BOTH_HAD) as at:
            _at_the_look(at, 2, _another_shim_commits, monkeypatch)
            with pytest.raises(Refused, match="its partition was read back meanwhile"):
                await at.shim.does(at.shim.stepping.move(GROUP, Step.ZOOKEEPER_DUAL, "a test"))
            await asyncio.sleep(SOON)
            assert at.shim.step_of(GROUP) is Step.KAFKA_DUAL
            assert at.log == at.zookeeper == {0: THEIRS}

    virtual_time.run(lived())


def _behind(at: DualPlace, method: str, meanwhile: _Meanwhile, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first time that this is asked of the cluster."""
    asked, answered = getattr(at.shim.cluster, method), asyncio.Event()

    async def answers_late(*what: Any) -> Any:
        found = await asked(*what)
        if not answered.is_set():
            answered.set()
            await meanwhile(at)
        return found

    monkeypatch.setattr(at.shim.cluster, method, answers_late)


def test_nor_is_the_group_given_back_without_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def lived() -> None:
        async with at_kafka_dual(tmp_path, BOTH_HAD) as at:
            await at.shim.does(at.shim.stepping.move(GROUP, Step.KAFKA, "a test"))
            _behind(at, "try_commit", _another_shim_commits, monkeypatch)
            with pytest.raises(Refused, match="its partition was read back meanwhile"):
                await at.shim.does(at.shim.hand_over.give_back(GROUP, "a test"))
            coordinator = at.shim.runtime.coordinator(0)
            assert coordinator is not None
            assert (coordinator.hands_of(GROUP), at.log) == (Hands.SERVED, {0: THEIRS})

    virtual_time.run(lived())


def test_who_has_the_partition_no_more_writes_nothing_to_the_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lived() -> None:
        async with at_kafka_dual(tmp_path, BOTH_HAD) as at:
            await at.shim.does(at.shim.stepping.move(GROUP, Step.KAFKA, "a test"))
            _behind(at, "offsets_of_one", _another_shim_has_it, monkeypatch)
            with pytest.raises(Refused, match="the partition of group g is"):
                await at.shim.does(at.shim.hand_over.give_back(GROUP, "a test"))
            assert at.shim.cluster.offsets[AT].offset == THEIRS

    virtual_time.run(lived())


@pytest.mark.parametrize("method", ["offsets_of_one", "try_commit"])
def test_what_goes_with_its_topic_is_not_left_in_the_cluster(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor what expires, which nothing keeps while a group changes hands either."""

    async def lived() -> None:
        async with at_kafka_dual(tmp_path, BOTH_HAD) as at:
            await at.shim.does(at.shim.stepping.move(GROUP, Step.KAFKA, "a test"))
            _behind(at, method, _topic_is_deleted, monkeypatch)
            with pytest.raises(Refused, match="try again"):
                await at.shim.does(at.shim.hand_over.give_back(GROUP, "a test"))
            await at.shim.does(at.shim.hand_over.give_back(GROUP, "a test"))
            coordinator = at.shim.runtime.coordinator(0)
            assert coordinator is not None
            assert coordinator.hands_of(GROUP) is Hands.PASSED_THROUGH
            assert at.shim.cluster.offsets == {}

    virtual_time.run(lived())


async def _moved_back(at: DualPlace) -> None:
    await at.shim.does(at.shim.stepping.move(GROUP, Step.ZOOKEEPER_DUAL, "a test"))
    await asyncio.sleep(SOON)
    assert at.shim.step_of(GROUP) is Step.ZOOKEEPER_DUAL


def test_a_topic_that_is_deleted_before_the_step_is_decided_is_deleted_in_zookeeper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lived() -> None:
        async with at_kafka_dual(tmp_path, BOTH_HAD) as at:
            _at_the_look(at, 2, _topic_is_deleted, monkeypatch)
            await _moved_back(at)
            assert (at.log, at.stands(0)) == ({}, None)

    virtual_time.run(lived())


@pytest.mark.parametrize("is_durable", [False, True], ids=["decided", "durable"])
def test_and_so_it_is_behind_the_decision(is_durable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is known of ZooKeeper at that step."""

    async def lived() -> None:
        async with at_kafka_dual(tmp_path, BOTH_HAD) as at:
            take = LockedGroup.take_in_hand

            async def beside(self: LockedGroup, *what: Any, **more: Any) -> None:
                taking = asyncio.ensure_future(take(self, *what, **more))
                await (taking if is_durable else asyncio.sleep(0))
                await _topic_is_deleted(at)
                await taking

            monkeypatch.setattr(LockedGroup, "take_in_hand", beside)
            await _moved_back(at)
            assert (at.log, at.stands(0)) == ({}, None)

    virtual_time.run(lived())
