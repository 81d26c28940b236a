"""A start from a snapshot is a start from the log, only quicker; of what is not, it does without."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from shim.coordinator import CoordinatorSettings
from shim.disk_log import open_log
from shim.disk_log.loading import Loader
from shim.log.directory.handover import CLEAN_SHUTDOWN
from shim.log.disk.files import Files
from shim.log.partition.partition import PartitionLog
from shim.log.partition.snapshot import PartitionSnapshots, Snapshot
from shim.runtime.replaying import Home
from tests.runtime.running import running
from tests.runtime.snapshots.as_replayed import (
    ONE,
    assert_as_replayed,
    commits,
    loaded,
    replayed,
    snapshot_offsets,
)


@pytest.mark.parametrize("after", [0, 5, 40, 70])
async def test_a_stop_ends_the_reading_of_a_snapshot(
    tmp_path: Path, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path, ONE) as shim:
        shim.log.release(1_000)
        for group in range(30):
            await commits(shim, [1], f"g{group}")
    assert len(snapshot_offsets(tmp_path)) == 1
    monkeypatch.setattr("shim.log.partition.snapshot._CHUNK_SIZE", 200)
    looks = 0

    def stopped() -> bool:
        nonlocal looks
        looks += 1
        return looks > after

    log = open_log(tmp_path, ONE)
    loaded = Loader(log, CoordinatorSettings.of(ONE), stopped).load(0)
    assert looks == after + 1
    assert len(loaded.coordinator.group_ids()) == 0
    log.close()
    assert (tmp_path / CLEAN_SHUTDOWN).exists(), "the log was not touched"
    assert len(snapshot_offsets(tmp_path)) == 1


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

    def compacted_meanwhile(loader: Loader, partition: PartitionLog, snapshot: Snapshot, home: Home) -> object:
        found = real(loader, partition, snapshot, home)
        partition.snapshots.outdate(8)
        return found

    monkeypatch.setattr(Loader, "_restored", compacted_meanwhile)
    assert loader.load(0)[1:3] == (8, 0)
    assert "the log does not hold what it is of" in caplog.text
    log.close()


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

    def cut_meanwhile(loader: Loader, partition: PartitionLog, snapshot: Snapshot, home: Home) -> object:
        if snapshot_offsets(tmp_path):
            truncated_log(partition.folder)
        return real(loader, partition, snapshot, home)

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
