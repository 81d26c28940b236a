"""Partitions that come to this process, and go to others, while it runs."""

from __future__ import annotations

import asyncio
import errno
import logging
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from protocol.errors import ErrorCode
from protocol.messages.offset_fetch import OffsetFetchResponseGroup
from shim.config import Settings
from shim.coordinator import GroupCoordinator
from shim.disk_log import DiskBackend
from shim.log import LogSettings
from shim.log.journal.journal import JOURNAL_NAME
from shim.migration.hands.placements import Placements
from shim.runtime import Clock, Runtime
from shim.runtime.backend import Loaded, OwnedElsewhere
from shim.runtime.partition import Partition
from shim.runtime.progress import NewShare
from shim.upstream.errors import ARRIVES_WITHIN_SECONDS, PASSED_ON_WITHIN_SECONDS
from tests.runtime.held_log import WAIT_SECONDS, HeldLog
from tests.runtime.running import PARTITIONS, Running, offset_in, running

SETTINGS = Settings(offsets_topic_num_partitions=PARTITIONS, offsets_history_retention_minutes=0)


class Fenced(OSError, OwnedElsewhere):
    """As of a log on topics, whose other trouble passes."""


class SharedBackend(DiskBackend):
    """A log on the disk of which others may have partitions, by the word of the test."""

    elsewhere: set[int]
    loads: list[int]
    released: list[int]

    is_among_shims = True

    async def load(self, number: int) -> Loaded:
        self.loads.append(number)
        if number in self.elsewhere:
            raise Fenced(f"partition {number} is somebody else's")
        return await super().load(number)

    async def release(self, number: int) -> None:
        assert self.writes.flight_of(number) is None, "while something of it is being written"
        self.released.append(number)
        self.said()

    def said(self) -> None:
        """For the test."""


class Sharing(Running):
    backend: SharedBackend

    def __init__(self, runtime: Runtime, backend: SharedBackend, log: HeldLog) -> None:
        super().__init__(runtime, backend, log)
        self.served: dict[int, GroupCoordinator | None] = {}
        self.lost = 0
        self.changed = asyncio.Event()
        backend.said = self.changed.set  # type: ignore[method-assign]
        runtime.watch(self._watch)
        runtime.lost = self._lost

    @property
    def owned(self) -> list[int] | None:
        return None if self.runtime.owned is None else list(self.runtime.owned)

    def _watch(self, number: int, coordinator: GroupCoordinator | None) -> None:
        self.served[number] = coordinator
        self.changed.set()

    def _lost(self) -> None:
        self.lost += 1
        self.changed.set()

    async def serves(self, *numbers: int) -> None:
        async with asyncio.timeout(WAIT_SECONDS):
            while {number for number, its in self.served.items() if its is not None} != set(numbers):
                self.changed.clear()
                await self.changed.wait()

    async def loses(self, count: int) -> None:
        async with asyncio.timeout(WAIT_SECONDS):
            while self.lost < count:
                self.changed.clear()
                await self.changed.wait()

    async def answer(self, number: int) -> object:
        return await self.fetch(self.group_in(number)).result()


@asynccontextmanager
async def sharing(data_dir: Path, *elsewhere: int) -> AsyncIterator[Sharing]:
    log = HeldLog.at(data_dir, PARTITIONS, log_settings=LogSettings.of(SETTINGS))
    backend = SharedBackend(log, SETTINGS, Clock(), files=log.files)
    backend.is_divided = True
    backend.elsewhere, backend.loads, backend.released = set(elsewhere), [], []
    runtime = Runtime(backend, SETTINGS, Clock())
    runtime.admit()
    shim = Sharing(runtime, backend, log)
    loading = asyncio.create_task(runtime.load())
    writing = asyncio.create_task(runtime.run())
    try:
        yield shim
    finally:
        shim.stop()
        log.release(1_000)
        async with asyncio.timeout(WAIT_SECONDS):
            await asyncio.gather(loading, writing)
        await runtime.close(WAIT_SECONDS)


