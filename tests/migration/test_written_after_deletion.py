"""Somebody deletes a znode, which the shim writes again; before that comes there an old consumer has written it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from protocol.own.state_log import Step
from shim.offsets.store import Partition, StoredOffset, StoreUnavailable
from tests.migration.simulated import virtual_time
from tests.migration.simulated.disk import WritesOf
from tests.migration.simulated.dual_place import SOON, DualPlace, at_step
from tests.migration.simulated.shim_process import NotDone

BOTH_HAD, CONSUMERS, CLIENTS = 9, 50, 60


@pytest.fixture(autouse=True)
def _writes_in_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shim.disk_log.writer.WritingThread", WritesOf)


class _Beside:
    """A consumer that writes the first time that the shim is about to. ``is_lost``: nobody tells the shim what became
    of its own write, which was not done."""

    def __init__(self, at: DualPlace, monkeypatch: pytest.MonkeyPatch, *, is_lost: bool) -> None:
        store = at.shim.dual_commit.store
        self.at: Final = at
        self.has_written = False
        self._commit = store.commit
        self._is_lost = is_lost
        monkeypatch.setattr(store, "commit", self)

    async def __call__(self, group: str, offsets: Mapping[Partition, StoredOffset]) -> dict[Partition, int]:
        if not self.has_written:
            self.has_written = True
            self.at.consumer(0, CONSUMERS)
            if self._is_lost:
                raise StoreUnavailable("the connection was lost")
        return await self._commit(group, offsets)


@pytest.mark.parametrize("is_lost", [False, True], ids=["the shim is told", "the shim is not told"])
@pytest.mark.parametrize("step", [Step.ZOOKEEPER_DUAL, Step.KAFKA_DUAL])
def test_what_it_writes_is_newer(step: Step, is_lost: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def lived() -> None:
        async with at_step(tmp_path, BOTH_HAD, step) as at:
            beside = _Beside(at, monkeypatch, is_lost=is_lost)
            at.deleted(0)
            with suppress(NotDone):
                await at.fetched()
            await asyncio.sleep(SOON)
            assert beside.has_written
            assert await at.fetched() == at.log == at.zookeeper == {0: CONSUMERS}

    virtual_time.run(lived())


@pytest.mark.parametrize("is_lost", [False, True], ids=["the shim is told", "the shim is not told"])
def test_but_where_a_client_has_committed_by_then_that_stands(
    is_lost: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lived() -> None:
        async with at_step(tmp_path, BOTH_HAD, Step.KAFKA_DUAL) as at:
            beside = _Beside(at, monkeypatch, is_lost=is_lost)
            at.deleted(0)
            await at.commit({0: CLIENTS})
            assert await at.fetched() == {0: CLIENTS}  # so that ZooKeeper is read before it is written
            await asyncio.sleep(SOON)
            assert beside.has_written
            assert await at.fetched() == at.log == at.zookeeper == {0: CLIENTS}

    virtual_time.run(lived())
