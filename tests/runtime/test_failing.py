"""A partition whose writes go on failing: it is tried again less and less often, and says so once."""

from __future__ import annotations

import asyncio
import errno
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

import shim.runtime.failing as failing_module
from protocol.errors import ErrorCode
from protocol.messages.offset_fetch import OffsetFetchResponseGroup
from shim.disk_log import DiskBackend
from shim.log.journal.journal import JOURNAL_NAME
from shim.runtime.failing import Failing
from shim.serve.health import Health
from shim.serve.measuring import Measuring
from shim.serve.overview import Whole
from shim.upstream import Cluster
from tests.runtime.held_log import WAIT_SECONDS
from tests.runtime.running import Running, offset_in, running
from tests.runtime.test_owning import sharing

FULL = OSError(errno.ENOSPC, "No space left on device")
LONG_MS = 3_600_000


def test_the_pause_grows_while_writes_fail_and_ends_with_one_that_lands() -> None:
    failing = Failing()
    assert not failing
    assert failing.left(0) == 0
    lengths = []
    for now in range(0, 8_000_000, 1_000_000):
        failing.failed(now, FULL)
        assert failing
        lengths.append(failing.left(now))
        assert failing.left(now + lengths[-1] - 1) == 1
        assert failing.left(now + lengths[-1]) == 0
    assert lengths == [500, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000, 10_000]
    failing.landed()
    assert not failing
    assert failing.left(7_000_000) == 0
    failing.failed(8_000_000, FULL)
    assert failing.left(8_000_000) == 500


def test_what_is_wrong_is_news_once() -> None:
    failing = Failing()
    other = OSError(errno.EIO, "Input/output error")
    assert [failing.failed(0, error) for error in (FULL, FULL, other, other, FULL)] == [True, False, True, False, True]
    failing.landed()
    assert failing.failed(0, FULL)


def fill_the_disk(shim: Running) -> None:
    shim.log.files.fail("pwrite", errno.ENOSPC, "__consumer_offsets-0", JOURNAL_NAME)


async def test_a_full_disk_is_told_of_once_and_when_it_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Of commits that go on failing nothing is served, and what was acknowledged is there all the while."""
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(failing_module, "FIRST_PAUSE_MS", 1)
    monkeypatch.setattr(failing_module, "LONGEST_PAUSE_MS", 4)
    async with running(tmp_path) as shim:
        served = asyncio.Event()
        shim.runtime.watch(lambda number, its: served.set() if number == 0 and its is not None else None)
        shim.log.release(1_000)
        group = shim.group_in(0)
        assert await shim.commit(group, 1).result() is not None
        assert offset_in(await shim.fetch(group).result()) == 1
        caplog.clear()
        fill_the_disk(shim)
        for offset in range(2, 8):
            served.clear()
            assert await shim.commit(group, offset).result() is ErrorCode.NOT_COORDINATOR
            assert shim.runtime.failing == 1
            assert await shim.commit(group, offset).result() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            async with asyncio.timeout(WAIT_SECONDS):
                await served.wait()
            assert shim.runtime.failing == 0
            assert offset_in(await shim.fetch(group).result()) == 1
        shim.log.files.heal()
        for offset in (8, 9):
            assert not isinstance(await shim.commit(group, offset).result(), ErrorCode)
            assert offset_in(await shim.fetch(group).result()) == offset
        lines = [record.getMessage() for record in caplog.records if "__consumer_offsets-0" in record.getMessage()]
        assert len(lines) == 2, lines
        assert "a write failed, and it is read back for now" in lines[0]
        assert "No space left on device" in lines[0]
        assert lines[1].endswith("it is written again")


async def test_during_the_pause_it_is_not_read_back_and_the_shim_is_not_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does it hold up a stop."""
    monkeypatch.setattr(failing_module, "FIRST_PAUSE_MS", LONG_MS)
    monkeypatch.setattr(failing_module, "LONGEST_PAUSE_MS", LONG_MS)
    async with running(tmp_path) as shim:
        health = Health()
        reachable = cast(Cluster, type("Reachable", (), {"reachable": True})())
        health.opened(shim.runtime, reachable, cast(Whole, None), cast(Measuring, None))
        shim.log.release(1_000)
        group = shim.group_in(0)
        await shim.commit(group, 1).result()
        ready = health.missing()
        fill_the_disk(shim)
        assert await shim.commit(group, 2).result() is ErrorCode.NOT_COORDINATOR
        shim.log.files.heal()
        shim.log.files.calls.clear()
        assert not isinstance(await shim.commit(shim.group_in(1), 5).result(), ErrorCode), "another partition's"
        assert await shim.fetch(group).result() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert not [call for call, path in shim.log.files.calls if "__consumer_offsets-0" in str(path)]
        assert [line for line in health.missing() if line not in ready] == [
            "1 of 3 partitions is not loaded",
            "the last write of 1 partition failed",
        ]


