"""Snapshots at the stop: which are given up, and which are taken."""

from __future__ import annotations

import asyncio
import errno
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from protocol.errors import ErrorCode
from protocol.own.history_log import HISTORY_TOPIC
from protocol.partition import OFFSETS_TOPIC
from shim.coordinator import GroupCoordinator
from shim.coordinator.state.dump import StateDump
from shim.coordinator.state.offset_table import TableDump
from shim.log.directory.handover import CLEAN_SHUTDOWN
from shim.log.journal.journal import JOURNAL_NAME
from shim.log.partition.snapshot import snapshot_name
from shim.runtime import snapshots as snapshots_module
from tests.runtime.held_log import WAIT_SECONDS
from tests.runtime.running import running
from tests.runtime.snapshots.as_replayed import ONE, assert_as_replayed, commits, snapshot_offsets, unfinished
from tests.runtime.test_runtime import error_in
from tests.waiting import until


async def test_at_the_stop_those_come_first_that_are_of_most_use(tmp_path: Path, takes: list[Path]) -> None:
    async with running(tmp_path, replace(ONE, offsets_topic_num_partitions=3)) as shim:
        shim.log.release(1_000)
        for partition, records in ((0, 6), (1, 9), (2, 7)):
            await commits(shim, range(records), shim.group_in(partition))
        assert not takes
    assert [path.parent.name for path in takes if OFFSETS_TOPIC in str(path)] == [
        f"{OFFSETS_TOPIC}-{partition}" for partition in (1, 2, 0)
    ]


async def test_at_the_stop_one_that_a_compaction_has_removed_saves_nothing(tmp_path: Path, takes: list[Path]) -> None:
    async with running(tmp_path, replace(ONE, offsets_topic_num_partitions=2)) as shim:
        shim.log.release(1_000)
        await commits(shim, range(10), shim.group_in(0))
        await until(lambda: snapshot_offsets(tmp_path) == [10] and shim.backend._snapshots._taking is None)
        await commits(shim, range(1), shim.group_in(0))
        await commits(shim, range(9), shim.group_in(1))
        shim.log.partition_log(0).snapshots.outdate(10)
        takes.clear()
    assert [path.name for path in takes if OFFSETS_TOPIC in str(path)] == [snapshot_name(11), snapshot_name(9)]


async def test_one_is_taken_at_the_stop_where_it_is_of_use(tmp_path: Path) -> None:
    async with running(tmp_path, ONE) as shim:
        shim.log.release(1_000)
        await commits(shim, range(4))
    assert snapshot_offsets(tmp_path) == []
    async with running(tmp_path, ONE) as shim:
        shim.log.release(1_000)
        await commits(shim, range(4, 6))
        last = shim.commit("g", 6)
        shim.stop()
        assert error_in(await last.result()) == ErrorCode.NONE
    assert snapshot_offsets(tmp_path) == snapshot_offsets(tmp_path, HISTORY_TOPIC) == [7]
    assert assert_as_replayed(tmp_path, ONE) == (0, 7)


async def test_none_is_taken_at_the_stop_of_what_could_not_be_written(tmp_path: Path) -> None:
    async with running(tmp_path, ONE) as shim:
        shim.log.release(8)
        await commits(shim, range(8))
        doomed = shim.commit("g", 8)
        await until(lambda: len(shim.log.writes) == 9)
        shim.log.files.fail("fdatasync", errno.EIO, "__consumer_offsets", JOURNAL_NAME)
        shim.stop()
        shim.log.release(1)
        assert await doomed.result() is ErrorCode.NOT_COORDINATOR
        shim.log.files.heal()
    assert snapshot_offsets(tmp_path) == []
    assert_as_replayed(tmp_path, ONE)


async def test_the_time_at_the_stop_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("shim.disk_log.backend.LAST_SNAPSHOTS_SECONDS", 0.0)
    caplog.set_level("INFO")
    async with running(tmp_path, ONE) as shim:
        shim.log.release(1_000)
        await commits(shim, range(8))
    assert snapshot_offsets(tmp_path) == []
    assert "1 partition left without a new snapshot" in caplog.text


