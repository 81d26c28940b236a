"""When a snapshot is taken, and that nobody waits for it."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from protocol.errors import ErrorCode
from protocol.own.history_log import HISTORY_TOPIC
from protocol.partition import OFFSETS_TOPIC
from shim.coordinator import GroupCoordinator
from shim.coordinator.state.dump import StateDump
from shim.log.cleaner.cleaner import Cleaner
from shim.log.cleaner.cleaning import CleanerSettings
from shim.log.journal.journal import JOURNAL_NAME
from shim.log.partition.snapshot import PartitionSnapshots, snapshot_name
from shim.log.segments.active import LastBatch
from shim.runtime import snapshots as snapshots_module
from tests.runtime.held_log import WAIT_SECONDS, Teller
from tests.runtime.running import offset_in, running
from tests.runtime.snapshots.as_replayed import ONE, assert_as_replayed, commits, snapshot_offsets, unfinished
from tests.runtime.test_runtime import error_in, served_again
from tests.waiting import until


async def test_one_is_taken_after_so_many_records_and_a_start_goes_on_from_there(tmp_path: Path) -> None:
    async with running(tmp_path, ONE) as shim:
        shim.log.release(1_000)
        await commits(shim, range(9))
        assert snapshot_offsets(tmp_path) == []
        await commits(shim, [9])
        await until(lambda: snapshot_offsets(tmp_path, HISTORY_TOPIC))
        assert snapshot_offsets(tmp_path) == snapshot_offsets(tmp_path, HISTORY_TOPIC) == [10]
        await commits(shim, range(10, 13))
    count, offset = assert_as_replayed(tmp_path, ONE)
    assert (count, offset) == (3, 10)
    async with running(tmp_path, ONE) as shim:
        assert offset_in(await shim.fetch("g").result()) == 12
        shim.log.release(1_000)
        await commits(shim, range(13, 21))
        await until(lambda: snapshot_offsets(tmp_path) == [20] or snapshot_offsets(tmp_path) == [21])


async def test_what_is_in_flight_when_one_is_taken_is_in_it_or_there_is_none(tmp_path: Path) -> None:
    async with running(tmp_path, ONE) as shim:
        shim.log.release(10)
        await commits(shim, range(10))
        snapshots = shim.backend._snapshots
        await until(lambda: snapshot_offsets(tmp_path) == [10] and snapshots._taking is None)
        tickets = [shim.commit("g", offset) for offset in range(10, 20)]
        await until(lambda: len(shim.log.writes) == 11)
        tickets += [shim.commit("h", offset) for offset in range(3)]
        shim.log.release(1)
        await until(lambda: len(shim.log.writes) == 12)
        assert snapshots._taking is not None, "it is begun with the second flight, which is held on its way to the disk"
        await snapshots.ended()
        assert snapshot_offsets(tmp_path) == [10], "its thread has nothing to write"
        shim.log.release(1)
        for ticket in tickets:
            assert error_in(await ticket.result()) == ErrorCode.NONE
        await until(lambda: snapshot_offsets(tmp_path) == [23])
    assert assert_as_replayed(tmp_path, ONE) == (0, 23)


@pytest.mark.parametrize("call", ["pwrite", "fdatasync"])
async def test_none_of_a_flight_that_fails(tmp_path: Path, call: str) -> None:
    async with running(tmp_path, ONE) as shim:
        shim.log.release(9)
        await commits(shim, range(9))
        ticket = shim.commit("g", 9)
        await until(lambda: len(shim.log.writes) == 10)
        doomed = shim.commit("g", 10)  # the snapshot is begun with this one
        shim.log.release(1)
        await ticket.result()
        shim.log.files.fail(call, errno.EIO, "__consumer_offsets", JOURNAL_NAME)
        shim.log.release(1)
        assert await doomed.result() is ErrorCode.NOT_COORDINATOR
        shim.log.files.heal()
        assert offset_in(await served_again(shim, "g")) == 9
        # Read back, it has as many records to replay as before.
        await until(lambda: snapshot_offsets(tmp_path) == [10])
    assert assert_as_replayed(tmp_path, ONE) == (0, 10)


async def test_requests_go_on_while_one_is_dumped_and_while_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots_module, "_STEP_S", 0.0)
    turns: list[str] = []
    meanwhile: list[Teller] = []
    step = StateDump.step

    def counted(dump: StateDump) -> bool:
        turns.append("step")
        loop = asyncio.get_running_loop()
        loop.call_soon(turns.append, "another's turn")
        if len(meanwhile) < 3:
            loop.call_soon(lambda: meanwhile.append(shim.commit(f"g{len(meanwhile)}", 2)))
        return step(dump)

    writing, go_on = threading.Event(), threading.Event()
    take = PartitionSnapshots.take

    def slow(snapshots: PartitionSnapshots, anchor: LastBatch, payload: Iterable[bytes]) -> Path | None:
        writing.set()
        assert go_on.wait(WAIT_SECONDS)
        return take(snapshots, anchor, payload)

    monkeypatch.setattr(StateDump, "step", counted)
    monkeypatch.setattr(PartitionSnapshots, "take", slow)
    try:
        async with running(tmp_path, ONE) as shim:
            shim.log.release(1_000)
            for group in range(300):
                first = shim.commit(f"g{group}", 1)
            await first.result()
            await until(writing.is_set)
            assert turns == ["step", "another's turn"] * (len(turns) // 2)
            assert len(turns) > 200
            for ticket in meanwhile:
                assert error_in(await ticket.result()) == ErrorCode.NONE
            assert snapshot_offsets(tmp_path) == []
            go_on.set()
            await until(lambda: snapshot_offsets(tmp_path) == [300])
        assert assert_as_replayed(tmp_path, ONE) == (3, 300)
    finally:
        go_on.set()


@pytest.mark.parametrize("nothing_written", ["as it is too large", "as the disk fails"])
async def test_none_is_begun_where_nothing_of_the_flight_was_written(
    tmp_path: Path,
    nothing_written: str,
    monkeypatch: pytest.MonkeyPatch,
    takes: list[Path],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The log's end is then as good as before, and a snapshot of more could be anchored to it."""
    async with running(tmp_path, ONE) as shim:
        shim.log.release(9)
        await commits(shim, range(9))
        ticket = shim.commit("g", 9)
        await until(lambda: len(shim.log.writes) == 10)
        doomed = shim.commit("g", 10)  # a snapshot is begun with this one
        shim.log.release(1)
        await ticket.result()
        await until(lambda: len(shim.log.writes) == 11)
        assert shim.backend._snapshots._taking is not None
        with monkeypatch.context() as patch:
            if nothing_written == "as the disk fails":
                shim.log.files.fail("pwrite", errno.EIO, ".log")
            else:
                for limit in ("MAX_BATCH_BYTES", "MAX_RECORD_SET_BYTES"):
                    patch.setattr(f"shim.log.segments.batching.{limit}", 1)
            shim.log.release(1)
            assert await doomed.result() is ErrorCode.NOT_COORDINATOR
            await until(lambda: shim.backend._snapshots._taking is None)
        assert not takes
        shim.log.files.heal()
        assert offset_in(await served_again(shim, "g")) == 9
        await until(lambda: takes)
        assert "no snapshot was taken" not in caplog.text
    assert {path.name for path in takes} == {snapshot_name(10)}
    assert assert_as_replayed(tmp_path, ONE) == (0, 10)


