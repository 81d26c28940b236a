"""Copies of the template: each goes its way by its command line, where it was asked for, and ends with who asked."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shim.demo.parts import free_port
from shim.demo.parts.process import Child
from tests.parts.ended import ends_within
from tests.template import Template
from tests.waiting import wait_until

_PARENT = """
import pathlib, signal, sys
from shim.demo.parts.process import Child
from tests.template import Template
with pathlib.Path(sys.argv[1]).open("ab") as log:
    child = Child(sys.argv[2:], stderr=log, spawned_by=Template().spawn)
print(child.pid, flush=True)
signal.pause()
"""
_SECONDS = 30


@pytest.fixture(scope="module")
def template() -> Iterator[Template]:
    made = Template()
    yield made
    made.end()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def serving(tmp_path: Path) -> list[str]:
    """A command line of one that looks for a broker for ever."""
    listen = f"127.0.0.1:{free_port()}"
    return ["offset-shim", "serve", "--bootstrap-servers", "127.0.0.1:1", "--listen", listen, "--data-dir", "data"]


def begun(template: Template, argv: list[str], log: Path, said: list[str], cwd: Path | None = None) -> Child:
    with log.open("ab") as stderr:
        return Child(argv, stderr=stderr, on_line=said.append, cwd=cwd, spawned_by=template.spawn)


def test_what_it_says_and_its_exit_status(template: Template, log: Path) -> None:
    said: list[str] = []
    for argv, status in ((["config", "--describe", "--json"], 0), (["serve", "--listen", "nowhere"], 2)):
        child = begun(template, ["offset-shim", *argv], log, said)
        assert child.wait(_SECONDS)
        assert child.returncode == status
    assert json.loads("\n".join(said))
    assert log.read_text().startswith("Error: ")


def test_where_it_is_and_what_is_in_its_environment(
    template: Template, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OFFSET_SHIM_OFFSETS_TOPIC_NUM_PARTITIONS", "3")
    child = begun(template, serving(tmp_path), log, [], cwd=tmp_path)
    wait_until(lambda: "loaded 3 partitions" in log.read_text())
    assert (tmp_path / "data").exists()
    assert os.getsid(child.pid) == child.pid
    child.stop(_SECONDS)
    assert child.returncode == 0


def test_a_signal_ends_one_of_them(template: Template, log: Path, tmp_path: Path) -> None:
    first, second = (begun(template, serving(tmp_path), log, [], cwd=tmp_path / name) for name in _two(tmp_path))
    wait_until(lambda: log.read_text().count("no broker can be reached") == 2)
    os.kill(first.pid, signal.SIGKILL)
    assert first.wait(_SECONDS)
    assert first.returncode == -signal.SIGKILL
    assert second.running
    second.stop(_SECONDS)
    assert second.returncode == 0


def _two(folder: Path) -> Iterator[str]:
    for name in ("first", "second"):
        (folder / name).mkdir()
        yield name


def test_it_ends_with_who_asked_for_it(log: Path, tmp_path: Path) -> None:
    argv = [sys.executable, "-c", _PARENT, str(log), *serving(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=environment) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert not ends_within(child, 0)
        parent.send_signal(signal.SIGKILL)
    assert ends_within(child, _SECONDS)
