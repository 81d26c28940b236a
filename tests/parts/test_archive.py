"""Class data archives: used where there is one, never in the way where there is none."""

from pathlib import Path

import pytest

from shim.demo.parts import Broker
from shim.demo.parts.archive import ArchiveRefused, archive_path, made_archive
from shim.demo.parts.jars import KAFKA, JarSet, jar_set, java_executable
from shim.demo.parts.process import StartFailed


class _Training:
    """Stands for a training run: counts, and ends as it was told."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.runs = 0

    def __call__(self, archive: Path) -> None:
        self.runs += 1
        if self.error:
            raise self.error
        archive.write_text("classes")


@pytest.fixture
def jars(tmp_path: Path) -> JarSet:
    folder = tmp_path / "some-set"
    folder.mkdir()
    return JarSet("some-set", folder, ())


def test_made_once_then_used(jars: JarSet) -> None:
    training = _Training()
    made = [made_archive(jars, java_executable(), training) for _ in range(2)]
    assert made == [archive_path(jars, java_executable())] * 2
    assert training.runs == 1


def test_a_runtime_that_makes_none_is_asked_once(jars: JarSet) -> None:
    training = _Training(ArchiveRefused("no such option"))
    assert [made_archive(jars, java_executable(), training) for _ in range(2)] == [None, None]
    assert training.runs == 1


@pytest.mark.parametrize("error", [StartFailed("too slow"), OSError("disk full")])
def test_a_passing_fault_is_tried_again_the_next_time(jars: JarSet, error: Exception) -> None:
    assert made_archive(jars, java_executable(), _Training(error)) is None
    assert made_archive(jars, java_executable(), _Training()) is not None


def test_a_cache_that_cannot_be_written_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    jars = JarSet("some-set", tmp_path / "file" / "some-set", ())
    assert made_archive(jars, java_executable(), _Training()) is None


def test_brokers_run_from_the_archive(broker: Broker) -> None:
    archive = archive_path(jar_set(KAFKA), java_executable())
    assert str(archive) in Path(f"/proc/{broker.pid}/maps").read_text()