async def test_what_is_owned_is_served_and_nothing_else(tmp_path: Path) -> None:
    async with sharing(tmp_path) as shim:
        assert not shim.owned
        assert await shim.answer(0) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        shim.runtime.own([0, 2])
        await shim.serves(0, 2)
        assert shim.owned == [0, 2]
        assert await shim.answer(1) is ErrorCode.NOT_COORDINATOR
        assert shim.runtime.why_not(1) is ErrorCode.NOT_COORDINATOR
        assert not shim.runtime.unavailable, "it is nobody's trouble that others have some"
        shim.runtime.own([1])
        assert await shim.answer(0) is ErrorCode.NOT_COORDINATOR
        await shim.serves(1)
        assert isinstance(await shim.answer(1), OffsetFetchResponseGroup)
        assert shim.backend.loads == [0, 2, 1]


async def test_what_was_decided_is_written_and_answered_before_it_is_released(tmp_path: Path) -> None:
    async with sharing(tmp_path) as shim:
        shim.runtime.own([0, 1])
        await shim.serves(0, 1)
        first = shim.commit(shim.group_in(0), 1)
        await shim.log.write_begun()
        second, parked = shim.commit(shim.group_in(0), 2), shim.join(shim.group_in(0, 1))
        shim.runtime.own([1])
        assert await parked.result() is ErrorCode.NOT_COORDINATOR
        assert [each.told for each in (first, second)] == [False, False]
        assert shim.backend.released == []
        shim.log.release(1_000)
        for each in (first, second):
            answer = await each.result()
            assert not isinstance(answer, ErrorCode)
        shim.runtime.own([0])  # back again
        await shim.serves(0)
        fetched = await shim.answer(0)
        assert isinstance(fetched, OffsetFetchResponseGroup)
        assert offset_in(fetched) == 2
        assert shim.backend.released in ([0, 1], [1, 0], [1])


async def test_given_up_and_taken_back_before_it_is_loaded(tmp_path: Path) -> None:
    async with sharing(tmp_path) as shim:
        shim.runtime.own([0, 1])
        shim.runtime.own([1])
        shim.runtime.own([1, 0])
        shim.runtime.own([2])
        await shim.serves(2)
        shim.runtime.own([0, 1, 2])
        shim.served.clear()
        shim.runtime.own([2])
        assert shim.served == {0: None, 1: None}, "whoever watches is told, though they were never served"
        shim.served[2] = shim.runtime.coordinator(2)
        async with asyncio.timeout(WAIT_SECONDS):
            while set(shim.backend.released) != {0, 1}:
                shim.changed.clear()
                await shim.changed.wait()
        shim.runtime.own([0, 1, 2])
        await shim.serves(0, 1, 2)


async def test_what_somebody_else_has_is_tried_again_when_that_is_said_again(tmp_path: Path) -> None:
    async with sharing(tmp_path, 1) as shim:
        shim.runtime.own([0, 1])
        await shim.serves(0)
        await shim.loses(1)
        assert await shim.answer(1) is ErrorCode.NOT_COORDINATOR
        assert shim.served[1] is None, "whoever watches is told"
        assert shim.runtime.unavailable == {ErrorCode.NOT_COORDINATOR: 1}
        shim.runtime.own([0, 1])
        await shim.loses(2)
        shim.backend.elsewhere.clear()
        assert shim.backend.loads.count(1) == 2
        shim.runtime.own([0, 1])
        await shim.serves(0, 1)
        assert shim.backend.loads.count(0) == 1


async def test_a_write_that_was_fenced_gives_the_partition_up(tmp_path: Path) -> None:
    async with sharing(tmp_path) as shim:
        shim.runtime.own([0, 1])
        await shim.serves(0, 1)
        commit = shim.commit(shim.group_in(0), 1)
        await shim.log.write_begun()
        flight = shim.backend.writes.flying_of(0)
        shim.runtime._failed({0: OwnedElsewhere("fenced")}, flight)
        assert await commit.result() is ErrorCode.NOT_COORDINATOR
        assert shim.lost == 1
        assert await shim.answer(0) is ErrorCode.NOT_COORDINATOR
        shim.log.release(1_000)
        assert shim.backend.loads.count(0) == 1, "it is not taken back"
        assert isinstance(await shim.answer(1), OffsetFetchResponseGroup)


