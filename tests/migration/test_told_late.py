"""What the watch has read comes late, while a client waits for its offsets: somebody has deleted the znode meanwhile,
and a consumer has created it anew, whose versions begin at 0 again."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

from protocol.own.state_log import Step
from shim.offsets.store import Partition, StoredOffset
from tests.migration.simulated import virtual_time
from tests.migration.simulated.disk import WritesOf
from tests.migration.simulated.dual_place import SOON, DualPlace, at_step
from tests.migration.simulated.shim_process import NotDone

BOTH_HAD, BEFORE, LAST, CLIENTS = 9, 20, 50, 60


@pytest.fixture(autouse=True)
def _writes_in_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shim.disk_log.writer.WritingThread", WritesOf)


class _Late:
    """What the watch reads from now on it is told when a whole group has been read for somebody who waits, and before
    they are told."""

    def __init__(self, at: DualPlace, monkeypatch: pytest.MonkeyPatch) -> None:
        self.has_read: Final = asyncio.Event()
        self._is_told = asyncio.Event()
        ensemble, dual_commit = at.shim.ensemble, at.shim.dual_commit
        self._get_many, self._fetch, self._tell = ensemble.get_many, dual_commit.store.fetch, dual_commit.watch._tell
        self._may_be_told = asyncio.Event()
        monkeypatch.setattr(ensemble, "get_many", self.get_many)
        monkeypatch.setattr(dual_commit.store, "fetch", self.fetch)
        monkeypatch.setattr(dual_commit.watch, "_tell", self.tell)

    async def get_many(self, paths: Sequence[str], *others: Any, watch: Any = None, **more: Any) -> Any:
        found = await self._get_many(paths, *others, watch=watch, **more)
        if watch is not None:
            self.has_read.set()
            await self._may_be_told.wait()
        return found

    async def fetch(self, group: str, topics: Collection[str] | None = None) -> dict[Partition, StoredOffset]:
        found = await self._fetch(group, topics)
        self._may_be_told.set()
        await self._is_told.wait()
        return found

    def tell(self, *what: Any) -> None:
        self._tell(*what)
        self._is_told.set()


@pytest.mark.parametrize("step", [Step.ZOOKEEPER_DUAL, Step.KAFKA_DUAL])
def test_what_stands_there_is_served(step: Step, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def lived() -> None:
        async with at_step(tmp_path, BOTH_HAD, step) as at:
            late = _Late(at, monkeypatch)
            at.consumer(0, BEFORE)
            await late.has_read.wait()
            at.deleted(0)
            at.consumer(0, LAST)
            assert await at.fetched() == {0: LAST}
            await asyncio.sleep(SOON)
            assert await at.fetched() == at.log == at.zookeeper == {0: LAST}

    virtual_time.run(lived())


class _TooLate:
    """What the watch reads from now on it is told when a test says so."""

    def __init__(self, at: DualPlace, monkeypatch: pytest.MonkeyPatch) -> None:
        self.has_read: Final = asyncio.Event()
        self.may_be_told: Final = asyncio.Event()
        self._get_many = at.shim.ensemble.get_many
        monkeypatch.setattr(at.shim.ensemble, "get_many", self.get_many)

    async def get_many(self, paths: Sequence[str], *others: Any, watch: Any = None, **more: Any) -> Any:
        found = await self._get_many(paths, *others, watch=watch, **more)
        if watch is not None:
            self.has_read.set()
            await self.may_be_told.wait()
        return found


def _carried(at: DualPlace, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What is from now on, into the log."""
    carried: list[int] = []
    log = at.shim.dual_commit._log
    carry = log.carry

    async def recorded(group: str, offsets: Mapping[Partition, int]) -> None:
        carried.extend(offsets.values())
        await carry(group, offsets)

    monkeypatch.setattr(log, "carry", recorded)
    return carried