async def test_before_the_start_is_over_what_is_loaded_is_told_as_loaded(tmp_path: Path) -> None:
    async with running(tmp_path, admitted=False) as shim:
        health = Health()
        away = cast(Cluster, SimpleNamespace(reachable=False, looked_up=False))
        health.opened(shim.runtime, away, cast(Whole, None), cast(Measuring, None))
        assert health.missing() == [
            "no broker of the cluster can be reached yet",
            "3 of 3 partitions are loaded, and not served before the start is over",
            "the start is not over yet",
        ]
        assert (shim.runtime.unavailable, shim.runtime.held_back) == ({}, 3)
        assert await shim.fetch(shim.group_in(0)).result() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        shim.runtime.admit()
        assert (shim.runtime.unavailable, shim.runtime.held_back) == ({}, 0)
        assert health.missing() == ["no broker of the cluster can be reached yet", "the start is not over yet"]


async def test_one_that_pauses_is_given_up_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failing_module, "FIRST_PAUSE_MS", LONG_MS)
    monkeypatch.setattr(failing_module, "LONGEST_PAUSE_MS", LONG_MS)
    async with sharing(tmp_path) as shim:
        shim.runtime.own([0, 1])
        await shim.serves(0, 1)
        shim.log.release(1_000)
        fill_the_disk(shim)
        assert await shim.commit(shim.group_in(0), 2).result() is ErrorCode.NOT_COORDINATOR
        assert await shim.answer(0) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        shim.runtime.own([1])
        assert await shim.answer(0) is ErrorCode.NOT_COORDINATOR
        async with asyncio.timeout(WAIT_SECONDS):
            while 0 not in shim.backend.released:
                shim.changed.clear()
                await shim.changed.wait()
        assert isinstance(await shim.answer(1), OffsetFetchResponseGroup)


async def test_a_line_names_the_log_that_it_is_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As the backend calls it: a partition need not be in the data directory."""
    monkeypatch.setattr(failing_module, "FIRST_PAUSE_MS", 1)
    monkeypatch.setattr(DiskBackend, "name_of", lambda self, number: f"elsewhere-{number}")
    caplog.set_level(logging.DEBUG, "shim.runtime")
    async with running(tmp_path) as shim:
        served = asyncio.Event()
        shim.runtime.watch(lambda number, its: served.set() if its is not None else None)
        shim.log.release(1_000)
        fill_the_disk(shim)
        assert await shim.commit(shim.group_in(0), 1).result() is ErrorCode.NOT_COORDINATOR
        shim.log.files.heal()
        async with asyncio.timeout(WAIT_SECONDS):
            await served.wait()
        assert not isinstance(await shim.commit(shim.group_in(0), 1).result(), ErrorCode)
        lines = [record.getMessage().partition(": ") for record in caplog.records if "-0" in record.getMessage()]
        assert [(name, what.partition(",")[0]) for name, _, what in lines] == [
            ("elsewhere-0", "a write failed"),
            ("elsewhere-0", "reloaded and served again"),
            ("elsewhere-0", "it is written again"),
        ]
