"""Loading: the small partitions first, and a word about how far it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from shim.config import Settings
from shim.runtime import Clock, Runtime, loading, open_log
from shim.runtime.loading import Loader, Progress
from tests.runtime.running import running
from tests.runtime.test_runtime import WITHOUT_HISTORY


async def test_the_largest_partition_comes_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(tmp_path, WITHOUT_HISTORY) as shim:
        shim.log.release(1_000)
        for partition, commits in ((0, 9), (1, 1), (2, 4)):
            for offset in range(commits):
                await shim.commit(shim.group_in(partition), offset).result()
    order: list[int] = []
    real = Loader.load

    def noted(loader: Loader, number: int) -> loading.Loaded:
        order.append(number)
        return real(loader, number)

    monkeypatch.setattr(Loader, "load", noted)
    async with running(tmp_path, WITHOUT_HISTORY):
        pass
    assert order == [1, 2, 0]


async def test_the_end_of_loading_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    settings = Settings(offsets_topic_num_partitions=2)
    runtime = Runtime(open_log(tmp_path, settings), settings, Clock())
    await runtime.load()
    runtime.stop()
    await runtime.close(10)
    (line,) = [line for line in caplog.messages if line.startswith("loaded")]
    assert line.startswith("loaded 2 partitions (0 from snapshots), 0 records replayed, in 0.")


def test_progress_is_told_once_a_second(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    now = 100.0
    monkeypatch.setattr("shim.runtime.loading.time.monotonic", lambda: now)
    progress = Progress()
    progress.expect([10 << 20, 30 << 20])
    for _ in range(100):
        now += 0.05
        progress.replayed(64)
    assert len(caplog.messages) == 4
    progress.loaded(10 << 20, from_snapshot=True)
    now += 1.0
    progress.replayed(64)
    assert caplog.messages[-1] == "loading: 1 of 2 partitions, 10 of 40 MiB, 6464 records replayed, 1077 a second"
    progress.loaded(30 << 20, from_snapshot=False)
    assert caplog.messages[-1] == "loaded 2 partitions (1 from snapshots), 6464 records replayed, in 6.0 s"
    told = len(caplog.messages)
    now += 5.0
    progress.replayed(64)  # a partition that is read back later
    assert len(caplog.messages) == told