async def test_of_many_offsets_one_is_taken_after_as_many_records(tmp_path: Path, takes: list[Path]) -> None:
    async with running(tmp_path, ONE) as shim:
        shim.log.release(1_000)
        for group in range(10):
            await commits(shim, [group], f"g{group}")
        await until(lambda: snapshot_offsets(tmp_path) == [10])
        for group in range(10, 20):
            await commits(shim, [group], f"g{group}")
        await commits(shim, range(9), "g0")
        await until(lambda: shim.backend._snapshots._taking is None)
        assert snapshot_offsets(tmp_path) == [10]
        await commits(shim, [9], "g0")
        await until(lambda: snapshot_offsets(tmp_path) == [30])
    assert {int(path.stem) for path in takes} == {10, 30}


@pytest.mark.parametrize("method", ["create", "rename"])
async def test_one_that_cannot_be_written_harms_nobody(
    tmp_path: Path, method: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path, ONE) as shim:
        shim.log.release(1_000)
        shim.log.files.fail(method, errno.ENOSPC, "snapshot")
        await commits(shim, range(10))
        await until(lambda: "a snapshot could not be written" in caplog.text)
        shim.log.files.heal()
        await commits(shim, range(10, 20))
        await until(lambda: snapshot_offsets(tmp_path) == [20])


async def test_one_that_could_not_be_written_is_taken_again_though_nobody_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(snapshots_module, "RETRY_S", 0.01)
    tries: list[int] = []
    take = PartitionSnapshots.take

    def counted(snapshots: PartitionSnapshots, anchor: LastBatch, payload: Iterable[bytes]) -> Path | None:
        tries.append(anchor.next_offset)
        return take(snapshots, anchor, payload)

    monkeypatch.setattr(PartitionSnapshots, "take", counted)
    async with running(tmp_path, ONE) as shim:
        shim.log.release(1_000)
        shim.log.files.fail("pwrite", errno.ENOSPC, "snapshot")
        await commits(shim, range(10))
        await until(lambda: len(tries) > 6)
        assert caplog.text.count("__consumer_offsets-0: a snapshot could not be written") == 1
        await until(lambda: not unfinished(tmp_path))  # the try that is under way has one, the others have left none
        shim.log.files.heal()
        await until(lambda: snapshot_offsets(tmp_path) == [10])
        assert len(shim.log.writes) == 10


