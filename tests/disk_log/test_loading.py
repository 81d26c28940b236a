"""Loading: the small partitions first, and a word about how far it is."""

from __future__ import annotations

import errno
import shutil
from itertools import chain
from pathlib import Path

import pytest

from protocol.errors import ErrorCode
from protocol.own.history_log import HISTORY_TOPIC
from protocol.partition import OFFSETS_TOPIC
from shim.config import Settings
from shim.coordinator import CoordinatorSettings
from shim.disk_log import DiskBackend, open_log
from shim.disk_log.loading import Loader
from shim.log import LogError, OffsetsLog, PartitionWrite, settling
from shim.log.disk.files import Files
from shim.log.disk.layout import segment_name
from shim.runtime import Clock, Runtime
from shim.runtime.backend import Loaded
from shim.runtime.progress import Progress
from tests.log.faulty_files import FaultyFiles
from tests.runtime.running import PARTITIONS, offset_in, running
from tests.runtime.test_runtime import WITHOUT_HISTORY, served_again


async def test_the_largest_partition_comes_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(tmp_path, WITHOUT_HISTORY) as shim:
        shim.log.release(1_000)
        for partition, commits in ((0, 9), (1, 1), (2, 4)):
            for offset in range(commits):
                await shim.commit(shim.group_in(partition), offset).result()
    order: list[int] = []
    real = Loader.load

    def noted(loader: Loader, number: int) -> Loaded:
        order.append(number)
        return real(loader, number)

    monkeypatch.setattr(Loader, "load", noted)
    async with running(tmp_path, WITHOUT_HISTORY):
        pass
    assert order == [1, 2, 0]


async def test_the_end_of_loading_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    settings = Settings(offsets_topic_num_partitions=2)
    runtime = Runtime(DiskBackend(open_log(tmp_path, settings), settings, Clock()), settings, Clock())
    await runtime.load()
    runtime.stop()
    await runtime.close(10)
    (line,) = [line for line in caplog.messages if line.startswith("loaded")]
    assert line.startswith("loaded 2 partitions (0 from snapshots), 0 records replayed, in 0.")


async def written(data_dir: Path) -> list[Path]:
    """An offset in each partition; their segments."""
    async with running(data_dir, WITHOUT_HISTORY) as shim:
        shim.log.release(100)
        for partition in range(PARTITIONS):
            await shim.commit(shim.group_in(partition), 7).result()
    return [data_dir / f"__consumer_offsets-{partition}" / segment_name(0) for partition in range(PARTITIONS)]


def damage(segment: Path) -> None:
    raw = bytearray(segment.read_bytes())
    raw[-1] ^= 1
    segment.write_bytes(raw)


