"""Snapshots as the runtime takes and uses them: a start from one is a start from the log, only quicker."""

from __future__ import annotations

import asyncio
import errno
import random
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from protocol.errors import ErrorCode
from protocol.offsets_log import OffsetCommitKey, UnknownKey, decode_key, decode_value, encode_key
from protocol.own.history_log import HISTORY_TOPIC
from protocol.partition import partition_for
from shim.config import Settings
from shim.coordinator import CoordinatorSettings, GroupCoordinator
from shim.coordinator.state.dump import StateDump
from shim.log import OFFSETS_TOPIC, LogError, PartitionWrite
from shim.log.active import LastBatch
from shim.log.cleaner import Cleaner
from shim.log.cleaning import CleanerSettings
from shim.log.files import Files
from shim.log.handover import CLEAN_SHUTDOWN
from shim.log.journal import JOURNAL_NAME
from shim.log.partition import PartitionLog
from shim.log.snapshot import PartitionSnapshots, Snapshot, snapshot_name
from shim.runtime import open_log
from shim.runtime import snapshots as snapshots_module
from shim.runtime.loading import Loader
from tests.runtime.held_log import WAIT_SECONDS, Teller
from tests.runtime.running import TOPIC, Running, offset_in, running
from tests.runtime.test_runtime import error_in, served_again

ONE = Settings(offsets_topic_num_partitions=1, log_cleaner_backoff_ms=10, log_cleaner_enable=False)


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots_module, "LEAST_RECORDS", 10)
    monkeypatch.setattr(snapshots_module, "LEAST_RECORDS_AT_STOP", 5)


