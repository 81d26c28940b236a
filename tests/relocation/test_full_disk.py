"""As test_moving.py, with a disk under the data directory that has no more room from some step on."""

from __future__ import annotations

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
from shim.relocation.words import CannotMove, Side
from shim.serve.log_on_disk import Opened
from tests.log.faulty_files import FillingFiles
from tests.relocation import rig
from tests.relocation.rig import PARTITIONS, Rig, settings_of


@asynccontextmanager
async def running(
    bootstrap: str, data_dir: Path, files: FillingFiles, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Rig]:
    def opened(data_dir: Path, settings: Settings, _worker: None) -> Opened:
        held, places = DataDir.open_to_move(
            data_dir, topics_prefix=settings.offsets_log_topics_prefix, num_partitions=PARTITIONS, files=files
        )
        return Opened(held, open_log(data_dir, settings, files=files, held=held), places)

    with monkeypatch.context() as during:
        during.setattr(rig, "_opened", opened)
        async with rig.running(bootstrap, data_dir, settings) as shim:
            yield shim


@pytest.fixture
def settings(fresh_name: Callable[[], str]) -> Settings:
    return settings_of(f"__moved_{fresh_name()}")


@pytest.mark.parametrize("last", Stage)
@pytest.mark.parametrize("to", Side)
async def test_a_partition_is_served_from_where_it_is(
    broker: Broker, tmp_path: Path, settings: Settings, to: Side, last: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full from the end of that step on."""
    files = FillingFiles()
    # Behind that nothing is written to the directory but where the partition is.
    has_come = last.value >= (Stage.NOTED if to is Side.KAFKA else Stage.WRITTEN).value
    there, other = (Place.TOPIC, Place.DIRECTORY) if to is Side.KAFKA else (Place.DIRECTORY, Place.TOPIC)
    place = there if has_come else other
    async with running(broker.bootstrap_servers, tmp_path / "d", files, settings, monkeypatch) as shim:
        await shim.fill(1)
        if to is Side.LOCAL:
            await shim.move(Side.KAFKA)
        before = shim.state(1)
        fill_at(shim, files, last)
        found = await shim.tried(to)
        assert ("No space left on device" in found[1].trouble) is not has_come
        assert shim.places[1] is place
        assert shim.state(1) == before
        if place is Place.TOPIC:
            await shim.commit(shim.group_in(1), 77, 7)
        before = shim.state(1)
        shim.was_killed = True
    for files.room in (0, 1 << 40):
        async with running(broker.bootstrap_servers, tmp_path / "d", files, settings, monkeypatch) as shim:
            assert shim.places[1] is place, "whatever is noted of it"
            assert shim.state(1) == before


async def test_where_it_is_is_noted_once_there_is_room(
    broker: Broker, tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then none is moved: who is told that all have come may start the shim without the other log."""
    files = FillingFiles()
    async with running(broker.bootstrap_servers, tmp_path / "d", files, settings, monkeypatch) as shim:
        await shim.fill(1)
        fill_at(shim, files, Stage.TOLD)
        assert {each.log for each in await shim.tried(Side.KAFKA)} == {"kafka"}
        before = shim.state(1)
        with pytest.raises(CannotMove, match="No space left on device"):
            await shim.tried(Side.KAFKA)
        files.room = 1 << 40
        await shim.move(Side.KAFKA)
        shim.was_killed = True
    async with rig.running(broker.bootstrap_servers, tmp_path / "d", replace(settings, offsets_log="kafka")) as shim:
        assert shim.state(1) == before


def fill_at(shim: Rig, files: FillingFiles, last: Stage) -> None:
    """Of partition 1."""

    def reached(number: int, step: Stage) -> None:
        if (number, step) == (1, last):
            files.room = 0

    shim.mover.reached = reached