async def test_a_damaged_partition_is_not_served_and_the_others_are(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    segments = await written(tmp_path)
    damage(segments[1])
    damaged = segments[1].read_bytes()
    caplog.clear()
    for _ in range(2):  # the second start does not know any more that the first one had ended in good order
        async with running(tmp_path, WITHOUT_HISTORY) as shim:
            shim.log.release(100)
            for partition in (0, 2):
                assert offset_in(await shim.fetch(shim.group_in(partition)).result()) == 7
                await shim.commit(shim.group_in(partition), 7).result()
            assert await shim.fetch(shim.group_in(1)).result() is ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert await shim.commit(shim.group_in(1), 8).result() is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert segments[1].read_bytes() == damaged, "nothing is cut"
        (line,) = [line for line in caplog.messages if "is not served" in line]
        assert line.startswith(f"{segments[1]} is damaged at byte 0: ")
        assert line.endswith("; __consumer_offsets-1 is not served: see offset-shim log verify")
        assert len([line for line in caplog.messages if line.startswith("loaded 2 partitions")]) == 1
        caplog.clear()


async def test_a_partition_that_cannot_be_read_for_now_is_served_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("shim.runtime.keeping.RELOAD_RETRY_SECONDS", 0.01)
    await written(tmp_path)
    real = Loader.load
    fails = True

    def failing(loader: Loader, number: int) -> Loaded:
        if number == 0 and fails:
            raise OSError(errno.EIO, "Input/output error", "the segment")
        return real(loader, number)

    monkeypatch.setattr(Loader, "load", failing)
    async with running(tmp_path, WITHOUT_HISTORY) as shim:
        assert offset_in(await shim.fetch(shim.group_in(1)).result()) == 7
        assert await shim.fetch(shim.group_in(0)).result() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert "__consumer_offsets-0: loading failed, it will be tried again: [Errno 5]" in caplog.text
        fails = False
        assert offset_in(await served_again(shim, shim.group_in(0))) == 7


@pytest.mark.parametrize("error", [LogError("damaged"), OSError(errno.EIO, "Input/output error")])
async def test_where_no_partition_can_be_read_that_is_said(
    tmp_path: Path, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(loader: Loader, number: int) -> Loaded:
        raise error

    monkeypatch.setattr(Loader, "load", failing)
    runtime = Runtime(
        DiskBackend(open_log(tmp_path, WITHOUT_HISTORY), WITHOUT_HISTORY, Clock()), WITHOUT_HISTORY, Clock()
    )
    with pytest.raises(type(error)):
        await runtime.load()
    runtime.stop()
    await runtime.close(10)


def test_progress_is_told_once_a_second(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    now = 100.0
    monkeypatch.setattr("shim.runtime.progress.time.monotonic", lambda: now)
    progress = Progress()
    progress.expect([10 << 20, 30 << 20])
    for _ in range(100):
        now += 0.05
        progress.replayed(64)
    assert len(caplog.messages) == 4
    progress.loaded(10 << 20, from_snapshot=True)
    now += 1.0
    progress.replayed(64)
    assert caplog.messages[-1] == "loading: 1 of 2 partitions, 10 of 40 MiB, 6,464 records replayed, 1077 a second"
    progress.loaded(30 << 20, from_snapshot=False)
    assert caplog.messages[-1] == "loaded 2 partitions (1 from snapshots), 6,464 records replayed, in 6.0 s"
    told = len(caplog.messages)
    now += 5.0
    progress.replayed(64)  # a partition that is read back later
    assert len(caplog.messages) == told


def test_nothing_is_said_of_bytes_that_nobody_knows(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As of partitions on topics."""
    caplog.set_level("INFO")
    now = 100.0
    monkeypatch.setattr("shim.runtime.progress.time.monotonic", lambda: now)
    progress = Progress()
    progress.expect([0])
    now += 2.0
    progress.replayed(1)
    progress.loaded(0, from_snapshot=False)
    assert caplog.messages == [
        "loading: 0 of 1 partition, 1 record replayed, 0 a second",
        "loaded 1 partition (0 from snapshots), 1 record replayed, in 2.0 s",
    ]


@pytest.mark.parametrize("with_snapshots", [False, True])
async def test_another_partitions_files_are_not_served(
    tmp_path: Path, with_snapshots: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("shim.runtime.snapshots.LEAST_RECORDS_AT_STOP", 1 if with_snapshots else 1_000)
    first, second, _ = (segment.parent for segment in await written(tmp_path))
    assert len(list(first.glob("*.snapshot"))) == with_snapshots
    aside = tmp_path / "aside"
    first.rename(aside)
    second.rename(first)
    aside.rename(second)
    async with running(tmp_path, WITHOUT_HISTORY) as shim:
        for partition in (0, 1):
            assert await shim.fetch(shim.group_in(partition)).result() is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert offset_in(await shim.fetch(shim.group_in(2)).result()) == 7
        group = shim.group_in(1)
    assert f"{first} holds group '{group}', which belongs into partition 1 of {PARTITIONS}: " in caplog.text


async def test_a_damaged_history_stops_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with running(tmp_path) as shim:
        shim.log.release(100)
        for partition in range(PARTITIONS):
            await shim.commit(shim.group_in(partition), 7).result()
    history = tmp_path / "__offset_shim_history-1" / segment_name(0)
    damage(history)
    damaged = history.read_bytes()
    for offset in (8, 9):
        async with running(tmp_path) as shim:
            shim.log.release(100)
            for partition in range(PARTITIONS):
                assert offset_in(await shim.fetch(shim.group_in(partition)).result()) == offset - 1
                await shim.commit(shim.group_in(partition), offset).result()
            written_to = [(write.topic, write.partition) for write in chain(*shim.log.writes)]
            assert ("__offset_shim_history", 0) in written_to
            assert ("__offset_shim_history", 1) not in written_to
        (line,) = [line for line in caplog.messages if "no history is kept" in line]
        assert line.startswith(f"{history} is damaged at byte 0: ")
        caplog.clear()
    assert history.read_bytes() == damaged


async def test_a_history_that_the_disk_cannot_read_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = Settings(offsets_topic_num_partitions=PARTITIONS)
    async with running(tmp_path) as shim:
        shim.log.release(100)
        await shim.commit(shim.group_in(1), 7).result()
    unreadable = tmp_path / "__offset_shim_history-1" / segment_name(0)

    class BadSector(Files):
        def pread(self, fd: int, size: int, position: int) -> bytes:
            if Path(f"/proc/self/fd/{fd}").readlink() == unreadable:
                raise OSError(errno.EIO, "Input/output error")
            return super().pread(fd, size, position)

    topics = (OFFSETS_TOPIC, "__offset_shim_history")
    log = OffsetsLog.open(tmp_path, PARTITIONS, topics=topics, files=BadSector())
    loader = Loader(log, CoordinatorSettings.of(settings), lambda: False)
    assert [loader.load(number).has_history for number in range(PARTITIONS)] == [n != 1 for n in range(PARTITIONS)]
    assert "Input/output error; no history is kept of __consumer_offsets-1" in caplog.text
    log.close()


async def test_a_history_that_the_disk_has_no_room_for_stops_no_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As what waited when the shim was killed is not in its segment yet."""
    monkeypatch.setattr(settling, "_WAITING_MS", 1 << 40)
    one = Settings(offsets_topic_num_partitions=1)
    async with running(tmp_path / "killed", one) as shim:
        shim.log.release(100)
        for offset in (7, 8):
            await shim.commit("g", offset).result()
        shutil.copytree(tmp_path / "killed", tmp_path / "again")
    files = FaultyFiles()
    files.fail("pwrite", errno.ENOSPC, HISTORY_TOPIC)
    log = open_log(tmp_path / "again", one, files=files)
    loader = Loader(log, CoordinatorSettings.of(one), lambda: False)
    for _ in range(2):
        loaded = loader.load(0)
        assert loaded.has_history, "nothing is committed without it"
        assert [each.committed_offset for each in loaded.coordinator.own_offsets("g").topics[0].partitions] == [8]
        wanted = [PartitionWrite(0, [[(b"key", b"value")]], 0, topic) for topic in (OFFSETS_TOPIC, HISTORY_TOPIC)]
        assert list(log.write(wanted)) == [0]
    (line,) = [each for each in caplog.messages if "history" in each and "refused" in each]
    assert line.startswith("commits of __consumer_offsets-0 are refused, as its history cannot be written for now: ")
    assert "No space left on device" in line
    files.heal()
    assert loader.load(0).has_history
    assert len(list(log.recover(0, topic=HISTORY_TOPIC))) == 2
    log.close()