@pytest.mark.parametrize("written", [False, True])
async def test_another_is_taken_in_place_of_one_that_a_compaction_overtakes(
    tmp_path: Path, written: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = PartitionSnapshots.take
    overtaken: list[int] = []
    begun, go_on = threading.Event(), threading.Event()

    async with running(tmp_path, ONE) as shim:

        def slow(snapshots: PartitionSnapshots, anchor: LastBatch, payload: Iterable[bytes]) -> Path | None:
            if overtaken:
                return take(snapshots, anchor, payload)
            overtaken.append(anchor.next_offset)
            begun.set()
            assert go_on.wait(WAIT_SECONDS)
            path = take(snapshots, anchor, payload) if written else None
            snapshots.outdate(10)
            return path or take(snapshots, anchor, payload)

        monkeypatch.setattr(PartitionSnapshots, "take", slow)
        shim.log.release(1_000)
        try:
            await commits(shim, range(10))
            await until(begun.is_set)
            await commits(shim, [10])
        finally:
            go_on.set()
        await until(lambda: snapshot_offsets(tmp_path) == [11])
    assert overtaken == [10]
    assert_as_replayed(tmp_path, ONE)


async def test_one_is_taken_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    take, begin_dump = PartitionSnapshots.take, GroupCoordinator.begin_dump
    begun, go_on = threading.Event(), threading.Event()
    dumps = 0

    def counted(coordinator: GroupCoordinator) -> StateDump:
        nonlocal dumps
        dumps += 1
        return begin_dump(coordinator)

    def slow(snapshots: PartitionSnapshots, anchor: LastBatch, payload: Iterable[bytes]) -> Path | None:
        begun.set()
        assert go_on.wait(WAIT_SECONDS)
        return take(snapshots, anchor, payload)

    monkeypatch.setattr(GroupCoordinator, "begin_dump", counted)
    monkeypatch.setattr(PartitionSnapshots, "take", slow)
    async with running(tmp_path, replace(ONE, offsets_topic_num_partitions=2)) as shim:
        shim.log.release(1_000)
        try:
            await commits(shim, range(10), shim.group_in(0))
            await until(begun.is_set)
            await commits(shim, range(12), shim.group_in(1))
            assert dumps == 1
        finally:
            go_on.set()
        await until(lambda: snapshot_offsets(tmp_path, number=0) == [10] and snapshot_offsets(tmp_path, number=1))


@pytest.mark.parametrize("stopped", [False, True])
async def test_one_that_breaks_off_is_taken_again(
    tmp_path: Path, stopped: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(snapshots_module, "RETRY_S", 60.0 if stopped else 0.01)
    step = StateDump.step
    broken = False

    def breaks_off(dump: StateDump) -> bool:
        nonlocal broken
        if not broken:
            broken = True
            raise RuntimeError("a bug")
        return step(dump)

    monkeypatch.setattr(StateDump, "step", breaks_off)
    async with running(tmp_path, ONE) as shim:
        shim.log.release(1_000)
        await commits(shim, range(10))
        await until(lambda: "no snapshot of partition 0 was taken" in caplog.text)
        if not stopped:
            await until(lambda: snapshot_offsets(tmp_path) == [10])
    assert snapshot_offsets(tmp_path) == [10]


async def test_after_a_compaction_another_one_is_taken_though_nobody_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = replace(ONE, offsets_topic_segment_bytes=300)
    async with running(tmp_path, small) as shim:
        shim.log.release(1_000)
        await commits(shim, range(10))
        await until(lambda: snapshot_offsets(tmp_path) == [10])
        for bound in ("LEAST_RECORDS", "LEAST_RECORDS_AT_STOP"):
            monkeypatch.setattr(snapshots_module, bound, 1_000_000)
        await commits(shim, range(10, 20))
        (_, *_, last) = shim.log.partition_log(0).closed_segments()
        assert last.next_offset > 10, "what the snapshot is anchored to is in a closed segment"
    assert snapshot_offsets(tmp_path) == [10]
    async with running(tmp_path, replace(small, log_cleaner_enable=True)) as shim:
        await until(lambda: snapshot_offsets(tmp_path) == [20])
        assert not shim.log.writes
    assert assert_as_replayed(tmp_path, small) == (0, 20)


async def test_another_is_taken_after_a_round_that_ends_before_it_inside_its_segment(tmp_path: Path) -> None:
    """What is behind the end of such a round stays as it was, but not where it was."""
    async with running(tmp_path, replace(ONE, offsets_topic_segment_bytes=2_000)) as shim:
        shim.log.release(1_000)
        await commits(shim, range(10))
        await until(lambda: snapshot_offsets(tmp_path) == [10])
        shim.backend._snapshots._since[0] = -1_000_000
        partition = shim.log.partition_log(0)
        while not partition.closed_segments():
            await commits(shim, [10])
        (segment,) = partition.closed_segments()
        settings = CleanerSettings(min_cleanable_ratio=0.0, dedupe_buffer_size=1)
        (tmp_path / "cleaner-offset-checkpoint").write_text(f"0\n1\n{OFFSETS_TOPIC} 0 4\n")
        stats = Cleaner(tmp_path, [partition], settings).step(1_700_000_000_000)
        assert stats is not None
        assert stats.end_offset < 10 < segment.next_offset
        shim.backend._cleaned(stats)
        await until(lambda: snapshot_offsets(tmp_path) == [partition.log_end_offset])
    assert_as_replayed(tmp_path, ONE)
