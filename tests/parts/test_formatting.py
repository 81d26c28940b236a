"""What a new broker has in its data folder: what `kafka-storage format` would have written there."""

import re
from pathlib import Path

import pytest

from protocol.records.batches import batches, decode_records
from shim.demo.parts import Broker, JarSet, formatting, java_tool
from shim.demo.parts.formatting import FEATURES, features


def _identity(data: Path) -> dict[str, str]:
    lines = (data / "meta.properties").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if not line.startswith("#"))


def _records(data: bytes) -> list[tuple[bytes | None, bytes | None]]:
    return [(each.key, each.value) for at, _ in batches(data) for each in decode_records(data, at)]


def test_it_is_what_kafkas_tool_writes(broker: Broker, tmp_path: Path) -> None:
    settings = (broker.folder / "server.properties").read_text()
    properties, theirs = tmp_path / "server.properties", tmp_path / "theirs"
    properties.write_text(re.sub(r"(?m)^log\.dirs=.*$", f"log.dirs={theirs}", settings))
    java_tool("kafka.tools.StorageTool", "format", f"--cluster-id={broker.quorum.cluster_id}", "-c", str(properties))
    of_ours, of_theirs = _identity(broker.data), _identity(theirs)
    assert len(of_ours.pop("directory.id")) == len(of_theirs.pop("directory.id"))
    assert of_ours == of_theirs
    assert {each.name for each in theirs.iterdir()} == {"meta.properties", FEATURES}
    written = (theirs / FEATURES).read_bytes()
    assert _records(written) == _records((broker.data / FEATURES).read_bytes())


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[JarSet]:
    """The jar sets whose tool was run."""
    asked: list[JarSet] = []

    def make(jars: JarSet, _: Path) -> bytes:
        asked.append(jars)
        return b"%d" % len(asked)

    monkeypatch.setattr(formatting, "_made", make)
    return asked


def test_it_is_made_once(made: list[JarSet], tmp_path: Path) -> None:
    jars = JarSet("some-set", tmp_path, ())
    assert [features(jars), features(jars)] == [b"1", b"1"]
    assert [each.name for each in tmp_path.iterdir()] == [FEATURES]


def test_a_cache_that_cannot_be_written_is_no_obstacle(made: list[JarSet], tmp_path: Path) -> None:
    jars = JarSet("some-set", tmp_path / "absent", ())
    assert [features(jars), features(jars)] == [b"1", b"2"]