@pytest.mark.parametrize("step", [Step.ZOOKEEPER_DUAL, Step.KAFKA_DUAL])
@pytest.mark.parametrize("commits", [False, True], ids=["a client asks", "a client commits"])
def test_what_is_told_later_still_is_not_carried(
    step: Step, commits: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even until what stands there is told."""

    async def lived() -> None:
        async with at_step(tmp_path, BOTH_HAD, step) as at:
            carried = _carried(at, monkeypatch)
            late = _TooLate(at, monkeypatch)
            at.consumer(0, BEFORE)
            await late.has_read.wait()
            at.deleted(0)
            at.consumer(0, LAST)
            left = {0: CLIENTS if commits else LAST}
            if commits:
                await at.commit(left)
            assert await at.fetched() == left
            await asyncio.sleep(SOON)
            late.may_be_told.set()
            await asyncio.sleep(SOON)
            assert BEFORE not in carried
            assert await at.fetched() == at.log == at.zookeeper == left

    virtual_time.run(lived())


@pytest.mark.parametrize("step", [Step.ZOOKEEPER_DUAL, Step.KAFKA_DUAL])
def test_what_is_told_of_another_partition_while_one_is_read_again_is_carried(
    step: Step, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one topic. What is read again has it, too, and the watch does not tell it once more."""

    async def lived() -> None:
        async with at_step(tmp_path, BOTH_HAD, step) as at:
            await at.commit({1: BOTH_HAD})
            await asyncio.sleep(SOON)
            late = _TooLate(at, monkeypatch)
            at.consumer(0, BEFORE)
            await late.has_read.wait()
            at.deleted(0)
            at.consumer(0, LAST)
            await at.commit({1: CLIENTS})
            await asyncio.sleep(SOON)  # known after that look had begun: what it tells is read again
            store = at.shim.dual_commit.store
            fetch = store.fetch

            async def read_again(group: str, topics: Collection[str] | None = None) -> dict[Partition, StoredOffset]:
                if topics is not None:
                    monkeypatch.setattr(store, "fetch", fetch)
                    at.consumer(1, LAST)
                    await asyncio.sleep(SOON)  # the watch tells it
                return await fetch(group, topics)

            monkeypatch.setattr(store, "fetch", read_again)
            late.may_be_told.set()
            await asyncio.sleep(2 * SOON)
            assert store.fetch == fetch
            assert at.zookeeper == {0: LAST, 1: LAST}
            assert at.log == {0: LAST, 1: LAST}
            assert await at.fetched() == {0: LAST, 1: LAST}

    virtual_time.run(lived())


class _Between(_TooLate):
    """What the watch reads from now on it is told when a client's commit is about to be written: on condition of a
    version that what has been created anew has, too."""

    def __init__(self, at: DualPlace, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(at, monkeypatch)
        store = at.shim.dual_commit.store
        self._commit = store.commit
        monkeypatch.setattr(store, "commit", self.commit)

    async def commit(self, *what: Any) -> Any:
        self.may_be_told.set()
        await asyncio.sleep(1)
        return await self._commit(*what)


@pytest.mark.parametrize("step", [Step.ZOOKEEPER_DUAL, Step.KAFKA_DUAL])
def test_what_is_told_while_it_is_written_over_is_not_carried(
    step: Step, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lived() -> None:
        async with at_step(tmp_path, BOTH_HAD, step) as at:
            carried = _carried(at, monkeypatch)
            late = _Between(at, monkeypatch)
            at.deleted(0)
            at.consumer(0, BEFORE)
            await late.has_read.wait()
            await at.commit({0: CLIENTS})
            await asyncio.sleep(SOON)
            assert not carried
            assert await at.fetched() == at.log == at.zookeeper == {0: CLIENTS}

    virtual_time.run(lived())


class _AnsweredLate:
    """What a consumer has written just before the shim does the shim reads at once; that is answered when the watch has
    told what the consumer has written next, as where there is no room for the rest of many reads."""

    def __init__(self, at: DualPlace, monkeypatch: pytest.MonkeyPatch) -> None:
        self._at = at
        self._is_told = asyncio.Event()
        self._before: Any = None
        ensemble, dual_commit = at.shim.ensemble, at.shim.dual_commit
        self._multi, self._get_many, self._tell = ensemble.multi, ensemble.get_many, dual_commit.watch._tell
        monkeypatch.setattr(ensemble, "multi", self.multi)
        monkeypatch.setattr(ensemble, "get_many", self.get_many)
        monkeypatch.setattr(dual_commit.watch, "_tell", self.tell)

    async def multi(self, operations: Sequence[Any]) -> Any:
        if self._before is None:
            self._before = operations
            self._at.consumer(0, BEFORE)
        return await self._multi(operations)

    async def get_many(self, paths: Sequence[str], *others: Any, watch: Any = None, **more: Any) -> Any:
        found = await self._get_many(paths, *others, watch=watch, **more)
        if watch is None and self._before is not None and not self._is_told.is_set():
            self._at.consumer(0, LAST)
            await self._is_told.wait()
        return found

    def tell(self, group: str, offsets: Mapping[Partition, StoredOffset]) -> None:
        self._tell(group, offsets)
        if any(each.offset == LAST for each in offsets.values()):
            self._is_told.set()


@pytest.mark.parametrize("step", [Step.ZOOKEEPER_DUAL, Step.KAFKA_DUAL])
def test_what_is_told_while_a_conflict_is_looked_at_is_not_forgotten(
    step: Step, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lived() -> None:
        async with at_step(tmp_path, BOTH_HAD, step) as at:
            _AnsweredLate(at, monkeypatch)
            at.deleted(0)
            with suppress(NotDone):
                await at.fetched()  # it is written again
            await asyncio.sleep(2 * SOON)
            assert at.log == at.zookeeper == {0: LAST}

    virtual_time.run(lived())