async def test_how_long_what_another_shim_has_sent_to_the_cluster_may_arrive(tmp_path: Path) -> None:
    async with sharing(tmp_path) as shim:
        placements = Placements(shim.runtime)
        here, there = shim.group_in(0), shim.group_in(1)
        shim.runtime.own([0])
        await shim.serves(0)
        since = placements.may_arrive_seconds(here)
        assert 0 < since <= PASSED_ON_WITHIN_SECONDS + ARRIVES_WITHIN_SECONDS
        shim.runtime.own([0, 1])
        await shim.serves(0, 1)
        first = placements.may_arrive_seconds(here)
        assert placements.may_arrive_seconds(there) > first
        shim.runtime._failed({0: OSError("it is read back")}, shim.backend.writes.flying_of(0))
        await shim.serves(1)
        await shim.serves(0, 1)
        assert placements.may_arrive_seconds(here) > first, "nobody knows who had it meanwhile"
        shim.runtime.own([1])
        await shim.serves(1)
        again = placements.may_arrive_seconds(there)
        shim.runtime.own([0, 1])
        await shim.serves(0, 1)
        assert placements.may_arrive_seconds(here) > again


async def test_nothing_may_arrive_where_there_is_no_other_shim(tmp_path: Path) -> None:
    async with running(tmp_path) as shim:
        placements = Placements(shim.runtime)
        assert not placements.may_arrive_seconds(shim.group_in(0))
        assert placements.surely_here([shim.group_in(0)])


async def test_groups_are_confirmed_where_all_their_partitions_are_here(tmp_path: Path) -> None:
    async with sharing(tmp_path) as shim:
        placements = Placements(shim.runtime)
        groups = [shim.group_in(number) for number in (0, 1, 2)]
        shim.runtime.own([0, 1])
        await shim.serves(0, 1)
        assert await placements.confirmed_here(groups[:2]) is ErrorCode.NONE
        assert await placements.confirmed_here(groups) is ErrorCode.NOT_COORDINATOR


async def test_a_new_share_is_told_of_when_all_of_it_is_served(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """And not what is lost of it, nor what was loaded first, of which there is another line."""
    caplog.set_level(logging.INFO, "shim.runtime")

    def lines() -> list[str]:
        return [re.sub(r"[\d.]+ s$", "", line) for line in caplog.messages if " taken over in " in line]

    async with sharing(tmp_path) as shim:
        shim.runtime.own([0])
        await shim.serves(0)
        assert lines() == []
        shim.runtime.own([0, 1, 2])
        await shim.serves(0, 1, 2)
        assert lines() == ["2 partitions taken over in "]
        shim.runtime.own([0])
        await shim.serves(0)
        shim.backend.elsewhere.add(1)
        shim.runtime.own([0, 1, 2])
        await shim.loses(1)
        await shim.serves(0, 2)
        assert lines()[1:] == ["1 partition taken over in "]
        shim.backend.elsewhere.clear()
        shim.runtime.own([0, 1, 2])
        await shim.serves(0, 1, 2)
        assert lines()[2:] == ["1 partition taken over in "]


def test_what_comes_while_some_is_missing_is_one_share(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "shim.runtime")
    share, partitions = NewShare(), [Partition(number) for number in range(5)]
    share.comes(partitions[:2], 1_000)
    share.served(partitions[0], 2_000)
    share.comes(partitions[2:4], 3_000)
    for left in (3, 4):  # that it never was to have one is no matter
        share.left(partitions[left], 3_500)
    share.served(partitions[1], 4_000)
    assert caplog.messages == []
    share.served(partitions[2], 4_700)
    assert caplog.messages == ["3 partitions taken over in 3.7 s"]
    share.comes([partitions[0]], 9_000)
    share.left(partitions[0], 9_100)
    assert len(caplog.messages) == 1, "nothing was taken over"


async def test_where_a_partition_is_that_is_on_its_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    goes_on = asyncio.Event()
    load = SharedBackend.load

    async def held(self: SharedBackend, number: int) -> Loaded:
        await goes_on.wait()
        return await load(self, number)

    async with sharing(tmp_path) as shim:
        shim.runtime.own([0])
        await shim.serves(0)
        monkeypatch.setattr(SharedBackend, "load", held)
        assert shim.runtime.where_it_is(1) == "at another shim"
        shim.runtime.own([0, 1])
        assert shim.runtime.where_it_is(1) == "being taken over, ask again"
        shim.log.release(1_000)
        shim.log.files.fail("pwrite", errno.EIO, "__consumer_offsets-0", JOURNAL_NAME)
        assert await shim.commit(shim.group_in(0), 2).result() is ErrorCode.NOT_COORDINATOR
        assert shim.runtime.where_it_is(0) == "being read back, ask again"
        goes_on.set()
        await shim.serves(0, 1)
