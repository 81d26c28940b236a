"""As test_moving.py, with the power failing: what the disk need not have kept is gone, too."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from shim.config import Settings
from shim.demo.parts import Broker
from shim.disk_log import open_log
from shim.log.directory.data_dir import DataDir
from shim.log.directory.places import Place
from shim.relocation.mover import Stage
from shim.relocation.words import Side
from shim.serve.log_on_disk import Opened
from tests.log.lost_files import LostFiles
from tests.relocation import rig
from tests.relocation.rig import PARTITIONS, Rig, settings_of

DATA_DIR = Path("/disk/data")


@asynccontextmanager
async def running(
    bootstrap: str, files: LostFiles, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Rig]:
    def opened(data_dir: Path, settings: Settings, _worker: None) -> Opened:
        held, places = DataDir.open_to_move(
            data_dir, topics_prefix=settings.offsets_log_topics_prefix, num_partitions=PARTITIONS, files=files
        )
        return Opened(held, open_log(data_dir, settings, files=files, held=held), places)

    monkeypatch.setattr(rig, "_opened", opened)
    async with rig.running(bootstrap, DATA_DIR, settings) as shim:
        yield shim


@pytest.mark.parametrize("flushes_first", [True, False])
@pytest.mark.parametrize("step", Stage)
@pytest.mark.parametrize("to", Side)
async def test_the_power_fails_between_two_steps(
    broker: Broker,
    fresh_name: Callable[[], str],
    to: Side,
    step: Stage,
    flushes_first: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where what is committed to the directory need not be flushed: what has come there has been."""
    settings = replace(
        settings_of(f"__moved_{fresh_name()}"), log_flush_interval_messages=1 if flushes_first else 1 << 40
    )
    files = LostFiles(rng=random.Random(f"{to} {step} {flushes_first}"))
    files.mkdir(DATA_DIR.parent)
    files.sync_directory(DATA_DIR.parent.parent)
    async with running(broker.bootstrap_servers, files, settings, monkeypatch) as shim:
        await shim.fill(1)
        if to is Side.LOCAL:
            await shim.move(Side.KAFKA)
        before = shim.state(1)
    files = files.after_power_failure()
    async with running(broker.bootstrap_servers, files, settings, monkeypatch) as shim:
        await shim.move_until(1, to, step)
        files = files.after_power_failure()
    async with running(broker.bootstrap_servers, files, settings, monkeypatch) as shim:
        has_come = step in (Stage.TOLD, Stage.SETTLED)
        there, other = (Place.TOPIC, Place.DIRECTORY) if to is Side.KAFKA else (Place.DIRECTORY, Place.TOPIC)
        assert shim.places[1] is (there if has_come else other)
        assert shim.state(1) == before
        await shim.move(to)
        files = files.after_power_failure()
        shim.was_killed = True
    async with running(broker.bootstrap_servers, files, settings, monkeypatch) as shim:
        assert shim.places[1] is there
        assert shim.state(1) == before