@pytest.fixture
def takes(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The snapshots that are written, in this order."""
    paths: list[Path] = []
    take = PartitionSnapshots.take

    def noted(snapshots: PartitionSnapshots, anchor: LastBatch, payload: Iterable[bytes]) -> Path | None:
        path = take(snapshots, anchor, payload)
        if path is not None:
            paths.append(path)
        return path

    monkeypatch.setattr(PartitionSnapshots, "take", noted)
    return paths


def snapshot_offsets(data_dir: Path, topic: str = OFFSETS_TOPIC, number: int = 0) -> list[int]:
    return sorted(int(path.stem) for path in (data_dir / f"{topic}-{number}").glob("*.snapshot"))


def unfinished(data_dir: Path) -> list[Path]:
    return list(data_dir.glob("*/*.tmp"))


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while not condition():  # noqa: ASYNC110  # other threads make it true
            await asyncio.sleep(0.005)


async def commits(shim: Running, offsets: Iterable[int], group: str = "g") -> None:
    for offset in offsets:
        assert error_in(await shim.commit(group, offset).result()) == ErrorCode.NONE


def loaded(data_dir: Path, settings: Settings, number: int = 0) -> tuple[GroupCoordinator, int, int]:
    """As a start loads it: the state, records replayed, offset of the snapshot."""
    log = open_log(data_dir, settings)
    try:
        return Loader(log, CoordinatorSettings.of(settings), lambda: False).load(number)[:3]
    finally:
        log.close()


def replayed(data_dir: Path, settings: Settings, number: int = 0) -> GroupCoordinator:
    """Without any snapshot."""
    log = open_log(data_dir, settings)
    coordinator = GroupCoordinator(CoordinatorSettings.of(settings))
    for record in log.recover(number):
        key = decode_key(record.key)
        assert not isinstance(key, UnknownKey)
        value = decode_value(key, record.value)
        assert not isinstance(value, bytes)
        coordinator.replay(key, value)
    log.close()
    return coordinator


def assert_as_replayed(data_dir: Path, settings: Settings, number: int = 0) -> tuple[int, int]:
    coordinator, count, offset = loaded(data_dir, settings, number)
    assert content(coordinator) == content(replayed(data_dir, settings, number))
    return count, offset


def content(coordinator: GroupCoordinator) -> object:
    """The state without what a compacted log does not tell: the groups' order, and which of them have nothing left."""
    state = coordinator._state
    groups = {
        group: (value, {(topic, number): each for topic, number, each in state.offsets.of_group(group)})
        for group, value in state.recorded.items()
    }
    return {group: (value, offsets) for group, (value, offsets) in groups.items() if value is not None or offsets}


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
        await until(lambda: snapshot_offsets(tmp_path) == [10])
        tickets = [shim.commit("g", offset) for offset in range(10, 20)]
        await until(lambda: len(shim.log.writes) == 11)
        tickets += [shim.commit("h", offset) for offset in range(3)]
        shim.log.release(1)
        await until(lambda: len(shim.log.writes) == 12)
        # The second flight is held on its way to the disk, the snapshot begun with it.
        await asyncio.sleep(0.05)
        assert snapshot_offsets(tmp_path) == [10]
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
        assert shim.runtime._snapshots._taking is not None
        with monkeypatch.context() as patch:
            if nothing_written == "as the disk fails":
                shim.log.files.fail("pwrite", errno.EIO, ".log")
            else:
                for limit in ("MAX_BATCH_BYTES", "MAX_RECORD_SET_BYTES"):
                    patch.setattr(f"shim.log.batching.{limit}", 1)
            shim.log.release(1)
            assert await doomed.result() is ErrorCode.NOT_COORDINATOR
            await until(lambda: shim.runtime._snapshots._taking is None)
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
        await until(lambda: shim.runtime._snapshots._taking is None)
        assert snapshot_offsets(tmp_path) == [10]
        await commits(shim, [9], "g0")
        await until(lambda: snapshot_offsets(tmp_path) == [30])
    assert {int(path.stem) for path in takes} == {10, 30}


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
        await until(lambda: snapshot_offsets(tmp_path) == [10] and shim.runtime._snapshots._taking is None)
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
    monkeypatch.setattr("shim.runtime.runtime.LAST_SNAPSHOTS_SECONDS", 0.0)
    caplog.set_level("INFO")
    async with running(tmp_path, ONE) as shim:
        shim.log.release(1_000)
        await commits(shim, range(8))
    assert snapshot_offsets(tmp_path) == []
    assert "1 partitions are left without a new snapshot" in caplog.text


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
    for size in ("shim.runtime.snapshots._LOOK_EVERY", "shim.log.snapshot._CHUNK_SIZE"):
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
    assert "2 partitions are left without a new snapshot" in caplog.text
    assert not unfinished(tmp_path)
    assert snapshot_offsets(tmp_path, number=0) == snapshot_offsets(tmp_path, number=1) == []
    writes = [path for method, path in shim.log.files.calls if method == "pwrite" and "snapshot" in path.name]
    assert len(writes) == (over == "in the writing")
    assert (steps == 2) == (over == "in the dump")
    assert (tmp_path / CLEAN_SHUTDOWN).exists()


@pytest.mark.parametrize("after", [0, 5, 40, 70])
async def test_a_stop_ends_the_reading_of_a_snapshot(
    tmp_path: Path, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path, ONE) as shim:
        shim.log.release(1_000)
        for group in range(30):
            await commits(shim, [1], f"g{group}")
    assert len(snapshot_offsets(tmp_path)) == 1
    monkeypatch.setattr("shim.log.snapshot._CHUNK_SIZE", 200)
    looks = 0

    def stopped() -> bool:
        nonlocal looks
        looks += 1
        return looks > after

    log = open_log(tmp_path, ONE)
    loaded = Loader(log, CoordinatorSettings.of(ONE), stopped).load(0)
    assert looks == after + 1
    assert loaded.coordinator.group_count == 0
    log.close()
    assert (tmp_path / CLEAN_SHUTDOWN).exists(), "the log was not touched"
    assert len(snapshot_offsets(tmp_path)) == 1


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
    async with running(tmp_path, ONE) as shim:
        shim.log.release(1_000)
        shim.log.files.fail("pwrite", errno.ENOSPC, "snapshot")
        await commits(shim, range(10))
        await until(lambda: caplog.text.count("a snapshot could not be written") > 3)
        assert not unfinished(tmp_path)
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


@pytest.mark.parametrize("written", ["a piece at a time", "at one stroke"])
async def test_a_stop_gives_up_the_one_in_the_making_and_takes_it_anew(
    tmp_path: Path, written: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("shim.runtime.snapshots._LOOK_EVERY", "shim.log.snapshot._CHUNK_SIZE"):
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
    monkeypatch.setattr("shim.runtime.runtime.LAST_SNAPSHOTS_SECONDS", 0.0)
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
    before = steps
    await asyncio.sleep(0.05)
    assert steps == before


@pytest.mark.parametrize("topic", [OFFSETS_TOPIC, HISTORY_TOPIC])
async def test_one_that_waits_to_be_taken_again_is_taken_at_the_stop(
    tmp_path: Path, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path, ONE) as shim:
        shim.log.release(10)
        shim.log.files.fail("create", errno.ENOSPC, f"{topic}-0/{snapshot_name(10)}")
        await commits(shim, range(10))
        await until(lambda: "a snapshot could not be written" in caplog.text)
        await until(lambda: shim.runtime._snapshots._taking is None)
        assert snapshot_offsets(tmp_path, topic) == []
        shim.log.files.heal()
        shim.commit("g", 10)
        await until(lambda: len(shim.log.writes) == 11)
        shim.commit("g", 11)
        shim.stop()
        shim.runtime._snapshots._take_again(0)  # its time has come, and there is one more write
    assert len(shim.log.writes) == 12
    assert snapshot_offsets(tmp_path) == snapshot_offsets(tmp_path, HISTORY_TOPIC) == [12]


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
        await until(lambda: snapshot_offsets(tmp_path) == [10] and shim.runtime._snapshots._taking is None)
        monkeypatch.setattr(snapshots_module, "LEAST_RECORDS_AT_STOP", 1_000_000)
        await commits(shim, [10])
        shim.log.partition_log(0).snapshots.outdate(10)  # a round that was stopped after its first swap
        assert snapshot_offsets(tmp_path) == []
    assert snapshot_offsets(tmp_path) == [11]


async def test_a_compaction_between_the_look_at_a_snapshot_and_the_recovery(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path, ONE) as shim:
        shim.log.release(1_000)
        await commits(shim, range(8))
    log = open_log(tmp_path, ONE)
    loader = Loader(log, CoordinatorSettings.of(ONE), lambda: False)
    assert loader.load(0).snapshot_offset == 8
    real = Loader._restored

    def compacted_meanwhile(loader: Loader, partition: PartitionLog, snapshot: Snapshot) -> object:
        found = real(loader, partition, snapshot)
        partition.snapshots.outdate(8)
        return found

    monkeypatch.setattr(Loader, "_restored", compacted_meanwhile)
    assert loader.load(0)[1:3] == (8, 0)
    assert "the log does not hold what it is of" in caplog.text
    log.close()


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
        shim.runtime._snapshots._since[0] = -1_000_000
        partition = shim.log.partition_log(0)
        while not partition.closed_segments():
            await commits(shim, [10])
        (segment,) = partition.closed_segments()
        settings = CleanerSettings(min_cleanable_ratio=0.0, dedupe_buffer_size=1)
        (tmp_path / "cleaner-offset-checkpoint").write_text(f"0\n1\n{OFFSETS_TOPIC} 0 4\n")
        stats = Cleaner(tmp_path, [partition], settings).step(1_700_000_000_000)
        assert stats is not None
        assert stats.end_offset < 10 < segment.next_offset
        shim.runtime._cleaned(stats)
        await until(lambda: snapshot_offsets(tmp_path) == [partition.log_end_offset])
    assert_as_replayed(tmp_path, ONE)


Harm = Callable[[Path], None]


def no_dump(folder: Path) -> None:
    """Sound as a file, and of a version of the state that this one does not know."""
    snapshots = PartitionSnapshots(Files(), folder)
    found = snapshots.newest()
    assert found is not None
    snapshots.take(found.anchor, [b"OSPS\x09\x00\x00\x00\x00\x00"])


def flipped(folder: Path) -> None:
    (path,) = folder.glob("*.snapshot")
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)


def truncated_log(folder: Path) -> None:
    """An older copy of the log, without what belongs to a clean end."""
    (segment,) = folder.glob("*.log")
    segment.write_bytes(segment.read_bytes()[: segment.stat().st_size // 2])
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
        (folder.parent / name).unlink(missing_ok=True)


@pytest.mark.parametrize("harm", [no_dump, flipped, truncated_log])
async def test_a_start_does_without_one_that_is_of_no_use(
    tmp_path: Path, harm: Harm, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path, ONE) as shim:
        shim.log.release(1_000)
        await commits(shim, range(8))
    assert snapshot_offsets(tmp_path) == [8]
    harm(tmp_path / "__consumer_offsets-0")
    count, offset = assert_as_replayed(tmp_path, ONE)
    assert offset == 0
    assert count == (4 if harm is truncated_log else 8) or harm is truncated_log
    assert "is not used" in caplog.text
    assert snapshot_offsets(tmp_path) == []


async def test_a_snapshot_that_the_recovery_takes_the_ground_from_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What stands in the log before the recovery need not stand there after it."""
    async with running(tmp_path, ONE) as shim:
        shim.log.release(1_000)
        await commits(shim, range(8))
    real = Loader._restored

    def cut_meanwhile(loader: Loader, partition: PartitionLog, snapshot: Snapshot) -> object:
        if snapshot_offsets(tmp_path):
            truncated_log(partition.folder)
        return real(loader, partition, snapshot)

    log = open_log(tmp_path, ONE)
    log.close()
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
        (tmp_path / name).unlink()
    monkeypatch.setattr(Loader, "_restored", cut_meanwhile)
    coordinator, count, offset = loaded(tmp_path, ONE)
    assert "the log does not hold what it is of" in caplog.text
    assert (offset, snapshot_offsets(tmp_path)) == (0, [])
    assert 0 < count < 8
    monkeypatch.undo()
    assert coordinator.dump() == replayed(tmp_path, ONE).dump()


def delete(data_dir: Path, settings: Settings, groups: Iterable[str]) -> None:
    """As `log import --replace` does it, at rest."""
    log = open_log(data_dir, settings)
    for number in range(log.num_partitions):
        list(log.recover(number))
    for group in groups:
        tombstone = (encode_key(OffsetCommitKey(group, TOPIC, 0)), None)
        assert log.write([PartitionWrite(partition_for(group, log.num_partitions), [[tombstone]], 1)]) == {}
    log.close()


@pytest.mark.parametrize("seed", range(4))
async def test_lives_with_failing_disks_compactions_and_snapshots(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever happens, what is loaded is what the log says, and what was acknowledged is in it."""
    monkeypatch.setattr("shim.runtime.runtime.RELOAD_RETRY_SECONDS", 0.005)
    rng = random.Random(seed)
    acknowledged: dict[str, int] = {}
    number = 0
    used = 0
    for _ in range(6):
        settings = replace(
            ONE,
            offsets_topic_num_partitions=2,
            offsets_topic_segment_bytes=rng.choice((300, 1_000, 10_000)),
            log_cleaner_enable=rng.random() < 0.7,
            log_cleaner_min_cleanable_ratio=0.1,
            log_cleaner_delete_retention_ms=0,
            log_cleaner_backoff_ms=1,
        )
        async with running(tmp_path, settings) as shim:
            shim.log.release(100_000)
            for _ in range(rng.randrange(60)):
                group = f"g{rng.randrange(6)}"
                number += 1
                if rng.random() < 0.05:
                    shim.log.files.fail(rng.choice(("pwrite", "fdatasync", "rename", "create")), errno.EIO)
                answer = await shim.commit(group, number).result()
                shim.log.files.heal()
                if isinstance(answer, ErrorCode):
                    assert offset_in(await served_again(shim, group)) == acknowledged.get(group)
                else:
                    acknowledged[group] = number
        if rng.random() < 0.7:
            deleted = rng.sample(sorted(acknowledged), min(len(acknowledged), 2))
            delete(tmp_path, settings, deleted)
            acknowledged = {group: offset for group, offset in acknowledged.items() if group not in deleted}
        for partition in range(2):
            try:
                used += assert_as_replayed(tmp_path, settings, partition)[1] > 0
            except LogError as error:
                raise AssertionError(str(error)) from error
    async with running(tmp_path, replace(ONE, offsets_topic_num_partitions=2)) as shim:
        for group in (f"g{each}" for each in range(6)):
            assert offset_in(await shim.fetch(group).result()) == acknowledged.get(group)
    assert used, "no snapshot was ever of use"
