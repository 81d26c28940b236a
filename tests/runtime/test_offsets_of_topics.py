"""The offsets for a topic that is gone, in all partitions, on their way out of the log."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from typing import Any

import pytest

from shim.runtime import OffsetsOfTopics
from tests.runtime.held_log import WAIT_SECONDS
from tests.runtime.running import PARTITIONS, TOPIC, Running, offset_in, running
from tests.waiting import until


def groups_of(shim: Running) -> list[str]:
    return [shim.group_in(number, of) for number in range(PARTITIONS) for of in range(2)]


async def commit_all(shim: Running) -> list[str]:
    groups = groups_of(shim)
    for committed in [shim.commit(group, 5) for group in groups]:
        await committed.result()
    return groups


async def left(shim: Running) -> list[int | None]:
    return [offset_in(await shim.fetch(group).result()) for group in groups_of(shim)]


async def deleted(shim: Running, topic: str = TOPIC) -> int:
    async with asyncio.timeout(WAIT_SECONDS):
        return await OffsetsOfTopics(shim.runtime).delete(topic)


async def test_of_all_partitions_and_after_a_restart_too(tmp_path: Path) -> None:
    async with running(tmp_path) as shim:
        shim.log.release(1_000)
        groups = await commit_all(shim)
        topics = OffsetsOfTopics(shim.runtime)
        assert await topics.in_use() == {TOPIC}
        assert await deleted(shim, "another") == 0
        assert await deleted(shim) == len(groups)
        assert await topics.in_use() == set()
        assert await left(shim) == [None] * len(groups)
    async with running(tmp_path) as shim:
        assert await left(shim) == [None] * len(groups)
        assert await OffsetsOfTopics(shim.runtime).in_use() == set()


async def test_it_returns_when_that_is_durable(tmp_path: Path) -> None:
    async with running(tmp_path) as shim:
        shim.log.release(2 * PARTITIONS)
        await commit_all(shim)
        while shim.log._released.acquire(blocking=False):
            pass
        deletion = asyncio.create_task(deleted(shim))
        writes = len(shim.log.writes)
        await until(lambda: len(shim.log.writes) > writes)
        assert not deletion.done()
        shim.log.release(1_000)
        assert await deletion == 2 * PARTITIONS


async def test_it_waits_for_partitions_that_are_being_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shim.runtime.offsets_of_topics._RETRY_S", 0.001)
    async with running(tmp_path) as shim:
        shim.log.release(1_000)
        groups = await commit_all(shim)
    async with running(tmp_path, admitted=False) as shim:
        shim.log.release(1_000)
        assert await OffsetsOfTopics(shim.runtime).in_use() == set()
        asked, submit = 0, shim.runtime.submit

        def counted(*what: Any) -> None:
            nonlocal asked
            asked += 1
            submit(*what)

        monkeypatch.setattr(shim.runtime, "submit", counted)
        deletion = asyncio.create_task(deleted(shim))
        await until(lambda: asked > 3)
        assert not deletion.done()
        shim.runtime.admit()
        assert await deletion == len(groups)
        assert await left(shim) == [None] * len(groups)


async def test_a_write_that_fails_is_made_again_when_the_partition_was_read_back(tmp_path: Path) -> None:
    async with running(tmp_path) as shim:
        shim.log.release(1_000)
        groups = await commit_all(shim)

        def fails_once(path: Path) -> None:
            if path.suffix == ".log":
                shim.log.files.heal()
                raise OSError(errno.EIO, "once", str(path))

        shim.log.files.faults["pwrite"] = fails_once
        assert await deleted(shim) == len(groups)
        assert await left(shim) == [None] * len(groups)
    async with running(tmp_path) as shim:
        assert await left(shim) == [None] * len(groups)


async def test_those_of_other_processes_are_left_to_them(tmp_path: Path) -> None:
    async with running(tmp_path) as shim:
        shim.log.release(1_000)
        await commit_all(shim)
        shim.runtime.own([PARTITIONS - 1])
        assert await deleted(shim) == len(groups_of(shim)) // PARTITIONS
        shim.runtime.own(range(PARTITIONS))
        await until(lambda: all(map(shim.runtime.coordinator, range(PARTITIONS))))
        assert await left(shim) == [5, 5, 5, 5, None, None]


async def test_one_that_is_lost_amid_it_is_left_to_whoever_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shim.runtime.offsets_of_topics._RETRY_S", 0.001)
    async with running(tmp_path) as shim:
        shim.log.release(1_000)
        await commit_all(shim)
        while shim.log._released.acquire(blocking=False):
            pass
        deletion = asyncio.create_task(deleted(shim))
        writes = len(shim.log.writes)
        await until(lambda: len(shim.log.writes) > writes)
        shim.runtime.own(range(1, PARTITIONS))
        shim.log.release(1_000)
        await deletion
        assert await OffsetsOfTopics(shim.runtime).in_use() == set()