class JumpingTime:
    def __init__(self) -> None:
        self.ahead = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead


@pytest.mark.parametrize("over", ["in the dump", "in the writing"])
async def test_at_the_stop_one_that_takes_too_long_is_given_up(
    tmp_path: Path, over: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A large one, or a slow disk: that is no disk that does not answer, and the log is closed in good order."""
    caplog.set_level("INFO")
    clock = JumpingTime()
    monkeypatch.setattr(snapshots_module, "time", clock)
    for size in ("shim.runtime.snapshots._LOOK_EVERY", "shim.log.partition.snapshot._CHUNK_SIZE"):
        monkeypatch.setattr(size, 4)
    steps = 0
    step = StateDump.step

    def slow_step(dump: StateDump) -> bool:
        nonlocal steps
        steps += 1
        if over == "in the dump" and steps == 2:
            clock.ahead = 100.0
        return step(dump)

    def slow_write(path: Path) -> None:
        if path.suffix == ".tmp":
            clock.ahead = 100.0

    monkeypatch.setattr(StateDump, "step", slow_step)
    async with running(tmp_path, replace(ONE, offsets_topic_num_partitions=2)) as shim:
        shim.log.release(1_000)
        for group in range(4):
            for partition in (0, 1):
                await commits(shim, range(2), shim.group_in(partition, group))
        assert steps < 1
        shim.log.files.calls.clear()
        if over == "in the writing":
            shim.log.files.faults["pwrite"] = slow_write
    assert "2 partitions left without a new snapshot" in caplog.text
    assert not unfinished(tmp_path)
    assert snapshot_offsets(tmp_path, number=0) == snapshot_offsets(tmp_path, number=1) == []
    writes = [path for method, path in shim.log.files.calls if method == "pwrite" and "snapshot" in path.name]
    assert len(writes) == (over == "in the writing")
    assert (steps == 2) == (over == "in the dump")
    assert (tmp_path / CLEAN_SHUTDOWN).exists()


@pytest.mark.parametrize("written", ["a piece at a time", "at one stroke"])
async def test_a_stop_gives_up_the_one_in_the_making_and_takes_it_anew(
    tmp_path: Path, written: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("shim.runtime.snapshots._LOOK_EVERY", "shim.log.partition.snapshot._CHUNK_SIZE"):
        monkeypatch.setattr(module, 4 if written == "a piece at a time" else 1 << 20)
    writing, go_on = threading.Event(), threading.Event()

    def slow(path: Path) -> None:
        if path.suffix == ".tmp" and OFFSETS_TOPIC in str(path):
            writing.set()
            assert go_on.wait(WAIT_SECONDS)

    async with running(tmp_path, ONE) as shim:
        shim.log.files.faults["pwrite"] = slow
        shim.log.release(1_000)
        await commits(shim, range(10))
        await until(writing.is_set)
        shim.stop()
        go_on.set()
    assert snapshot_offsets(tmp_path) == [10]
    assert not unfinished(tmp_path)
    name = tmp_path / f"{OFFSETS_TOPIC}-0" / snapshot_name(10)
    calls = [method for method, path in shim.log.files.calls if path in (name, name.with_name(f"{name.name}.tmp"))]
    if written == "a piece at a time":
        assert calls[:5] == ["create", "pwrite", "unlink", "create", "pwrite"]
        assert calls.count("pwrite") > 10
    assert assert_as_replayed(tmp_path, ONE) == (0, 10)


async def test_a_stop_gives_up_a_dump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shim.disk_log.backend.LAST_SNAPSHOTS_SECONDS", 0.0)
    steps = 0

    def step(_: StateDump) -> bool:
        nonlocal steps
        steps += 1
        return True

    monkeypatch.setattr(StateDump, "step", step)
    async with running(tmp_path, ONE) as shim:
        shim.log.release(1_000)
        await commits(shim, range(10))
        await until(lambda: steps)
    assert snapshot_offsets(tmp_path) == []
    assert asyncio.all_tasks() == {asyncio.current_task()}, "it goes on"


async def test_a_dump_that_was_given_up_is_not_finished_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step, keep = StateDump.step, TableDump._keep
    begun: list[StateDump] = []
    dumped: list[str] = []

    def first_does_not_get_on(dump: StateDump) -> bool:
        if dump not in begun:
            begun.append(dump)
        return True if dump is begun[0] else step(dump)

    def kept(dump: TableDump, group: str, *of_group: Any) -> None:
        dumped.append(group)
        keep(dump, group, *of_group)

    monkeypatch.setattr(StateDump, "step", first_does_not_get_on)
    monkeypatch.setattr(TableDump, "_keep", kept)
    async with running(tmp_path, ONE) as shim:
        shim.log.release(1_000)
        await commits(shim, range(10))
        await until(lambda: begun)
        assert dumped == []
    assert len(begun) == 2
    assert dumped == ["g"]
    assert snapshot_offsets(tmp_path) == [10]
    with pytest.raises(RuntimeError, match="not at its end"):
        begun[0].pieces()


@pytest.mark.parametrize("topic", [OFFSETS_TOPIC, HISTORY_TOPIC])
async def test_one_that_waits_to_be_taken_again_is_taken_at_the_stop(
    tmp_path: Path, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path, ONE) as shim:
        shim.log.release(10)
        shim.log.files.fail("create", errno.ENOSPC, f"{topic}-0/{snapshot_name(10)}")
        await commits(shim, range(10))
        await until(lambda: "a snapshot could not be written" in caplog.text)
        await until(lambda: shim.backend._snapshots._taking is None)
        assert snapshot_offsets(tmp_path, topic) == []
        shim.log.files.heal()
        shim.commit("g", 10)
        await until(lambda: len(shim.log.writes) == 11)
        shim.commit("g", 11)
        shim.stop()
        shim.backend._snapshots._take_again(0)  # its time has come, and there is one more write
    assert len(shim.log.writes) == 12
    assert snapshot_offsets(tmp_path) == snapshot_offsets(tmp_path, HISTORY_TOPIC) == [12]


async def test_at_the_stop_one_that_breaks_off_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    begin_dump = GroupCoordinator.begin_dump

    def breaks_off(coordinator: GroupCoordinator) -> StateDump:
        if coordinator.offset_count == 2:
            raise RuntimeError("a bug")
        return begin_dump(coordinator)

    monkeypatch.setattr(GroupCoordinator, "begin_dump", breaks_off)
    async with running(tmp_path, replace(ONE, offsets_topic_num_partitions=2)) as shim:
        shim.log.release(1_000)
        await commits(shim, range(4), shim.group_in(0))
        await commits(shim, range(4), shim.group_in(0, 1))
        await commits(shim, range(7), shim.group_in(1))
    assert "no snapshot of partition 0 was taken" in caplog.text
    assert snapshot_offsets(tmp_path, number=0) == []
    assert snapshot_offsets(tmp_path, number=1) == [7]
    assert (tmp_path / CLEAN_SHUTDOWN).exists()


async def test_one_is_taken_at_the_stop_when_a_compaction_has_removed_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path, ONE) as shim:
        shim.log.release(1_000)
        await commits(shim, range(10))
        await until(lambda: snapshot_offsets(tmp_path) == [10] and shim.backend._snapshots._taking is None)
        monkeypatch.setattr(snapshots_module, "LEAST_RECORDS_AT_STOP", 1_000_000)
        await commits(shim, [10])
        shim.log.partition_log(0).snapshots.outdate(10)  # a round that was stopped after its first swap
        assert snapshot_offsets(tmp_path) == []
    assert snapshot_offsets(tmp_path) == [11]
